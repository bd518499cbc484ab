"""Text table in a box of `+`, `-` and `|`, in the style of cluster-smi."""

from collections.abc import Callable, Sequence
from typing import Literal

from msgspec import Struct

from fleet_smi.terminal.paint import display_width, strip_unprintable

Align = Literal["left", "right", "centre"]
Colorizer = Callable[[str], str]


class BoxCell(Struct, frozen=True):
    """A text, its alignment in the column, and an optional function that colours it."""

    text: str
    align: Align = "left"
    colorizer: Colorizer | None = None


BoxRow = Sequence[BoxCell]


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


def _sanitize(cell: BoxCell) -> BoxCell:
    return (
        cell
        if cell.text.isprintable()
        else BoxCell(strip_unprintable(cell.text), cell.align, cell.colorizer)
    )


def _row(row: BoxRow, widths: Sequence[int]) -> str:
    cells = (_pad(cell, width) for cell, width in zip(row, widths, strict=True))
    return f"| {' | '.join(cells)} |\n"


def _pad(cell: BoxCell, width: int) -> str:
    # By the width of the bare text: colour codes take no columns.
    spare = width - display_width(cell.text)
    before = {"left": 0, "right": spare, "centre": spare // 2}[cell.align]
    text = cell.colorizer(cell.text) if cell.colorizer else cell.text
    return " " * before + text + " " * (spare - before)
