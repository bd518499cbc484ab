"""`fleet-smi doctor`: what was checked, what is wrong, and what to do."""

from collections.abc import Iterator, Sequence

from fleet_smi.model.doctor_result import DoctorResult, DoctorStatus
from fleet_smi.terminal.paint import Paint, Span, TextRole, align_left, display_width, wrap
from fleet_smi.terminal.view.formatting import join_wrapped, pluralize

_ROLES: dict[DoctorStatus, TextRole] = {
    "PASS": "good",
    "WARN": "warn",
    "FAIL": "broken",
    "SKIP": "dim",
}
_COUNTED: dict[DoctorStatus, str] = {
    "PASS": "passed",
    "WARN": "to look at",
    "FAIL": "failed",
    "SKIP": "skipped",
}
_GAP = "  "
_STATUS = 4
_ID_AT_MOST = 24
_WORDS_AT_LEAST = 24


def render(findings: Sequence[DoctorResult], columns: int, paint: Paint) -> str:
    """The whole list, ending in a newline; long sentences are folded, never cut."""
    room = min(_ID_AT_MOST, max((display_width(finding.id) for finding in findings), default=0))
    lines = [line for finding in findings for line in _lines(finding, room, columns)]
    lines += join_wrapped(_count(findings), columns)
    return "".join(paint.line(line, columns) + "\n" for line in lines)


def _lines(finding: DoctorResult, room: int, columns: int) -> Iterator[list[Span]]:
    indent = _STATUS + room + 2 * len(_GAP)
    if columns - indent < _WORDS_AT_LEAST:
        indent = _STATUS + len(_GAP)
        yield [*_start(finding), (finding.id, "dim")]
        start = None
    else:
        start = [*_start(finding), (align_left(finding.id, room) + _GAP, "dim")]
    for text in wrap(finding.words, columns - indent):
        yield [*(start or [(" " * indent, None)]), (text, None)]
        start = None
    for at, text in enumerate(wrap(finding.remedy or "", columns - indent - 2)):
        yield [(" " * indent + ("  " if at else "→ "), "title"), (text, None)]


def _start(finding: DoctorResult) -> list[Span]:
    return [(finding.status, _ROLES[finding.status]), (_GAP, None)]


def _count(findings: Sequence[DoctorResult]) -> list[Span]:
    statuses = [finding.status for finding in findings]
    parts: list[Span] = [(pluralize(len(findings), "check"), "title")]
    for status, word in _COUNTED.items():
        if count := statuses.count(status):
            parts.append((f"{count} {word}", _ROLES[status]))
    return parts
