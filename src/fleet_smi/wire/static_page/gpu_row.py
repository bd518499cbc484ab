"""Render one GPU or MIG instance as a row of its node's card, with details on hover and focus."""

from collections.abc import Iterator

from fleet_smi.model.fleet import JudgedDevice, JudgedGpu, JudgedInstance
from fleet_smi.model.units import UNKNOWN, format_elapsed, pluralize
from fleet_smi.wire.static_page.formatting import (
    PageClock,
    format_owners,
    format_percent,
    gib_or_unknown,
    usage_by_owner,
)
from fleet_smi.wire.static_page.glyphs import glyph
from fleet_smi.wire.static_page.markup import Html, element

_LOAD_STEPS = 5


def render_rows(gpu: JudgedGpu, clock: PageClock) -> Iterator[Html]:
    """Yield the row of a GPU, then those of its instances."""
    yield _row(gpu, str(gpu.index), clock, "gpu")
    for instance in gpu.instances:
        yield _row(instance, instance.profile or "MIG", clock, "gpu slice")


def _row(part: JudgedDevice, label: str, clock: PageClock, kind: str) -> Html:
    state = part.verdict.state
    return element(
        "li",
        _fill(part),
        glyph(state),
        element("b", label, class_="index"),
        element("span", state, class_="state"),
        element("span", _summary(part, clock), class_="who"),
        element("span", *_memory(part), class_="memory"),
        element("span", format_percent(part.busy_percent), class_="load"),
        _details(part, label, clock),
        class_=f"{kind} is-{state}{_load_class(part)}",
        tabindex=0,  # focusable: without a script, details open on hover or focus
    )


def _fill(part: JudgedDevice) -> Html | None:
    """Return the memory in use, as the background of the row."""
    used, total = part.memory_used_bytes, part.memory_total_bytes
    if not used or not total:
        return None
    level = element("rect", width=f"{min(100.0, 100 * used / total):.1f}", height=1)
    box = {"viewBox": "0 0 100 1", "preserveAspectRatio": "none"}
    return element("svg", level, class_="fill", aria_hidden="true", **box)


def _load_class(part: JudgedDevice) -> str:
    """Return the class of one of five load levels, for a busy GPU."""
    if part.verdict.state != "busy" or part.busy_percent is None:
        return ""
    return f" load-{min(_LOAD_STEPS, 1 + int(part.busy_percent * _LOAD_STEPS / 100))}"


def _memory(part: JudgedDevice) -> Iterator[str]:
    used, total = part.memory_used_bytes, part.memory_total_bytes
    yield gib_or_unknown(used)
    if total is not None:
        yield element("i", f"/{gib_or_unknown(total)}")
    if used is not None or total is not None:
        yield " GiB"


def _summary(part: JudgedDevice, clock: PageClock) -> str:
    verdict = part.verdict
    if verdict.state == "free":
        return "asleep" if isinstance(part, JudgedGpu) and part.asleep else _free(part, clock)
    if verdict.state == "unknown":
        return verdict.reason if verdict.was is None else f"was {verdict.was}"
    if isinstance(part, JudgedGpu) and part.instances:
        free = sum(instance.verdict.state == "free" for instance in part.instances)
        return f"{free} of {pluralize(len(part.instances), 'instance')} free"
    if verdict.state == "ghost":
        return format_owners(part) or "no owner"
    if verdict.state in ("busy", "held"):
        return _held_by(part)
    return verdict.reason


def _free(part: JudgedDevice, clock: PageClock) -> str:
    since = clock.format_age(part.verdict.since)
    return "" if since == UNKNOWN else f"for {since}"


def _held_by(part: JudgedDevice) -> str:
    owners, verdict = format_owners(part) or part.verdict.reason, part.verdict
    if verdict.state == "busy":
        return owners
    return f"{owners} · idle {format_elapsed(verdict.idle_seconds)}"


def _details(part: JudgedDevice, label: str, clock: PageClock) -> Html:
    """Return what hover and focus show: reason, owners and figures."""
    verdict = part.verdict
    notes = [element("p", note.words) for note in verdict.notes]
    return element(
        "div",
        element("h3", glyph(verdict.state), f"{verdict.state} · {_title(part, label)}"),
        element("p", verdict.reason),
        *notes,
        _table("people", usage_by_owner(part)),
        _table("figures", _figures(part, clock)),
        _device(part),
        class_="more",
    )


def _title(part: JudgedDevice, label: str) -> str:
    return f"GPU {label}" if isinstance(part, JudgedGpu) else label


def _table(kind: str, pairs: list[tuple[str, str]]) -> Html | None:
    if not pairs:
        return None
    cells = (cell for name, text in pairs for cell in (element("dt", name), element("dd", text)))
    return element("dl", *cells, class_=kind)


def _figures(part: JudgedDevice, clock: PageClock) -> list[tuple[str, str]]:
    used, total = part.memory_used_bytes, part.memory_total_bytes
    share = f" ({100 * used / total:.0f} %)" if used is not None and total else ""
    figures = [
        ("Memory", f"{gib_or_unknown(used)} of {gib_or_unknown(total)} GiB{share}"),
        ("Load", format_percent(part.busy_percent)),
    ]
    if not isinstance(part, JudgedInstance):
        figures += [
            ("Temperature", _with_unit(part.temperature_celsius, "°C")),
            (
                "Power",
                f"{_with_unit(part.power_watts, '')} of {_with_unit(part.power_limit_watts, 'W')}",
            ),
        ]
    return [*figures, ("Since", clock.format_time(part.verdict.since))]


def _with_unit(value: float | None, unit: str) -> str:
    return UNKNOWN if value is None else f"{value:.0f} {unit}".strip()


def _device(part: JudgedDevice) -> Html:
    name = part.name if isinstance(part, JudgedGpu) else part.profile
    return element("p", f"{name or 'GPU'} ", element("code", part.uuid), class_="device")
