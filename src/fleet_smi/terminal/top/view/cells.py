"""The cell of a GPU: who is on it, how busy it is, how full; one or two rows, any width.

The background tells what the page's cells tell: its filled part is the memory in use, and its
strength the load. Every state has a mark too, so that no colour is needed.
"""

from fleet_smi.model.fleet import JudgedGpu, State
from fleet_smi.model.people import owners
from fleet_smi.model.units import GIB, MAX_SECONDS
from fleet_smi.terminal.paint import align_left, display_width, strip_unprintable, truncate
from fleet_smi.terminal.top.spans import TopLine, TopSpan

MARKS: dict[State, str] = {
    "free": "○",
    "leased": "◇",
    "busy": "●",
    "held": "‖",
    "ghost": "◌",
    "broken": "✕",
    "unknown": "?",
}
LOAD_LEVELS = 5
_MIN_TEXT = 5  # columns: a narrower cell has only a mark, or a number
_MARKED_BUSY = 10
_MIN_ELLIPSIS = 7


def short_elapsed(seconds: float | None) -> str:
    """Return a duration in four columns: "40s", "26m", "3h", "12d"; empty if it is unknown."""
    if seconds is None or not 0 <= seconds < MAX_SECONDS:
        return ""
    for unit, length in (("d", 86400), ("h", 3600), ("m", 60)):
        if seconds >= length:
            return f"{seconds // length:.0f}{unit}"
    return f"{seconds:.0f}s"


def holder_name(gpu: JudgedGpu) -> str:
    """Return the name that stands for a GPU: its first user, or who has leased it."""
    users = owners(gpu.processes) if gpu.processes else ()
    if users:
        return users[0] + (f"+{len(users) - 1}" if len(users) > 1 else "")
    if gpu.lease is not None:
        return gpu.lease.holder
    reason = gpu.verdict.reason
    if gpu.verdict.state == "leased" and reason.startswith("taken by "):
        return reason.removeprefix("taken by ").split()[0].rstrip(":,")
    return ""


def load_level(gpu: JudgedGpu) -> int:
    """Return the load as one of five levels; 0 where it is not measured."""
    if gpu.busy_percent is None:
        return 0
    return 1 + min(LOAD_LEVELS - 1, int(gpu.busy_percent * LOAD_LEVELS / 100))


def cell_lines(gpu: JudgedGpu, width: int, rows: int, now: float) -> list[TopLine]:
    """Return a cell of exactly `width` columns and one or two rows."""
    texts = _texts(gpu, width, now, rows)[:rows]
    return [_filled(gpu, align_left(text, width)) for text in texts]


def _texts(gpu: JudgedGpu, width: int, now: float, rows: int) -> tuple[str, str]:
    """Return both rows; what the second one says is not in the first."""
    state = gpu.verdict.state
    if width < _MIN_TEXT:
        return _tiny(gpu, width), ""
    if gpu.instances:
        return _instances(gpu, width), _sides(f"{len(gpu.instances)} MIG", "", width)
    if state == "busy":
        return _busy(gpu, width, rows)
    name = holder_name(gpu)
    idle = short_elapsed(gpu.verdict.idle_seconds)
    lasted = short_elapsed(now - gpu.verdict.since)
    if state == "free":
        what = "asleep" if gpu.asleep else "free"
        total = _total(gpu)
        first = _sides(f"○ {what}", total if rows == 1 else "", width)
        return first, _sides(f"for {lasted}", total, width)
    if state == "held":
        first = _sides(f"‖ {name or 'held'}", idle if rows == 1 else "", width)
        return first, _sides(f"idle {idle}", "", width)
    if state == "unknown":
        was = (gpu.verdict.was or "").removeprefix("busy ").strip("()")
        return _sides(f"? {was or 'unknown'}", "", width), _sides("", "", width)
    if state == "broken":
        kind = gpu.fault.kind.replace("_", " ") if gpu.fault else lasted
        return _sides("✕ broken", "", width), _sides(kind, "", width)
    memory = _used(gpu)
    label = name if state == "leased" and name else state
    return _sides(f"{MARKS[state]} {label}", "", width), _sides(memory, "", width)


def _busy(gpu: JudgedGpu, width: int, rows: int) -> tuple[str, str]:
    name = holder_name(gpu) or "unseen"
    load = "" if gpu.busy_percent is None else f"{gpu.busy_percent:.0f}"
    marked = f"● {name}" if width >= _MARKED_BUSY else name
    if rows > 1:
        return _sides(marked, "", width), _sides(_used(gpu), f"{load}%" if load else "", width)
    # A name is shortened for the load: whether a GPU is really used is half of the question.
    room = width - len(load) - 1
    return (f"{_cut(marked, room)} {load}" if load else truncate(marked, width)), ""


def _cut(text: str, width: int) -> str:
    """Return a text of exactly this width; a short one is cut without an ellipsis."""
    if width >= _MIN_ELLIPSIS:
        return align_left(text, width)
    head, _ = _split(strip_unprintable(text), width)
    return head + " " * (width - display_width(head))


def _used(gpu: JudgedGpu) -> str:
    if gpu.memory_used_bytes is None:
        return ""
    total = f"/{gpu.memory_total_bytes / GIB:.0f}" if gpu.memory_total_bytes else ""
    return f"{gpu.memory_used_bytes / GIB:.0f}{total}G"


def _total(gpu: JudgedGpu) -> str:
    return f"{gpu.memory_total_bytes / GIB:.0f}G" if gpu.memory_total_bytes else ""


def _instances(gpu: JudgedGpu, width: int) -> str:
    return truncate("".join([MARKS[each.verdict.state] for each in gpu.instances]), width)


def _tiny(gpu: JudgedGpu, width: int) -> str:
    """Return the load of a busy GPU, or the mark of its state."""
    state = gpu.verdict.state
    if state == "busy" and gpu.busy_percent is not None and width > 1 and not gpu.instances:
        load = f"{gpu.busy_percent:.0f}"
        return load.rjust(width) if len(load) <= width else "**"[:width].rjust(width)
    return MARKS[state].rjust(width)


def _sides(left: str, right: str, width: int) -> str:
    """Return both texts, the right one only where it leaves room for the other."""
    room = width - display_width(right) - 1
    if not right or room < display_width(left):
        return truncate(left, width)
    return align_left(left, room + 1) + right


def _filled(gpu: JudgedGpu, text: str) -> TopLine:
    state = gpu.verdict.state
    level = load_level(gpu) if state == "busy" else LOAD_LEVELS
    used, total = gpu.memory_used_bytes, gpu.memory_total_bytes
    share = used / total if used is not None and total else 0.0
    filled = round(min(1.0, max(0.0, share)) * display_width(text))
    head, tail = _split(text, filled)
    spans: list[TopSpan] = [(head, f"{state}.fill{level}"), (tail, f"{state}.cell")]
    return [span for span in spans if span[0]]


def _split(text: str, columns: int) -> tuple[str, str]:
    """Split a text after so many columns, or one earlier where a wide letter is in the way."""
    at = width = 0
    for character in text:
        width += display_width(character)
        if width > columns:
            break
        at += 1
    return text[:at], text[at:]
