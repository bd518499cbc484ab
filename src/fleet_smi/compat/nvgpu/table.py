"""The table of `nvgpu list`: a mark and a colour for each GPU, and who uses it since when."""

from collections.abc import Sequence
from typing import NamedTuple

from fleet_smi.compat.json_status import UNKNOWN_OWNER
from fleet_smi.compat.nvgpu.codec import DeviceStatus
from fleet_smi.terminal.paint import display_width, strip_unprintable

_COLOURS = {"[ ]": "32", "[~]": "34", "[!]": "31", "[?]": "33"}
_GAP = "  "


class _Column(NamedTuple):
    title: str
    cells: list[str]
    right: bool = False

    @property
    def columns(self) -> int:
        """As wide as its widest cell; a title has two blanks to spare."""
        least = len(self.title) + 2
        return max([least, *map(display_width, self.cells)])

    def padded(self, text: str, shown: str) -> str:
        """The text that is seen as `shown`, on its side of the column."""
        blanks = " " * (self.columns - display_width(shown))
        return blanks + text if self.right else text + blanks


def render(
    rows: Sequence[DeviceStatus], *, colour: bool, memory_used_bytes: Sequence[int | None] | None
) -> str:
    """The table; with the column of nvgpu 0.10 where the memory in use is given."""
    marks = [status_mark(row) for row in rows]
    numbers = _Column("", [str(place) for place in range(len(rows))], right=True)
    columns = _columns(rows, marks, memory_used_bytes, colour=colour)
    everything = [numbers, *columns]
    head = _GAP.join([each.padded(each.title, each.title) for each in everything])
    rule = _GAP.join(["-" * each.columns for each in everything])
    colours = [_COLOURS[each] if colour else None for each in marks]
    lines = [_line(place, numbers, columns, its) for place, its in enumerate(colours)]
    return "".join([f"{line.rstrip()}\n" for line in (head, rule, *lines)])


def status_mark(row: DeviceStatus) -> str:
    """Free, somebody on it, nobody who can be asked, or not free and nobody knows why.

    The last is none of nvgpu's: it has no word for what is not known.
    """
    if row.is_available:
        return "[ ]"
    if not row.pids:
        return "[?]"
    owners = set(row.users.split(",")) - {UNKNOWN_OWNER, ""}
    return "[~]" if owners else "[!]"


def _columns(
    rows: Sequence[DeviceStatus],
    marks: list[str],
    memory_used_bytes: Sequence[int | None] | None,
    *,
    colour: bool,
) -> list[_Column]:
    columns = [
        _Column("status", marks),
        _Column("type", [strip_unprintable(row.type or "") for row in rows]),
        _Column("util.", [_load(row.utilization, colour=colour) for row in rows]),
        _Column("temp.", [_figure(row.temperature) for row in rows], right=True),
        _Column("MHz", [_figure(row.clock_mhz) for row in rows], right=True),
        _Column("users", [strip_unprintable(row.users) for row in rows]),
        _Column("since", [row.running_since or "" for row in rows]),
        _Column("pids", [row.pids for row in rows], right=True),
        _Column("cmd", [strip_unprintable(row.cmd or "") for row in rows]),
    ]
    if memory_used_bytes is not None:
        columns.insert(3, _Column("mem. used", [_gigabytes(each) for each in memory_used_bytes]))
    return columns


def _line(place: int, numbers: _Column, columns: list[_Column], colour: str | None) -> str:
    cells = [numbers.padded(numbers.cells[place], numbers.cells[place])]
    for column in columns:
        shown = column.cells[place]
        text = shown if colour is None else f"\x1b[{colour}m{shown}\x1b[0m"
        cells.append(column.padded(text, shown))
    return _GAP.join(cells)


def _load(percent: int | None, *, colour: bool) -> str:
    if percent is None:
        return "N/A"
    # Where there is colour, it keeps the blanks in front from being taken away.
    return f"{percent:3} %" if colour else f"{percent} %"


def _figure(value: int | None) -> str:
    return "" if value is None else str(value)


def _gigabytes(count: int | None) -> str:
    return "" if count is None else f"{count / 1e9:.2f}GB"
