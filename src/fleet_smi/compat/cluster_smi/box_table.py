"""Table in a box of `+`, `-` and `|` in the style of cluster-smi, or the same in HTML."""

from collections.abc import Sequence
from html import escape
from typing import Literal

from msgspec import Struct

from fleet_smi.terminal.paint import display_width, strip_unprintable

Align = Literal["left", "right", "centre"]
Colour = Literal["green", "yellow"]
_SGR: dict[Colour, str] = {"green": "\x1b[0;32m", "yellow": "\x1b[0;33m"}
_RESET = "\x1b[0m"
# Readable on white and on black alike.
_CSS: dict[Colour, str] = {"green": "#1b7f2a", "yellow": "#9a6b00"}


class BoxCell(Struct, frozen=True):
    """A text, its alignment in the column, and its colour."""

    text: str
    align: Align = "left"
    colour: Colour | None = None


BoxRow = Sequence[BoxCell]
_CSS_ALIGN: dict[Align, str] = {"left": "left", "right": "right", "centre": "center"}


def render_box(headers: Sequence[str], groups: Sequence[Sequence[BoxRow]]) -> str:
    """Render the table, with a line under each group of rows."""
    groups = [[[_sanitize(cell) for cell in row] for row in rows] for rows in groups]
    all_rows = [row for rows in groups for row in rows]
    columns = [[cell.text for cell in column] for column in zip(*all_rows, strict=True)]
    widths = [
        max(map(display_width, (head, *texts)))
        # Without rows there are no columns to transpose: only the headers are measured.
        for head, texts in zip(headers, columns or [[]] * len(headers), strict=True)
    ]
    line = f"+{'+'.join('-' * (width + 2) for width in widths)}+\n"
    parts = [line, _row([BoxCell(head) for head in headers], widths), line]
    for rows in groups:
        parts += [_row(row, widths) for row in rows]
        parts.append(line)
    return "".join(parts)


def render_html(headers: Sequence[str], groups: Sequence[Sequence[BoxRow]]) -> str:
    """Render one HTML table, with one `tbody` per group of rows; every text is escaped."""
    head = "".join([f"<th>{escape(header)}</th>" for header in headers])
    bodies = [
        "<tbody>\n" + "".join([_html_row(row) for row in rows]) + "</tbody>\n" for rows in groups
    ]
    return f"<table>\n<thead>\n<tr>{head}</tr>\n</thead>\n{''.join(bodies)}</table>\n"


def _html_row(row: BoxRow) -> str:
    return f"<tr>{''.join([_html_cell(_sanitize(cell)) for cell in row])}</tr>\n"


def _html_cell(cell: BoxCell) -> str:
    styles = [] if cell.align == "left" else [f"text-align: {_CSS_ALIGN[cell.align]}"]
    styles += [] if cell.colour is None else [f"color: {_CSS[cell.colour]}"]
    style = f' style="{"; ".join(styles)}"' if styles else ""
    return f"<td{style}>{escape(cell.text)}</td>"


def _sanitize(cell: BoxCell) -> BoxCell:
    return (
        cell
        if cell.text.isprintable()
        else BoxCell(strip_unprintable(cell.text), cell.align, cell.colour)
    )


def _row(row: BoxRow, widths: Sequence[int]) -> str:
    cells = (_pad(cell, width) for cell, width in zip(row, widths, strict=True))
    return f"| {' | '.join(cells)} |\n"


def _pad(cell: BoxCell, width: int) -> str:
    # By the width of the bare text: colour codes take no columns.
    spare = width - display_width(cell.text)
    before = {"left": 0, "right": spare, "centre": spare // 2}[cell.align]
    text = f"{_SGR[cell.colour]}{cell.text}{_RESET}" if cell.colour and cell.text else cell.text
    return " " * before + text + " " * (spare - before)
