"""A table in a box of `+`, `-` and `|`, as cluster-smi draws it."""

from collections.abc import Callable, Sequence
from typing import Literal

from msgspec import Struct

from fleet_smi.terminal.paint import printable, width

Align = Literal["left", "right", "centre"]
Paint = Callable[[str], str]


class Cell(Struct, frozen=True):
    """A text, where it stands in its column, and the colour that is put on it."""

    text: str
    align: Align = "left"
    paint: Paint | None = None


Row = Sequence[Cell]


def boxed(heads: Sequence[str], groups: Sequence[Sequence[Row]]) -> str:
    """The table, with a line under each group of rows."""
    groups = [[[_harmless(cell) for cell in row] for row in rows] for rows in groups]
    every = [row for rows in groups for row in rows]
    columns = [[cell.text for cell in column] for column in zip(*every, strict=True)]
    widths = [
        max(map(width, (head, *texts)))
        for head, texts in zip(heads, columns or [[]] * len(heads), strict=True)
    ]
    line = f"+{'+'.join('-' * (room + 2) for room in widths)}+\n"
    parts = [line, _row([Cell(head) for head in heads], widths), line]
    for rows in groups:
        parts += [_row(row, widths) for row in rows]
        parts.append(line)
    return "".join(parts)


def _harmless(cell: Cell) -> Cell:
    return cell if cell.text.isprintable() else Cell(printable(cell.text), cell.align, cell.paint)


def _row(row: Row, widths: Sequence[int]) -> str:
    cells = (_placed(cell, room) for cell, room in zip(row, widths, strict=True))
    return f"| {' | '.join(cells)} |\n"


def _placed(cell: Cell, room: int) -> str:
    spare = room - width(cell.text)
    before = {"left": 0, "right": spare, "centre": spare // 2}[cell.align]
    shown = cell.paint(cell.text) if cell.paint else cell.text
    return " " * before + shown + " " * (spare - before)
