"""The detail pane: everything known of the chosen GPU, with the last minutes of its figures."""

from collections.abc import Sequence
from typing import NamedTuple

from fleet_smi.model.fleet import JudgedGpu, NodeView
from fleet_smi.model.units import GIB, UNKNOWN, format_elapsed, pluralize
from fleet_smi.terminal.paint import display_width, wrap
from fleet_smi.terminal.top.spans import TopLine, fit, width_of
from fleet_smi.terminal.top.trends import MAX_POINTS, TrendPoint
from fleet_smi.terminal.top.view.bars import bar, sparkline
from fleet_smi.terminal.top.view.cells import MARKS
from fleet_smi.terminal.view.formatting import ToLocalTime, format_moment, short_model
from fleet_smi.terminal.view.holder import holder_variants, longest_fitting

_GAP = "  "
_BAR = 10
_MIN_TREND = 8
_HOT_CELSIUS = 100.0
_VALUE = 16
_MEGABYTE, _GIGABYTE = 1e6, 1e9


def heading(name: str, gpu: JudgedGpu | None, columns: int) -> TopLine:
    """Return the rule above the pane: the GPU, its model, its state, and who has it."""
    if gpu is None:
        return rule([(name, "title")], columns)
    state = gpu.verdict.state
    model = short_model(gpu.name) if gpu.name else "GPU"
    head: TopLine = [
        (f"GPU {name}" if name == str(gpu.index) else f"{name}:{gpu.index}", "title"),
        (f"  {model}  ", None),
        (f"{MARKS[state]} {state}", state),
    ]
    room = columns - sum([display_width(text) for text, _ in head]) - 10
    who = longest_fitting(holder_variants(gpu), room) if room > 6 else ""
    if who and who != state:
        head.append((f"  {who}", None))
    return rule(head, columns)


def rule(title: Sequence[tuple[str, str | None]], columns: int) -> TopLine:
    """Return a horizontal line with a title in it."""
    line: TopLine = [("── ", "rule"), *title, (" ", None)]
    width = sum([display_width(text) for text, _ in line])
    return fit([*line, ("─" * max(0, columns - width), "rule")], columns)


class _Figure(NamedTuple):
    """One figure of the pane; `field` is its place in a point of the trend."""

    name: str
    value: float | None
    most: float | None
    text: str
    role: str
    field: str


def figure_lines(
    gpu: JudgedGpu, points: Sequence[TrendPoint], columns: int, *, stacked: bool
) -> list[TopLine]:
    """Return load, memory, power and temperature: a bar, the value, and the last minutes.

    `stacked` has one line per figure; otherwise two figures share a line.
    """
    wide = columns if stacked else columns // 2
    shown = [_figure_line(figure, points, wide) for figure in _figures(gpu)]
    if stacked:
        return shown
    return [
        fit([*one, *other], columns) for one, other in zip(shown[::2], shown[1::2], strict=True)
    ]


def _figures(gpu: JudgedGpu) -> tuple[_Figure, ...]:
    used, total, heat = gpu.memory_used_bytes, gpu.memory_total_bytes, gpu.temperature_celsius
    watts, limit = gpu.power_watts, gpu.power_limit_watts
    return (
        _Figure(
            "load", gpu.busy_percent, 100.0, _percent(gpu.busy_percent), "busy", "busy_percent"
        ),
        _Figure("memory", used, total, _memory(gpu), gpu.verdict.state, "memory_used_bytes"),
        _Figure("power", watts, limit, _power(gpu), "dim", "power_watts"),
        _Figure("heat", heat, _HOT_CELSIUS, _degrees(heat), "dim", "temperature_celsius"),
    )


def _figure_line(figure: _Figure, points: Sequence[TrendPoint], columns: int) -> TopLine:
    share = figure.value / figure.most if figure.value is not None and figure.most else None
    line: TopLine = [(f" {figure.name:<7}", "dim"), *bar(share, _BAR, figure.role)]
    line.append((f" {figure.text:<{_VALUE}}", None))
    room = min(MAX_POINTS, columns - width_of(line) - 1)
    if room >= _MIN_TREND and points:
        values = [getattr(point, figure.field) for point in points]
        line.append((sparkline(values, room, figure.most), figure.role))
    return fit(line, columns)


def brief_line(gpu: JudgedGpu, columns: int) -> TopLine:
    """Return the figures in one line."""
    texts = [
        f"load {_percent(gpu.busy_percent)}",
        f"memory {_memory(gpu)}",
        f"power {_power(gpu)}",
        _degrees(gpu.temperature_celsius),
        _throttling(gpu),
        _clock("SM", gpu.sm_clock_mhz, gpu.sm_clock_max_mhz),
        _link(gpu),
    ]
    return fit([(" " + " · ".join([text for text in texts if text]), None)], columns)


