"""The table of GPUs: which columns fit, and each row as a line."""

from collections.abc import Iterable, Sequence

from msgspec import Struct

from fleet_smi.model.fleet import State
from fleet_smi.terminal.paint import Span, TextRole, align_left, align_right, display_width
from fleet_smi.terminal.view.formatting import UNKNOWN
from fleet_smi.terminal.view.gpu_cells import GpuRow, MemoryCell
from fleet_smi.terminal.view.holder import longest_fitting

WIDE_COLUMNS = 120
_ROOMY_COLUMNS = 160
DEFAULT_COLUMNS = ("UTIL", "TEMP", "POWER")
# What a wide terminal gains, the most asked for first.
OPTIONAL_COLUMNS = ("CLOCK", "PCIE", "FAN", "CONTAINER", "LIMIT", "MEMCLOCK", "PERF", "ECC")
_ORDER = (
    *("UTIL", "TEMP", "POWER", "LIMIT", "CLOCK", "MEMCLOCK", "FAN", "PCIE", "PERF", "ECC"),
    *("MEMORY", "MODEL", "CONTAINER"),
)
_LEFT = ("MODEL", "CONTAINER")
_CAPPED = {"MODEL": 24, "CONTAINER": 24}
_MODEL_CAPS = (14, 9)
_GAP = "  "
_BARS = (10, 6, 0)
# What a narrow terminal loses after the bar, one thing after the other.
_GIVES_WAY = ("POWER", "TEMP", "UTIL")
_WHO_AT_LEAST, _WHO_AT_BEST = 20, 32
# States whose WHO is coloured too; those who simply work or are not there stay calm.
_EMPHATIC: dict[State, TextRole] = {
    "leased": "leased",
    "held": "held",
    "ghost": "warn",
    "broken": "broken",
    "unknown": "unknown",
}


class TableLayout(Struct, frozen=True):
    """The columns shown, the room each has, and the width of the memory bar."""

    names: tuple[str, ...]
    widths: dict[str, int]
    bar_width: int

    def without(self, name: str) -> "TableLayout":
        """The same columns but one."""
        return TableLayout(
            tuple(each for each in self.names if each != name), self.widths, self.bar_width
        )

    @property
    def used_columns(self) -> int:
        """The columns in front of WHO."""
        names = ("#", "STATE", *self.names)
        bar = self.bar_width + len(_GAP) if self.bar_width else 0
        return sum(self.widths[name] + len(_GAP) for name in names) + bar


def choose_layout(rows: Sequence[GpuRow], columns: int, *, show_model: bool) -> TableLayout:
    """The richest layout that leaves WHO the room it needs."""
    widths = _widths(rows)
    if WIDE_COLUMNS <= columns < _ROOMY_COLUMNS:
        # A long name would cost the columns that a wide terminal is there for.
        widths["MODEL"] = min(widths["MODEL"], _MODEL_CAPS[0])
    wanted = max((display_width(row.holder[0]) for row in rows), default=0)
    names: tuple[str, ...] = (*DEFAULT_COLUMNS, "MEMORY", *(("MODEL",) if show_model else ()))
    layout = _narrowed(names, widths, columns - min(wanted, _WHO_AT_LEAST))
    if columns >= WIDE_COLUMNS:
        layout = _widened(rows, layout, columns - min(max(wanted, _WHO_AT_LEAST), _WHO_AT_BEST))
    return layout


def _narrowed(names: tuple[str, ...], widths: dict[str, int], room: int) -> TableLayout:
    """What does not fit gives way: the model's name first, then the bar, then the rest."""
    layout = TableLayout(names, widths, _BARS[0])
    for narrower in _narrower(layout):
        layout = narrower
        if layout.used_columns <= room:
            break
    return layout


def _narrower(layout: TableLayout) -> Iterable[TableLayout]:
    yield layout
    for cap in _MODEL_CAPS if "MODEL" in layout.names else ():
        widths = layout.widths | {"MODEL": min(cap, layout.widths["MODEL"])}
        yield (layout := TableLayout(layout.names, widths, layout.bar_width))
    for bar in _BARS[1:]:
        yield (layout := TableLayout(layout.names, layout.widths, bar))
    for name in _GIVES_WAY:
        yield (layout := layout.without(name))


def _widened(rows: Sequence[GpuRow], layout: TableLayout, room: int) -> TableLayout:
    for name in OPTIONAL_COLUMNS:
        if all(row.cells.get(name, "") in ("", UNKNOWN) for row in rows):
            continue
        names = tuple(each for each in _ORDER if each in (*layout.names, name))
        wider = TableLayout(names, layout.widths, layout.bar_width)
        if wider.used_columns <= room:
            layout = wider
    return layout


