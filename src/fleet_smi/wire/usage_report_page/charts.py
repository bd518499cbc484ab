"""SVG charts of a report, each with the same in text: a mail program may drop the drawing."""

from collections.abc import Mapping, Sequence
from datetime import datetime, timezone

from fleet_smi.model.fleet import State
from fleet_smi.model.usage_report import HOUR_SECONDS, HourOfDay, share_percent
from fleet_smi.model.usage_report_text import format_hours
from fleet_smi.wire.static_page.formatting import format_percent
from fleet_smi.wire.static_page.markup import Html, element, fragment

BACKGROUND, FOREGROUND = "#ffffff", "#15171a"
_QUIET, _LINE = "#646a71", "#dfdfda"
STATE_COLOURS: dict[State, str] = {
    "busy": "#6450b5",
    "held": "#e0a030",
    "leased": "#1668c7",
    "free": "#0a9368",
    "ghost": "#b86e00",
    "broken": "#b01020",
    "unknown": "#9aa0a6",
}
"""In the order of the legend; set as attributes, which the style sheet overrides."""
_WIDTH, _HEIGHT = 720, 170
_TOP, _BOTTOM, _GAP = 26, 28, 0.2
_DAY_SECONDS = 86400
_MAX_LABELS = 8
_CHARACTER_WIDTH = 12  # on a phone, where the type is larger


def states_chart(by_state: Mapping[State, float]) -> Html:
    """Return GPU-hours by state, as one bar and a list."""
    whole = sum(by_state.values())
    shown = [(state, by_state[state]) for state in STATE_COLOURS if by_state.get(state)]
    x, bars = 0.0, []
    for state, seconds in shown:
        width = seconds / whole * _WIDTH
        # One unit of space between bars, yet the smallest share stays visible.
        bars.append(_rect(x, 0, max(0.5, width - 1), 18, state))
        x += width
    texts = [
        f"{state} {format_hours(seconds)} h ({_share(seconds, whole)})" for state, seconds in shown
    ]
    drawing = _drawing(18, "GPU-hours by state: " + ", ".join(texts), *bars)
    keys = (
        element("li", _key(state), f" {text}")
        for (state, _), text in zip(shown, texts, strict=True)
    )
    return fragment(drawing, element("ul", *keys, class_="keys"))


def _share(part: float, whole: float) -> str:
    """Return a share in percent; a small one is "<1 %", never "0 %"."""
    share = share_percent(part, whole)
    return "<1 %" if share is not None and 0 < share < 0.5 else format_percent(share)


def daily_chart(gpu_seconds: Sequence[float], start: float) -> Html:
    """Return one bar per day of UTC, in which the hub stores daily sums."""
    first = int(start // _DAY_SECONDS)
    dates = [
        datetime.fromtimestamp((first + day) * _DAY_SECONDS, timezone.utc)
        for day in range(len(gpu_seconds))
    ]
    labels = [f"{date:%m-%d}" for date in dates]
    peak = max(range(len(gpu_seconds)), key=lambda day: gpu_seconds[day])
    summary = f"Most on {dates[peak]:%Y-%m-%d}: {format_hours(gpu_seconds[peak])} GPU-hours."
    hours = [seconds / HOUR_SECONDS for seconds in gpu_seconds]
    drawing = _bars(hours, labels, summary, "GPU-hours")
    return fragment(drawing, element("p", summary, class_="quiet"))


def hourly_chart(samples: Sequence[HourOfDay]) -> Html:
    """Return the mean number of GPUs in use at each hour, scaled to all that there were."""
    by_hour = {sample.hour: sample for sample in samples}
    busiest = max(samples, key=lambda sample: sample.in_use)
    quietest = min(samples, key=lambda sample: sample.in_use)
    summary = (
        f"Busiest at {busiest.hour:02d}:00, {busiest.in_use:.1f} of {busiest.gpus:.0f} GPUs; "
        f"quietest at {quietest.hour:02d}:00, {quietest.in_use:.1f}."
    )
    drawing = _bars(
        [by_hour[hour].in_use if hour in by_hour else None for hour in range(24)],
        [f"{hour:02d}" for hour in range(24)],
        summary,
        "GPUs",
        maximum=max(sample.gpus for sample in samples),
    )
    return fragment(drawing, element("p", summary, class_="quiet"))


def _bars(
    values: Sequence[float | None],
    labels: Sequence[str],
    summary: str,
    unit: str,
    maximum: float | None = None,
) -> Html:
    """Return bars with labels below, and the value of the full height."""
    top = maximum or max((value for value in values if value is not None), default=0.0) or 1.0
    step, height = _WIDTH / len(values), _HEIGHT - _TOP - _BOTTOM
    # Every n-th label, so that they do not overlap; rounded up.
    every = -(-len(labels) // _MAX_LABELS)
    scale = _text(0, _TOP - 6, f"{top:,.0f} {unit}")
    parts: list[Html] = [_line(_TOP), _line(_HEIGHT - _BOTTOM), scale]
    for position, (value, label) in enumerate(zip(values, labels, strict=True)):
        left = position * step
        if value is not None:
            bar = value / top * height
            parts.append(
                _rect(left + step * _GAP / 2, _HEIGHT - _BOTTOM - bar, step * (1 - _GAP), bar)
            )
        if position % every == 0:
            # The first label must not stick out to the left of the drawing.
            middle = max(left + step / 2, len(label) * _CHARACTER_WIDTH / 2)
            parts.append(_text(middle, _HEIGHT - 6, label, anchor="middle"))
    return _drawing(_HEIGHT, summary, *parts)


def _drawing(height: int, title: str, *parts: Html) -> Html:
    return element(
        "svg",
        element("title", title),
        *parts,
        viewBox=f"0 0 {_WIDTH} {height}",
        width="100%",
        role="img",
        xmlns="http://www.w3.org/2000/svg",
    )


def _rect(x: float, y: float, width: float, height: float, state: State = "busy") -> Html:
    box = {"x": x, "y": y, "width": width, "height": height}
    return element(
        "rect",
        **{name: f"{value:.1f}" for name, value in box.items()},
        fill=STATE_COLOURS[state],
        class_=f"is-{state}",
    )


def _line(y: float) -> Html:
    return element("path", d=f"M0 {y}.5H{_WIDTH}", stroke=_LINE, class_="rule")


def _text(x: float, y: float, text: str, anchor: str = "start") -> Html:
    return element(
        "text",
        text,
        x=f"{x:.1f}",
        y=f"{y:.1f}",
        fill=_QUIET,
        font_size=11,
        font_family="sans-serif",
        text_anchor=anchor,
    )


def _key(state: State) -> Html:
    square = element("rect", width=10, height=10, fill=STATE_COLOURS[state], class_=f"is-{state}")
    return element("svg", square, width=10, height=10, aria_hidden="true")