def fact_lines(
    node: NodeView, gpu: JudgedGpu, columns: int, now: float, local: ToLocalTime
) -> list[TopLine]:
    """Return the other figures, throttling, reason and remedy, wrapped."""
    lines: list[TopLine] = []
    for facts, role in ((_facts(gpu), None), (_reasons(gpu, now, local), "dim")):
        lines += _joined(facts, columns, role)
    if gpu.fault is not None and gpu.fault.remedy:
        lines += [[(f" → {text}", "warn")] for text in wrap(gpu.fault.remedy, columns - 4)]
    for text in (*node.warnings, *node.failures):
        lines += [[(f" {part}", "warn")] for part in wrap(text, columns - 2)]
    return [fit(line, columns) for line in lines]


def _joined(texts: Sequence[str], columns: int, role: str | None) -> list[TopLine]:
    lines: list[str] = []
    for text in texts:
        if lines and display_width(lines[-1]) + 3 + display_width(text) <= columns - 1:
            lines[-1] += f" · {text}"
        else:
            lines += wrap(text, columns - 2) or []
    return [[(f" {line}", role)] for line in lines]


def _facts(gpu: JudgedGpu) -> list[str]:
    facts = [
        _throttling(gpu),
        _clock("SM", gpu.sm_clock_mhz, gpu.sm_clock_max_mhz),
        _clock("memory", gpu.memory_clock_mhz, gpu.memory_clock_max_mhz),
        "" if gpu.memory_busy_percent is None else f"bandwidth {gpu.memory_busy_percent:.0f}%",
        _link(gpu),
        _traffic(gpu),
        _nvlink(gpu),
        "" if gpu.fan_percent is None else f"fan {gpu.fan_percent:.0f}%",
        gpu.performance_state or "",
        _ecc(gpu),
        _engines(gpu),
        pluralize(len(gpu.instances), "MIG instance") if gpu.instances else "",
    ]
    return [fact for fact in facts if fact]


def _reasons(gpu: JudgedGpu, now: float, local: ToLocalTime) -> list[str]:
    verdict = gpu.verdict
    moment = format_moment(verdict.since, now, local)
    since = f"since {moment} ({format_elapsed(now - verdict.since)})"
    return [verdict.reason, *[note.words for note in verdict.notes], since]


def _throttling(gpu: JudgedGpu) -> str:
    if gpu.throttle_reasons is None:
        return ""
    # Not a reason to worry: an idle GPU lowers its clock.
    reasons = [each.replace("_", " ") for each in gpu.throttle_reasons if each != "gpu_idle"]
    return f"throttled: {', '.join(reasons)}" if reasons else "no throttling"


def _clock(name: str, now: int | None, most: int | None) -> str:
    if now is None:
        return ""
    return f"{name} {now}{f'/{most}' if most else ''} MHz"


def _link(gpu: JudgedGpu) -> str:
    if gpu.pcie_generation is None:
        return ""
    text = f"PCIe gen{gpu.pcie_generation}×{gpu.pcie_width or '?'}"
    best = gpu.pcie_generation_max, gpu.pcie_width_max
    if best[0] is None or best == (gpu.pcie_generation, gpu.pcie_width):
        return text
    return f"{text} of gen{best[0]}×{best[1] or '?'}"


def _traffic(gpu: JudgedGpu) -> str:
    received, sent = gpu.pcie_rx_bytes_per_second, gpu.pcie_tx_bytes_per_second
    if received is None or sent is None:
        return ""
    return f"in {received / _MEGABYTE:.0f} out {sent / _MEGABYTE:.0f} MB/s"


def _nvlink(gpu: JudgedGpu) -> str:
    links, active = gpu.nvlink_links, gpu.nvlink_links_active
    if links is None:
        return ""
    text = f"NVLink {'?' if active is None else active}/{links}"
    received, sent = gpu.nvlink_rx_bytes_per_second, gpu.nvlink_tx_bytes_per_second
    if received is None or sent is None:
        return text
    return f"{text} in {received / _GIGABYTE:.1f} out {sent / _GIGABYTE:.1f} GB/s"


def _ecc(gpu: JudgedGpu) -> str:
    if gpu.ecc_uncorrected is None:
        return ""
    return f"ECC {gpu.ecc_corrected or 0}/{gpu.ecc_uncorrected}"


def _engines(gpu: JudgedGpu) -> str:
    if not gpu.encoder_percent and not gpu.decoder_percent:
        return ""
    return f"encoder {gpu.encoder_percent or 0:.0f}% decoder {gpu.decoder_percent or 0:.0f}%"


def _percent(value: float | None) -> str:
    return UNKNOWN if value is None else f"{value:.0f}%"


def _degrees(value: float | None) -> str:
    return UNKNOWN if value is None else f"{value:.0f}°"


def _memory(gpu: JudgedGpu) -> str:
    if gpu.memory_used_bytes is None:
        return "shared" if gpu.memory_shared else UNKNOWN
    total = f"/{gpu.memory_total_bytes / GIB:.1f}" if gpu.memory_total_bytes else ""
    return f"{gpu.memory_used_bytes / GIB:.1f}{total} GiB"


def _power(gpu: JudgedGpu) -> str:
    if gpu.power_watts is None:
        return UNKNOWN
    limit = f"/{gpu.power_limit_watts:.0f}" if gpu.power_limit_watts else ""
    return f"{gpu.power_watts:.0f}{limit} W"