def _widths(rows: Sequence[GpuRow]) -> dict[str, int]:
    widths = {name: max(4, len(name)) for name in (*DEFAULT_COLUMNS, *OPTIONAL_COLUMNS, "MODEL")}
    widths |= {"#": 2, "STATE": 6, "FAN": 3, "ECC": 3, "MEMORY": 6}
    for row in rows:
        widths["#"] = max(widths["#"], len(row.index))
        widths["STATE"] = max(widths["STATE"], len(row.state))
        for name, cell in row.cells.items():
            widths[name] = max(widths[name], display_width(cell))
    for name, cap in _CAPPED.items():
        widths[name] = min(widths[name], cap)
    used, total = _memory_widths(rows)
    widths |= {"USED": used, "MEMORY": max(widths["MEMORY"], used + total)}
    return widths


def _memory_widths(rows: Iterable[GpuRow]) -> tuple[int, int]:
    used = total = 0
    for row in rows:
        if row.memory.is_known:
            used = max(used, len(row.memory.used))
            total = max(total, len(_total(row.memory)))
    return used, total


def _total(memory: MemoryCell) -> str:
    return (f"/{memory.total} GiB" if memory.total else " GiB") + " shared" * memory.shared


def header_spans(layout: TableLayout) -> list[Span]:
    """The line of column heads."""
    cells = [align_right("#", layout.widths["#"]), align_left("STATE", layout.widths["STATE"])]
    for name in layout.names:
        room = layout.widths[name]
        if name == "MEMORY":
            room += layout.bar_width + len(_GAP) if layout.bar_width else 0
        put = align_left if name in (*_LEFT, "MEMORY") else align_right
        cells.append(put(name, room))
    return [(_GAP.join([*cells, "WHO"]), "head")]


def row_spans(row: GpuRow, layout: TableLayout, columns: int) -> list[Span]:
    """One row as spans of a line; words too long for WHO take the place of empty cells."""
    role: TextRole | None = "unknown" if row.state == "unknown" else None
    spans: list[Span] = [
        (align_right(row.index, layout.widths["#"]) + _GAP, role),
        (align_left(row.state, layout.widths["STATE"]) + _GAP, row.state),
    ]
    wordings = _wordings(row, layout)
    if row.is_blank and display_width(wordings[-1]) > columns - layout.used_columns:
        return [*spans, (wordings[0], row.state)]
    for name, text in _cells(row, layout):
        if name == "MEMORY":
            spans += _memory(row, layout)
        else:
            spans.append((text, role))
        spans.append((_GAP, None))
    words = longest_fitting(wordings, columns - layout.used_columns)
    spans.append((words, _EMPHATIC.get(row.state)))
    return spans


def _wordings(row: GpuRow, layout: TableLayout) -> tuple[str, ...]:
    """What WHO says; the profile of an instance goes there when it has no other place."""
    if row.profile is None or "TEMP" in layout.names:
        return row.holder
    return tuple(f"{row.profile} {words}" for words in row.holder)


def _cells(row: GpuRow, layout: TableLayout) -> Iterable[tuple[str, str]]:
    """Each column's text; an instance's profile fills the room of what only the GPU has."""
    names = list(layout.names)
    if row.profile is not None and "TEMP" in names:
        at = names.index("TEMP")
        upto = names.index("MEMORY")
        room = sum(layout.widths[name] + len(_GAP) for name in names[at:upto]) - len(_GAP)
        names[at:upto] = ["PROFILE"]
        cells = {"PROFILE": align_left(row.profile, room)}
    else:
        cells = {}
    for name in names:
        if name in cells or name == "MEMORY":
            yield name, cells.get(name, "")
            continue
        put = align_left if name in _LEFT else align_right
        empty = "" if row.profile is not None else UNKNOWN
        yield name, put(row.cells.get(name, empty), layout.widths[name])


def _memory(row: GpuRow, layout: TableLayout) -> list[Span]:
    memory, room = row.memory, layout.widths["MEMORY"]
    role: TextRole | None = "unknown" if row.state == "unknown" else None
    if not memory.is_known:
        text = "shared" if memory.shared else UNKNOWN
        return [
            (
                align_left(text, room + (layout.bar_width + len(_GAP) if layout.bar_width else 0)),
                role,
            )
        ]
    number = align_left(align_right(memory.used, layout.widths["USED"]) + _total(memory), room)
    return [*_bar(row, layout.bar_width), (number, role)]


def _bar(row: GpuRow, bar: int) -> list[Span]:
    if not bar:
        return []
    if row.memory.share is None:
        return [(" " * bar + _GAP, None)]
    full = round(row.memory.share * bar)
    return [("▓" * full, row.state), ("░" * (bar - full) + _GAP, "dim")]
