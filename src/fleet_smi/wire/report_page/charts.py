"""The drawings of a report, each with the same in words: a mail program may drop them."""

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime

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
"""In the order in which they are told; as attributes, which any style overrides."""
_WIDTH, _HEIGHT = 720, 170
_TOP, _BOTTOM, _GAP = 26, 28, 0.2
_DAY_SECONDS = 86400
_MOST_LABELS = 8


def states_chart(by_state: Mapping[State, float]) -> Html:
    """How all GPUs stood, as one bar and a list."""
    whole = sum(by_state.values())
    told = [(state, by_state[state]) for state in STATE_COLOURS if by_state.get(state)]
    at, bars = 0.0, []
    for state, seconds in told:
        wide = seconds / whole * _WIDTH
        bars.append(_rect(at, 0, max(0.5, wide - 1), 18, state))
        at += wide
    words = [
        f"{state} {format_hours(seconds)} h ({_share(seconds, whole)})" for state, seconds in told
    ]
    drawing = _drawing(18, "GPU-hours by state: " + ", ".join(words), *bars)
    keys = (
        element("li", _key(state), f" {text}") for (state, _), text in zip(told, words, strict=True)
    )
    return fragment(drawing, element("ul", *keys, class_="keys"))


def _share(part: float, whole: float) -> str:
    """What is there is never called nothing."""
    share = share_percent(part, whole)
    return "<1 %" if share is not None and 0 < share < 0.5 else format_percent(share)


def daily_chart(gpu_seconds: Sequence[float], start: float) -> Html:
    """One bar a day; the days are those of UTC, as the hub keeps them."""
    first = int(start // _DAY_SECONDS)
    dates = [
        datetime.fromtimestamp((first + at) * _DAY_SECONDS, UTC) for at in range(len(gpu_seconds))
    ]
    labels = [f"{date.day} {date:%b}" for date in dates]
    most = max(range(len(gpu_seconds)), key=lambda at: gpu_seconds[at])
    words = f"Most on {labels[most]}: {format_hours(gpu_seconds[most])} GPU-hours."
    drawing = _bars([each / HOUR_SECONDS for each in gpu_seconds], labels, words, "GPU-hours")
    return fragment(drawing, element("p", words, class_="quiet"))


def hourly_chart(samples: Sequence[HourOfDay]) -> Html:
    """24 bars, as high as GPUs were in use, below a line at all there were."""
    by_hour = {each.hour: each for each in samples}
    busiest = max(samples, key=lambda each: each.in_use)
    quietest = min(samples, key=lambda each: each.in_use)
    words = (
        f"Busiest at {busiest.hour:02d}:00, {busiest.in_use:.1f} of {busiest.gpus:.0f} GPUs; "
        f"quietest at {quietest.hour:02d}:00, {quietest.in_use:.1f}."
    )
    drawing = _bars(
        [by_hour[hour].in_use if hour in by_hour else None for hour in range(24)],
        [f"{hour:02d}" for hour in range(24)],
        words,
        "GPUs",
        most=max(each.gpus for each in samples),
    )
    return fragment(drawing, element("p", words, class_="quiet"))


def _bars(
    values: Sequence[float | None],
    labels: Sequence[str],
    words: str,
    unit: str,
    most: float | None = None,
) -> Html:
    """Bars with their labels below, and the height of the chart in numbers."""
    top = most or max((value for value in values if value is not None), default=0.0) or 1.0
    wide, high = _WIDTH / len(values), _HEIGHT - _TOP - _BOTTOM
    every = -(-len(labels) // _MOST_LABELS)
    scale = _text(0, _TOP - 6, f"{top:,.0f} {unit}")
    parts: list[Html] = [_line(_TOP), _line(_HEIGHT - _BOTTOM), scale]
    for at, (value, label) in enumerate(zip(values, labels, strict=True)):
        if value is not None:
            tall = value / top * high
            parts.append(
                _rect(
                    at * wide + wide * _GAP / 2, _HEIGHT - _BOTTOM - tall, wide * (1 - _GAP), tall
                )
            )
        if at % every == 0:
            parts.append(_text(at * wide + wide / 2, _HEIGHT - 6, label, anchor="middle"))
    return _drawing(_HEIGHT, words, *parts)


def _drawing(height: int, words: str, *parts: Html) -> Html:
    return element(
        "svg",
        element("title", words),
        *parts,
        viewBox=f"0 0 {_WIDTH} {height}",
        width="100%",
        role="img",
        xmlns="http://www.w3.org/2000/svg",
    )


def _rect(x: float, y: float, wide: float, tall: float, state: State = "busy") -> Html:
    places = {"x": x, "y": y, "width": wide, "height": tall}
    return element(
        "rect",
        **{name: f"{value:.1f}" for name, value in places.items()},
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
