"""Render `status.svg`: the output of `fleet-smi -o` for the demo fleet, as a terminal.

`python docs/images/make.py` rewrites it; a test fails when it no longer matches the output.
"""

import re
from collections.abc import Iterator
from html import escape
from pathlib import Path

from fleet_smi.fleet.fleet import FleetState, Via
from fleet_smi.model.fleet import FleetView
from fleet_smi.simulation.demo import SILENT_AFTER_SECONDS, demo_fleet
from fleet_smi.simulation.scenario import BackfillPoint, last_hour
from fleet_smi.terminal.paint import Paint
from fleet_smi.terminal.view import overview

PICTURE = Path(__file__).with_name("status.svg")
COMMAND = "fleet-smi -o"
COLUMNS = 96
_START = 1_760_000_000.0
_DURATION_SECONDS = SILENT_AFTER_SECONDS + 220.0

_CELL, _LINE, _SIZE, _GAP = 8.4, 21, 14, 0.6
_LEFT, _TOP, _BAR_HEIGHT = 24, 64, 11
_TEXT, _CARD, _EDGE, _DIM, _TRACK = "#dfe5ec", "#10151c", "#2a323d", "#8793a1", "#262e38"
_COLOURS = {"31": "#ff6b68", "32": "#56d364", "33": "#e3b341", "35": "#c297ff", "94": "#79b8ff"}
_SGR = re.compile(r"\x1b\[([\d;]*)m")
# Single spaces stay inside a run of text; two or more separate columns, each placed by itself.
_TEXT_RUN = re.compile(r"\S+(?: \S+)*")
_BAR = re.compile(r"[▓░]+")
_FONT = "ui-monospace,SFMono-Regular,Menlo,Consolas,'DejaVu Sans Mono',monospace"


def fleet() -> FleetView:
    """Return the demo fleet some minutes after its start, when one node is silent."""
    scenario, fleet, now = (
        demo_fleet(seed=7, start=_START),
        FleetState(),
        _START + _DURATION_SECONDS,
    )
    interval_seconds = scenario.interval_seconds
    live = (
        BackfillPoint(_START + step * interval_seconds, interval_seconds)
        for step in range(int(_DURATION_SECONDS / interval_seconds) + 1)
    )
    points = (*last_hour(_START), *live)
    for index in range(len(scenario.nodes)):
        for number, (at, interval) in enumerate(points, 1):
            if scenario.is_reporting(index, at):
                snapshot = scenario.snapshot(index, at, number, interval)
                fleet.apply(snapshot, at, Via("push", str(index)))
    return fleet.view(now)


def printed() -> str:
    """Return the output of the command, with colours."""
    return overview.render(fleet(), COLUMNS, Paint(enabled=True))


def picture() -> str:
    """Return the SVG document."""
    lines = printed().splitlines()
    width = round(2 * _LEFT + COLUMNS * _CELL)
    height = _TOP + _LINE * (len(lines) + 1) + 14
    body = "\n".join(_render_line(number, line) for number, line in enumerate(lines, 1))
    title = escape(" ".join(_SGR.sub("", "\n".join(lines)).split()))
    dots = "".join(f'<circle cx="{x}" cy="21" r="5.5" fill="{_EDGE}"/>' for x in (26, 46, 66))
    return f"""\
<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" \
height="{height}" role="img" aria-labelledby="t">
<title id="t">{title}</title>
<defs><pattern id="ghost" width="5" height="5" patternUnits="userSpaceOnUse" \
patternTransform="rotate(45)"><rect width="5" height="5" fill="{_TRACK}"/>\
<rect width="2.6" height="5" fill="{_COLOURS["33"]}"/></pattern></defs>
<rect x=".5" y=".5" width="{width - 1}" height="{height - 1}" rx="10" fill="{_CARD}" \
stroke="{_EDGE}"/>
<path d="M.5 42h{width - 1}" stroke="{_EDGE}"/>{dots}
<g font-family="{_FONT}" font-size="{_SIZE}" fill="{_TEXT}" xml:space="preserve">
{_text(0, 0, "$", _DIM)}{_text(0, 2, COMMAND, _TEXT, ' font-weight="bold"')}
{body}
</g>
</svg>
"""


def _render_line(number: int, line: str) -> str:
    return "".join(_span(number, column, text, code) for column, text, code in _spans(line))


def _spans(line: str) -> Iterator[tuple[int, str, str]]:
    """Yield column, text and SGR code of each run of one style."""
    column, code = 0, ""
    for at, part in enumerate(_SGR.split(line)):
        if at % 2:
            code = part
            continue
        yield column, part, code
        column += len(part)


def _span(number: int, column: int, text: str, code: str) -> str:
    codes = code.split(";")
    colour = next((_COLOURS[one] for one in codes if one in _COLOURS), None)
    if _BAR.fullmatch(text):
        fill = _TRACK if "2" in codes else "url(#ghost)" if "4" in codes else colour or _TEXT
        return _bar(number, column, len(text), fill)
    style = ' font-weight="bold"' if "1" in codes else ""
    style += ' text-decoration="underline"' if "4" in codes else ""
    colour = colour or (_DIM if "2" in codes else _TEXT)
    return "".join(
        _text(number, column + found.start(), found[0], colour, style)
        for found in _TEXT_RUN.finditer(text)
    )


def _text(number: int, column: int, text: str, colour: str, style: str = "") -> str:
    # textLength makes every font equally wide, so that columns stay aligned.
    paint = "" if colour == _TEXT else f' fill="{colour}"'
    length = f' textLength="{len(text) * _CELL:g}"' if len(text) > 1 else ""
    x, y = _LEFT + column * _CELL, _TOP + number * _LINE + 5
    return f'<text x="{x:g}" y="{y}"{length}{paint}{style}>{escape(text)}</text>'


def _bar(number: int, column: int, length: int, fill: str) -> str:
    """Return a memory bar as blocks: the shade characters look different in every font."""
    y, wide = _TOP + number * _LINE - _BAR_HEIGHT // 2, f"{_CELL - 2 * _GAP:g}"
    starts = (_LEFT + (column + at) * _CELL + _GAP for at in range(length))
    blocks = (f"M{x:g} {y}h{wide}v{_BAR_HEIGHT}h-{wide}z" for x in starts)
    return f'<path d="{"".join(blocks)}" fill="{fill}"/>'


if __name__ == "__main__":
    PICTURE.write_text(picture(), encoding="utf-8")
