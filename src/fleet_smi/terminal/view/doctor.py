"""Screen of `fleet-smi doctor`: one check per line, with its remedy, and a count."""

from collections.abc import Iterator, Sequence

from fleet_smi.model.doctor_result import DoctorResult, DoctorStatus
from fleet_smi.model.units import pluralize
from fleet_smi.terminal.paint import Paint, Span, TextRole, align_left, display_width, wrap
from fleet_smi.terminal.view.formatting import join_wrapped

_ROLES: dict[DoctorStatus, TextRole] = {
    "PASS": "good",
    "WARN": "warn",
    "FAIL": "broken",
    "SKIP": "dim",
}
_COUNT_LABELS: dict[DoctorStatus, str] = {
    "PASS": "passed",
    "WARN": "warning",
    "FAIL": "failed",
    "SKIP": "skipped",
}
_GAP = "  "
_STATUS_WIDTH = 4
_MAX_ID_WIDTH = 24
_MIN_TEXT_WIDTH = 24


def render(results: Sequence[DoctorResult], columns: int, paint: Paint) -> str:
    """Return the whole list, ending in a newline; long sentences are wrapped, never truncated."""
    ids = [display_width(result.id) for result in results]
    id_width = min(_MAX_ID_WIDTH, max(ids, default=0))
    lines = [line for result in results for line in _lines(result, id_width, columns)]
    lines += join_wrapped(_counts(results), columns)
    return "".join(paint.line(line, columns) + "\n" for line in lines)


def _lines(result: DoctorResult, id_width: int, columns: int) -> Iterator[list[Span]]:
    indent = _STATUS_WIDTH + id_width + 2 * len(_GAP)
    if columns - indent < _MIN_TEXT_WIDTH:
        # Too narrow for three columns: the text goes below the id.
        indent = _STATUS_WIDTH + len(_GAP)
        yield [*_status(result), (result.id, "dim")]
        start = None
    else:
        start = [*_status(result), (align_left(result.id, id_width) + _GAP, "dim")]
    for text in wrap(result.words, columns - indent):
        yield [*(start or [(" " * indent, None)]), (text, None)]
        start = None
    for at, text in enumerate(wrap(result.remedy or "", columns - indent - 2)):
        yield [(" " * indent + ("  " if at else "→ "), "title"), (text, None)]


def _status(result: DoctorResult) -> list[Span]:
    return [(result.status, _ROLES[result.status]), (_GAP, None)]


def _counts(results: Sequence[DoctorResult]) -> list[Span]:
    statuses = [result.status for result in results]
    parts: list[Span] = [(pluralize(len(results), "check"), "title")]
    for status, label in _COUNT_LABELS.items():
        if count := statuses.count(status):
            text = pluralize(count, label) if status == "WARN" else f"{count} {label}"
            parts.append((text, _ROLES[status]))
    return parts
