"""Text table of `nvgpu list`: a status mark and colour per GPU, its users and since when."""

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
        """The width of its widest cell; a title has two spaces more."""
        # As in the table of nvgpu, which pads titles but not cells.
        min_width = len(self.title) + 2
        return max([min_width, *map(display_width, self.cells)])

    def pad(self, text: str, visible: str) -> str:
        """Pad `text`, which may have colour codes, by the width of its visible part."""
        blanks = " " * (self.columns - display_width(visible))
        return blanks + text if self.right else text + blanks


def render(
    rows: Sequence[DeviceStatus], *, colour: bool, memory_used_bytes: Sequence[int | None] | None
) -> str:
    """Render the table; given the memory in use, with the memory column of nvgpu 0.10."""
    marks = [status_mark(row) for row in rows]
    numbers = _Column("", [str(index) for index in range(len(rows))], right=True)
    columns = _columns(rows, marks, memory_used_bytes, colour=colour)
    all_columns = [numbers, *columns]
    head = _GAP.join([column.pad(column.title, column.title) for column in all_columns])
    rule = _GAP.join(["-" * column.columns for column in all_columns])
    colours = [_COLOURS[mark] if colour else None for mark in marks]
    lines = [_line(index, numbers, columns, code) for index, code in enumerate(colours)]
    return "".join([f"{line.rstrip()}\n" for line in (head, rule, *lines)])


def status_mark(row: DeviceStatus) -> str:
    """Return the mark: free, used, used by unknown owners, or `[?]`, not free for unknown reasons.

    nvgpu itself has no `[?]`: it has no mark for what is unknown.
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
        _Column("temp.", [_number(row.temperature) for row in rows], right=True),
        _Column("MHz", [_number(row.clock_mhz) for row in rows], right=True),
        _Column("users", [strip_unprintable(row.users) for row in rows]),
        _Column("since", [row.running_since or "" for row in rows]),
        _Column("pids", [row.pids for row in rows], right=True),
        _Column("cmd", [strip_unprintable(row.cmd or "") for row in rows]),
    ]
    if memory_used_bytes is not None:
        columns.insert(3, _Column("mem. used", [_gigabytes(count) for count in memory_used_bytes]))
    return columns


def _line(index: int, numbers: _Column, columns: list[_Column], colour: str | None) -> str:
    cells = [numbers.pad(numbers.cells[index], numbers.cells[index])]
    for column in columns:
        visible = column.cells[index]
        text = visible if colour is None else f"\x1b[{colour}m{visible}\x1b[0m"
        cells.append(column.pad(text, visible))
    return _GAP.join(cells)


def _load(percent: int | None, *, colour: bool) -> str:
    if percent is None:
        return "N/A"
    # nvgpu's table strips leading spaces, but not behind a colour code.
    return f"{percent:3} %" if colour else f"{percent} %"


def _number(value: int | None) -> str:
    return "" if value is None else str(value)


def _gigabytes(count: int | None) -> str:
    # Rounded as nvgpu does it: 0.5GB, and not 0.50GB.
    return "" if count is None else f"{round(count / 1e9, 2)}GB"
