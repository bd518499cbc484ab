"""Screen of `fleet-smi who`: users, the GPUs they hold, and how many of those are idle."""

from collections.abc import Iterator, Sequence

from fleet_smi.model.people import Holding, PeopleView, Person
from fleet_smi.model.units import GIB, UNKNOWN, format_elapsed, pluralize
from fleet_smi.terminal.paint import (
    Paint,
    Span,
    TextRole,
    align_left,
    align_right,
    display_width,
    wrap,
)
from fleet_smi.terminal.view import process_lines
from fleet_smi.terminal.view.formatting import (
    SEPARATOR,
    ToLocalTime,
    format_moment,
    format_percent,
    short_model,
    to_local_time,
)
from fleet_smi.terminal.view.gpu_cells import memory_cell

_HEADS = ("WHO", "GPUS NOW", "NODES", "MEMORY", "UTIL", "IDLE-HELD", "SINCE")
_RIGHT_ALIGNED = ("GPUS NOW", "MEMORY", "UTIL")
_GAP = "  "
_MAX_NAME_WIDTH, _MIN_WIDTH = 20, 8
_NAME, _NODES = 0, 2
_Line = list[Span]


def render(
    view: PeopleView,
    columns: int,
    paint: Paint,
    *,
    user: str | None = None,
    historical: bool = False,
    local: ToLocalTime = to_local_time,
) -> str:
    """Return the whole screen, ending in a newline; no line is wider than `columns`.

    With `user`, `view` must be of this user alone: the screen then lists each GPU and process.
    `historical` puts it in the past tense.
    """
    lines = who_lines(view, columns, user=user, historical=historical, local=local)
    return "".join(paint.line(line, columns) + "\n" for line in lines)


def who_lines(
    view: PeopleView,
    columns: int,
    *,
    user: str | None = None,
    historical: bool = False,
    local: ToLocalTime = to_local_time,
) -> list[_Line]:
    """Return the lines of that screen as spans."""
    if user is None:
        lines = _all_users(view, columns, local, past=historical)
    else:
        lines = _one_user(view, user, columns, local, past=historical)
    return [*lines, *_failures(view, columns), *_silent(view.silent)]


def _failures(view: PeopleView, columns: int) -> Iterator[_Line]:
    """Yield what could not be read: an empty list of users may be incomplete."""
    for failure in view.failures:
        for text in wrap(failure, columns - 2):
            yield [("  " + text, "warn")]


def _all_users(view: PeopleView, columns: int, local: ToLocalTime, *, past: bool) -> list[_Line]:
    people = view.people
    if not people:
        return [[(_nothing_held(view, "Nobody", "a GPU", past=past), None)]]
    table = [_cells(person, view.taken_at, local) for person in people]
    widths = _widths(table, columns)
    heads = [head.removesuffix(" NOW") for head in _HEADS] if past else _HEADS
    lines: list[_Line] = [[(_join(heads, widths), "head")]]
    for person, cells in zip(people, table, strict=True):
        role: TextRole | None = "held" if person.idle_gpus else None
        # The row of processes whose owners are hidden is not a person.
        lines.append([(_join(cells, widths), role if person.seen else "unknown")])
    return lines


def _cells(person: Person, now: float, local: ToLocalTime) -> tuple[str, ...]:
    return (
        person.user,
        str(person.gpus),
        " ".join(person.nodes),
        _whole_gib(person.memory_bytes),
        format_percent(person.busy_percent),
        _idle(person.idle_gpus, person.idle_seconds),
        _since(person, now, local),
    )


def _since(person: Person, now: float, local: ToLocalTime) -> str:
    if person.since is not None:
        return format_moment(person.since, now, local)
    return UNKNOWN if person.seen else "may not be seen"


def _whole_gib(size: int | None) -> str:
    return UNKNOWN if size is None else f"{size / GIB:.0f} GiB"


