"""`fleet-smi free -v`: what is offered and why the rest is not."""

from collections.abc import Iterator, Sequence
from shlex import quote

from fleet_smi.model.fleet import State
from fleet_smi.model.select import Candidate, Offer, Rejection
from fleet_smi.model.units import format_size
from fleet_smi.terminal.paint import Paint, Span, align_left, align_right, display_width, wrap
from fleet_smi.terminal.view.formatting import (
    UNKNOWN,
    ToLocalTime,
    format_elapsed,
    format_moment,
    short_model,
    to_local_time,
)

_GAP = "   "
_LABEL_AT_MOST = 32
_MODEL_AT_LEAST = 9
_STATE, _MEMORY, _MODEL, _TEMPERATURE, _SSH = range(1, 6)
_Line = list[Span]


def render(
    offer: Offer,
    columns: int,
    paint: Paint,
    *,
    now: float,
    local_node_id: str | None = None,
    local: ToLocalTime = to_local_time,
) -> str:
    """The whole screen, ending in a newline; `here` is the id of the node we are on."""
    labels = [one.label for one in offer.offered] + [_refused(one) for one in offer.refused]
    room = min(_LABEL_AT_MOST, max(map(display_width, labels), default=0))
    lines: list[_Line] = [[("OFFERED", "head")]]
    lines += _offered(offer.offered, room, columns, now, local_node_id, local)
    if offer.refused:
        lines.append([("NOT OFFERED", "head")])
        lines += [line for one in offer.refused for line in _not_offered(one, room, columns)]
    return "".join(paint.line(line, columns) + "\n" for line in lines)


def _offered(
    candidates: Sequence[Candidate],
    room: int,
    columns: int,
    now: float,
    here: str | None,
    local: ToLocalTime,
) -> Iterator[_Line]:
    if not candidates:
        yield [("nothing", "dim")]
        return
    table = [_cells(one, now, here, local) for one in candidates]
    widths = [max(map(display_width, column)) for column in zip(*table, strict=True)]
    widths[0] = room
    _shrink(widths, columns)
    for one, cells in zip(candidates, table, strict=True):
        yield _line(cells, widths, one.judged.verdict.state)


def _line(cells: Sequence[str], widths: Sequence[int], state: State) -> _Line:
    line: _Line = []
    for at, (cell, room) in enumerate(zip(cells, widths, strict=True)):
        if room:
            put = align_right if at in (_MEMORY, _TEMPERATURE) else align_left
            line += [(put(cell, room), state if at == _STATE else None), (_GAP, None)]
    return line


def _shrink(widths: list[int], columns: int) -> None:
    """Make the columns fit: the model's name gives way, then whole columns go."""
    missing = _taken(widths) - columns
    widths[_MODEL] -= min(max(0, missing), max(0, widths[_MODEL] - _MODEL_AT_LEAST))
    for at in (_SSH, _TEMPERATURE):
        if _taken(widths) > columns:
            widths[at] = 0


def _taken(widths: Sequence[int]) -> int:
    return sum(room + len(_GAP) for room in widths if room) - len(_GAP)


def _cells(one: Candidate, now: float, here: str | None, local: ToLocalTime) -> tuple[str, ...]:
    free, celsius = one.free_memory_bytes, one.temperature_celsius
    return (
        one.label,
        _state(one, now, local),
        UNKNOWN if free is None else format_size(free),
        short_model(one.model) if one.model else UNKNOWN,
        UNKNOWN if celsius is None else f"{celsius:.0f}°",
        "" if one.node_id == here else _way(one.node),
    )


def _way(node: str) -> str:
    """The line to copy: a name that a shell or ssh would obey is only a name in it."""
    return f"ssh -- {quote(node)}" if node.startswith("-") else f"ssh {quote(node)}"


def _state(one: Candidate, now: float, local: ToLocalTime) -> str:
    verdict = one.judged.verdict
    lasted = now - verdict.since
    if lasted < 1:
        return verdict.state
    since = format_moment(verdict.since, now, local)
    return f"{verdict.state} since {since} ({format_elapsed(lasted)})"


def _refused(one: Rejection) -> str:
    if one.index is None:
        return f"{one.node}:*"
    label = f"{one.node}:{one.index}"
    return label if one.part is None else f"{label}:{one.part}"


def _not_offered(one: Rejection, room: int, columns: int) -> Iterator[_Line]:
    indent = room + len(_GAP)
    start = align_left(_refused(one), room) + _GAP
    for text in wrap(one.words, max(1, columns - indent)) or [""]:
        yield [(start, None), (text, "dim")]
        start = " " * indent
