"""Why a GPU is in its state: the lines under a row when asked for."""

from collections.abc import Iterator

from fleet_smi.model.fleet import JudgedGpu, JudgedInstance, Verdict
from fleet_smi.terminal.paint import Span, wrap
from fleet_smi.terminal.view.formatting import ToLocalTime, format_elapsed, format_moment

_INDENT = 4
_SHOWN = {
    "busy_percent": "utilisation",
    "temperature_celsius": "temperature",
    "power_watts": "power",
    "memory_used_bytes": "memory",
    "processes": "processes",
}


def reason_lines(
    device: JudgedGpu | JudgedInstance, now: float, columns: int, local: ToLocalTime
) -> Iterator[list[Span]]:
    """The verdict's words, what to do about a fault, and why something was not measured."""
    for sentence in _sentences(device, now, local):
        for at, text in enumerate(wrap(sentence, columns - _INDENT - 2)):
            yield [(" " * (_INDENT + 2 * (at > 0)) + text, "dim")]


def _sentences(part: JudgedGpu | JudgedInstance, now: float, local: ToLocalTime) -> Iterator[str]:
    yield _verdict(part.verdict, now, local)
    remedy = part.fault.remedy if isinstance(part, JudgedGpu) and part.fault else None
    if remedy and remedy not in part.verdict.reason:
        yield f"→ {remedy}"
    missing = [
        f"{word} ({part.unread[name]})" for name, word in _SHOWN.items() if name in part.unread
    ]
    if missing:
        yield f"not measured: {', '.join(missing)}"


def _verdict(verdict: Verdict, now: float, local: ToLocalTime) -> str:
    words = "; ".join((verdict.reason, *(note.words for note in verdict.notes)))
    lasted = now - verdict.since
    if lasted < 1:
        return words
    return f"{words} (since {format_moment(verdict.since, now, local)}, {format_elapsed(lasted)})"