def _idle(gpus: int, seconds: float | None) -> str:
    if not gpus:
        return UNKNOWN
    return str(gpus) if seconds is None else f"{gpus} for {format_elapsed(seconds)}"


def _idle_title(gpus: int, seconds: float | None) -> str:
    return f"{gpus} idle" if seconds is None else f"{gpus} idle for {format_elapsed(seconds)}"


def _widths(table: Sequence[tuple[str, ...]], columns: int) -> list[int]:
    """Return the widths of the columns; the nodes are shortened first, then the names."""
    widths = [max(map(display_width, column)) for column in zip(_HEADS, *table, strict=True)]
    widths[_NAME] = min(widths[_NAME], _MAX_NAME_WIDTH)
    for at in (_NODES, _NAME):
        missing = sum(widths) + len(_GAP) * (len(widths) - 1) - columns
        widths[at] -= min(max(0, missing), max(0, widths[at] - _MIN_WIDTH))
    return widths


def _join(cells: Sequence[str], widths: Sequence[int]) -> str:
    return _GAP.join(
        (align_right if head in _RIGHT_ALIGNED else align_left)(cell, width)
        for head, cell, width in zip(_HEADS, cells, widths, strict=True)
    )


def _one_user(
    view: PeopleView, user: str, columns: int, local: ToLocalTime, *, past: bool
) -> list[_Line]:
    # A view of one user has at most that one person.
    for person in view.people:
        return [_title(person, view.taken_at, local), *_details(view.holdings, columns)]
    return [[(_nothing_held(view, user, "no GPU", past=past), None)]]


def _nothing_held(view: PeopleView, who: str, what: str, *, past: bool) -> str:
    text = f"{who} held {what} then" if past else f"{who} holds {what} now"
    if view.summary.nodes < 2:
        return f"{text}."
    reporting = pluralize(view.summary.nodes_reporting, "node")
    return f"{text} on the {reporting} that {'reported' if past else 'report'}."


def _title(person: Person, now: float, local: ToLocalTime) -> _Line:
    _, _, nodes, memory, busy, _, since = _cells(person, now, local)
    idle = _idle_title(person.idle_gpus, person.idle_seconds) if person.idle_gpus else ""
    parts = [
        f"{pluralize(person.gpus, 'GPU')} on {nodes}",
        memory,
        f"{busy} busy",
        idle,
        f"since {since}" if person.since is not None else "",
    ]
    return [(person.user, "title"), *((SEPARATOR + part, None) for part in parts if part)]


def _details(holdings: Sequence[Holding], columns: int) -> Iterator[_Line]:
    labels = [f"{holding.node.name}:{holding.gpu.index}" for holding in holdings]
    label_width = max(map(display_width, labels))
    cells = [
        memory_cell(holding.memory_bytes, holding.gpu.memory_total_bytes, shared=False)
        for holding in holdings
    ]
    used_width = max(len(memory.used) for memory in cells)
    for label, holding, memory in zip(labels, holdings, cells, strict=True):
        state = holding.gpu.verdict.state
        total = f"/{memory.total} GiB" if memory.total else " GiB"
        model = short_model(holding.gpu.name) if holding.gpu.name else "GPU"
        idle = f"idle {format_elapsed(holding.idle_seconds)}" if holding.idle_seconds else ""
        yield [
            (align_left(label, label_width) + _GAP, "title"),
            (align_left(state, 6) + _GAP, state),
            (align_right(format_percent(holding.busy_percent), 4) + _GAP, None),
            (align_right(memory.used, used_width) + total + _GAP + model + _GAP, None),
            (idle, "held"),
        ]
        yield from process_lines.process_list_lines(holding.processes, holding.node, columns)


def _silent(names: Sequence[str]) -> list[_Line]:
    if not names:
        return []
    verb = "is" if len(names) == 1 else "are"
    return [[(f"Not counted: {' '.join(names)}, which {verb} silent.", "warn")]]
