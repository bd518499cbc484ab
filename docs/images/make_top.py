"""Render `top.svg`: `fleet-smi top` over the demo fleet, in its dark theme.

`python docs/images/make_top.py` rewrites it; a test fails when it no longer matches the screen.
"""

import re
import sys
from datetime import UTC, datetime
from html import escape
from pathlib import Path

from fleet_smi.terminal.paint import display_width
from fleet_smi.terminal.top.screen import render
from fleet_smi.terminal.top.spans import TopLine
from fleet_smi.terminal.top.state import ScreenState, TopData
from fleet_smi.terminal.top.theme import style_of, theme_styles
from fleet_smi.terminal.top.update_data import apply_update
from fleet_smi.terminal.top.updates import ViewArrived

sys.path.insert(0, str(Path(__file__).parents[2]))
from docs.images import make

PICTURE = Path(__file__).with_name("top.svg")
COLUMNS, ROWS = 120, 40
_CELL, _LINE, _SIZE, _PAD = 7.8, 18, 13, 14
# Single spaces stay inside a run of text; a browser would shorten more of them.
_TEXT_RUN = re.compile(r"\S+(?: \S+)*")
_FONT = "ui-monospace,SFMono-Regular,Menlo,Consolas,'DejaVu Sans Mono',monospace"


def lines() -> list[TopLine]:
    """Return the screen a moment after the start."""
    view = make.fleet()
    state, data = ScreenState(), TopData("lab.example", has_history=True)
    state.columns, state.rows = COLUMNS, ROWS
    apply_update(data, state, ViewArrived(view), 0.0)
    chosen = next(node for node in view.nodes if node.name == "dgx03")
    state.node_id, state.gpu_uuid = chosen.node_id, chosen.gpus[0].uuid
    return render(state, data, 1.0, lambda at: datetime.fromtimestamp(at, UTC)).lines


def picture() -> str:
    """Return the SVG document."""
    shown = lines()
    width, height = round(2 * _PAD + COLUMNS * _CELL), 2 * _PAD + _LINE * len(shown)
    title = escape(" ".join("".join([text for line in shown for text, _ in line]).split()))
    body = "\n".join([_line(row, line) for row, line in enumerate(shown)])
    return f"""\
<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" \
height="{height}" role="img" aria-labelledby="t">
<title id="t">{title}</title>
<rect width="{width}" height="{height}" rx="8" fill="#0e1012"/>
<g font-family="{_FONT}" font-size="{_SIZE}" xml:space="preserve">
{body}
</g>
</svg>
"""


def _line(row: int, line: TopLine) -> str:
    styles, column, parts = theme_styles("dark"), 0, []
    for text, role in line:
        words = style_of(role, styles).split()
        colours = [word for word in words if word.startswith("#")]
        ink, ground = (*colours, "#0e1012")[:2]
        if "reverse" in words:
            ink, ground = ground, ink
        weight = ' font-weight="bold"' if "bold" in words else ""
        parts.append(_span(row, column, text, ink, ground, weight))
        column += display_width(text)
    return "".join(parts)


def _span(row: int, column: int, text: str, ink: str, ground: str, weight: str) -> str:
    x, y, width = _PAD + column * _CELL, _PAD + row * _LINE, display_width(text) * _CELL
    drawn = ""
    if ground != "#0e1012":
        drawn = f'<rect x="{x:g}" y="{y}" width="{width:g}" height="{_LINE}" fill="{ground}"/>'
    for found in _TEXT_RUN.finditer(text):
        # textLength makes every font equally wide, so that columns stay aligned.
        length = f' textLength="{len(found[0]) * _CELL:g}"' if len(found[0]) > 1 else ""
        place = f'x="{x + found.start() * _CELL:g}" y="{y + 13}"'
        drawn += f'<text {place}{length} fill="{ink}"{weight}>{escape(found[0])}</text>'
    return drawn


if __name__ == "__main__":
    PICTURE.write_text(picture(), encoding="utf-8")
