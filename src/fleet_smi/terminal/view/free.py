"""Screen of `fleet-smi free -v`: the offered GPUs, and why the others are not."""

from collections.abc import Iterator, Sequence
from shlex import quote

from fleet_smi.model.candidates import Candidate, OfferedDevice
from fleet_smi.model.fleet import State, Verdict
from fleet_smi.model.select import BriefOffer, Offer, Rejection
from fleet_smi.model.units import UNKNOWN, format_elapsed, format_size
from fleet_smi.terminal.paint import Paint, Span, align_left, align_right, display_width, wrap
from fleet_smi.terminal.view.formatting import (
    ToLocalTime,
    format_moment,
    short_model,
    to_local_time,
)

_GAP = "   "
_MAX_LABEL_WIDTH = 32
_MIN_MODEL_WIDTH = 9
_STATE, _MEMORY, _MODEL, _TEMPERATURE, _SSH = range(1, 6)  # columns, after the label
_Line = list[Span]


def render(
    offer: Offer | BriefOffer,
    columns: int,
    paint: Paint,
    *,
    now: float,
    local_node_id: str | None = None,
    local: ToLocalTime = to_local_time,
) -> str:
    """Return the whole screen, ending in a newline; the local node gets no ssh command."""
    labels = [candidate.label for candidate in offer.offered]
    labels += [_label(rejection) for rejection in offer.refused]
    label_width = min(_MAX_LABEL_WIDTH, max(map(display_width, labels), default=0))
    lines: list[_Line] = [[("OFFERED", "head")]]
    if offer.offered and offer.reason:
        lines[0] += [(_GAP, None), (offer.reason, "dim")]
    lines += _offered_lines(offer.offered, label_width, columns, now, local_node_id, local)
    if offer.refused:
        lines.append([("NOT OFFERED", "head")])
        for rejection in offer.refused:
            lines += _rejection_lines(rejection, label_width, columns)
    return "".join(paint.line(line, columns) + "\n" for line in lines)


def _offered_lines(
    candidates: Sequence[Candidate | OfferedDevice],
    label_width: int,
    columns: int,
    now: float,
    local_node_id: str | None,
    local: ToLocalTime,
) -> Iterator[_Line]:
    if not candidates:
        yield [("nothing", "dim")]
        return
    table = [_cells(candidate, now, local_node_id, local) for candidate in candidates]
    widths = [max(map(display_width, column)) for column in zip(*table, strict=True)]
    widths[0] = label_width
    _shrink(widths, columns)
    for candidate, cells in zip(candidates, table, strict=True):
        yield _line(cells, widths, _verdict(candidate, now).state)


def _line(cells: Sequence[str], widths: Sequence[int], state: State) -> _Line:
    line: _Line = []
    for at, (cell, width) in enumerate(zip(cells, widths, strict=True)):
        if width:
            align = align_right if at in (_MEMORY, _TEMPERATURE) else align_left
            line += [(align(cell, width), state if at == _STATE else None), (_GAP, None)]
    return line


def _shrink(widths: list[int], columns: int) -> None:
    """Make the columns fit: shorten the model's name, then drop whole columns."""
    missing = _total_width(widths) - columns
    widths[_MODEL] -= min(max(0, missing), max(0, widths[_MODEL] - _MIN_MODEL_WIDTH))
    for at in (_SSH, _TEMPERATURE):
        if _total_width(widths) > columns:
            widths[at] = 0


def _total_width(widths: Sequence[int]) -> int:
    return sum(width + len(_GAP) for width in widths if width) - len(_GAP)


def _cells(
    candidate: Candidate | OfferedDevice, now: float, local_node_id: str | None, local: ToLocalTime
) -> tuple[str, ...]:
    free, celsius = candidate.free_memory_bytes, candidate.temperature_celsius
    return (
        candidate.label,
        _state(candidate, now, local),
        UNKNOWN if free is None else format_size(free),
        short_model(candidate.model) if candidate.model else UNKNOWN,
        UNKNOWN if celsius is None else f"{celsius:.0f}°",
        "" if candidate.node_id == local_node_id else _ssh_command(candidate.node),
    )


def _ssh_command(node: str) -> str:
    """Return a command to copy, safe for any node name: nodes choose their own names."""
    return f"ssh -- {quote(node)}" if node.startswith("-") else f"ssh {quote(node)}"


def _verdict(candidate: Candidate | OfferedDevice, now: float) -> Verdict:
    return candidate.verdict or Verdict(state="unknown", reason="not sent", since=now)


def _state(candidate: Candidate | OfferedDevice, now: float, local: ToLocalTime) -> str:
    verdict = _verdict(candidate, now)
    lasted = now - verdict.since
    # Judged by a single sample, the state begins now: its real start is not known.
    if lasted < 1:
        return verdict.state
    since = format_moment(verdict.since, now, local)
    return f"{verdict.state} since {since} ({format_elapsed(lasted)})"


def _label(rejection: Rejection) -> str:
    if rejection.index is None:
        return f"{rejection.node}:*"
    label = f"{rejection.node}:{rejection.index}"
    return label if rejection.part is None else f"{label}:{rejection.part}"


def _rejection_lines(rejection: Rejection, label_width: int, columns: int) -> Iterator[_Line]:
    indent = label_width + len(_GAP)
    start = align_left(_label(rejection), label_width) + _GAP
    for text in wrap(rejection.words, max(1, columns - indent)) or [""]:
        yield [(start, None), (text, "dim")]
        start = " " * indent
