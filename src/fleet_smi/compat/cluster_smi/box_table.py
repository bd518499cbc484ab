"""A table in a box of `+`, `-` and `|`, as cluster-smi draws it."""

from collections.abc import Callable, Sequence
from typing import Literal

from msgspec import Struct

from fleet_smi.terminal.paint import display_width, strip_unprintable

Align = Literal["left", "right", "centre"]
Colorizer = Callable[[str], str]


class BoxCell(Struct, frozen=True):
    """A text, where it stands in its column, and the colour that is put on it."""

    text: str
    align: Align = "left"
    colorizer: Colorizer | None = None


BoxRow = Sequence[BoxCell]


def render_box(headers: Sequence[str], groups: Sequence[Sequence[BoxRow]]) -> str:
    """The table, with a line under each group of rows."""
    groups = [[[_harmless(cell) for cell in row] for row in rows] for rows in groups]
    every = [row for rows in groups for row in rows]
    columns = [[cell.text for cell in column] for column in zip(*every, strict=True)]
    widths = [
        max(map(display_width, (head, *texts)))
        for head, texts in zip(headers, columns or [[]] * len(headers), strict=True)
    ]
    line = f"+{'+'.join('-' * (room + 2) for room in widths)}+\n"
    parts = [line, _row([BoxCell(head) for head in headers], widths), line]
    for rows in groups:
        parts += [_row(row, widths) for row in rows]
        parts.append(line)
    return "".join(parts)


def _harmless(cell: BoxCell) -> BoxCell:
    return (
        cell
        if cell.text.isprintable()
        else BoxCell(strip_unprintable(cell.text), cell.align, cell.colorizer)
    )


def _row(row: BoxRow, widths: Sequence[int]) -> str:
    cells = (_placed(cell, room) for cell, room in zip(row, widths, strict=True))
    return f"| {' | '.join(cells)} |\n"


def _placed(cell: BoxCell, room: int) -> str:
    spare = room - display_width(cell.text)
    before = {"left": 0, "right": spare, "centre": spare // 2}[cell.align]
    shown = cell.colorizer(cell.text) if cell.colorizer else cell.text
    return " " * before + shown + " " * (spare - before)
