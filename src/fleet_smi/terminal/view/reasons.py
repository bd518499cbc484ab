"""Reason lines below a GPU's row (`-v`): the verdict, the remedy, what was not measured."""

from collections.abc import Iterator

from fleet_smi.model.fleet import JudgedGpu, JudgedInstance, Verdict
from fleet_smi.model.units import format_elapsed
from fleet_smi.terminal.paint import Span, wrap
from fleet_smi.terminal.view.formatting import ToLocalTime, format_moment

_INDENT = 4
_MEASUREMENTS = {
    "busy_percent": "utilisation",
    "temperature_celsius": "temperature",
    "power_watts": "power",
    "memory_used_bytes": "memory",
    "processes": "processes",
}


def reason_lines(
    device: JudgedGpu | JudgedInstance, now: float, columns: int, local: ToLocalTime
) -> Iterator[list[Span]]:
    """Yield the wrapped lines of one GPU or instance."""
    for sentence in _sentences(device, now, local):
        for at, text in enumerate(wrap(sentence, columns - _INDENT - 2)):
            yield [(" " * (_INDENT + 2 * (at > 0)) + text, "dim")]


def _sentences(device: JudgedGpu | JudgedInstance, now: float, local: ToLocalTime) -> Iterator[str]:
    yield _verdict(device.verdict, now, local)
    remedy = device.fault.remedy if isinstance(device, JudgedGpu) and device.fault else None
    if remedy and remedy.casefold() not in device.verdict.reason.casefold():
        yield f"→ {remedy}"
    missing = [
        f"{label} ({device.unread[field]})"
        for field, label in _MEASUREMENTS.items()
        if field in device.unread
    ]
    if missing:
        yield f"not measured: {', '.join(missing)}"


def _verdict(verdict: Verdict, now: float, local: ToLocalTime) -> str:
    text = "; ".join((verdict.reason, *(note.words for note in verdict.notes)))
    lasted = now - verdict.since
    if lasted < 1:
        return text
    return f"{text} (since {format_moment(verdict.since, now, local)}, {format_elapsed(lasted)})"
