"""Layout of the GPU table: choose the columns that fit the width, and format rows."""

from collections.abc import Callable, Iterable, Mapping, Sequence

from msgspec import Struct
from msgspec.structs import force_setattr

from fleet_smi.model.figures import GPU_FIGURES
from fleet_smi.model.fleet import State
from fleet_smi.model.units import UNKNOWN
from fleet_smi.terminal.paint import Span, TextRole, align_left, align_right, display_width
from fleet_smi.terminal.view.gpu_cells import GpuRow, MemoryCell, add_column
from fleet_smi.terminal.view.holder import longest_fitting

WIDE_COLUMNS = 120
_ROOMY_COLUMNS = 160
DEFAULT_COLUMNS = ("UTIL", "TEMP", "POWER")
# Columns that a wide terminal adds, in order of preference.
_PREFERRED_COLUMNS = ("CLOCK", "PCIE", "FAN", "CONTAINER", "LIMIT", "MEMCLOCK", "PERF", "ECC")
_OTHER_COLUMNS = tuple(
    [
        figure.table
        for figure in GPU_FIGURES
        if figure.table and figure.table not in (*DEFAULT_COLUMNS, "MEMORY", *_PREFERRED_COLUMNS)
    ]
)
OPTIONAL_COLUMNS = (*_PREFERRED_COLUMNS, *_OTHER_COLUMNS)
_ORDER = (
    *("UTIL", "TEMP", "POWER", "LIMIT", "CLOCK", "MEMCLOCK", "FAN", "PCIE", "PERF", "ECC"),
    *(*_OTHER_COLUMNS, "MEMORY", "MODEL", "CONTAINER"),
)
_LEFT_ALIGNED = ("MODEL", "CONTAINER")
_MAX_WIDTHS = {"MODEL": 24, "CONTAINER": 24}
_MODEL_WIDTHS = (14, 9)
_GAP = "  "
_BAR_WIDTHS = (10, 6, 0)
# Columns that a narrow terminal drops after the memory bar, in this order.
_DROPPABLE = ("POWER", "TEMP", "UTIL")
_MIN_WHO_WIDTH, _GOOD_WHO_WIDTH = 20, 32
# States whose WHO text is coloured too; free and busy need no attention.
_WHO_ROLES: dict[State, TextRole] = {
    "leased": "leased",
    "held": "held",
    "ghost": "warn",
    "broken": "broken",
    "unknown": "unknown",
}


class TableLayout(Struct, frozen=True):
    """The columns shown, their widths, and the width of the memory bar."""

    names: tuple[str, ...]
    widths: dict[str, int]
    bar_width: int
    used_columns: int = 0
    """The display width of everything before WHO."""
    alignments: tuple[tuple[str, Callable[[str, int], str], int], ...] = ()
    """Name, function and width of each column."""

    def __post_init__(self) -> None:
        # Once per layout, not once per row.
        names = ("#", "STATE", *self.names)
        bar = self.bar_width + len(_GAP) if self.bar_width else 0
        used = sum(self.widths[name] + len(_GAP) for name in names) + bar
        force_setattr(self, "used_columns", used)
        columns = [(name, _alignment(name), self.widths[name]) for name in self.names]
        force_setattr(self, "alignments", tuple(columns))

    def without(self, name: str) -> "TableLayout":
        """Return the layout without one column."""
        return TableLayout(
            tuple(other for other in self.names if other != name), self.widths, self.bar_width
        )


def choose_layouts(rows: Sequence[GpuRow], columns: int) -> tuple[TableLayout, TableLayout]:
    """Return the layouts with the most columns that leave enough width for WHO.

    The first has no column for the model of a GPU, the second has one.
    """
    added = {name: add_column(rows, name) for name in DEFAULT_COLUMNS}
    widths = _widths(rows, added)
    without, with_model = (
        _choose_layout(rows, columns, dict(widths), added, show_model=show)
        for show in (False, True)
    )
    return without, with_model


def _choose_layout(
    rows: Sequence[GpuRow],
    columns: int,
    widths: dict[str, int],
    added: dict[str, set[str]],
    *,
    show_model: bool,
) -> TableLayout:
    if WIDE_COLUMNS <= columns < _ROOMY_COLUMNS:
        # A long model name would take the place of the optional columns.
        widths["MODEL"] = min(widths["MODEL"], _MODEL_WIDTHS[0])
    who_width = max((display_width(row.holder[0]) for row in rows), default=0)
    names: tuple[str, ...] = (*DEFAULT_COLUMNS, "MEMORY", *(("MODEL",) if show_model else ()))
    # WHO may be shortened, but below its minimum other columns give way first.
    layout = _shrink(names, widths, columns - min(who_width, _MIN_WHO_WIDTH))
    if columns >= WIDE_COLUMNS:
        reserved = min(max(who_width, _MIN_WHO_WIDTH), _GOOD_WHO_WIDTH)
        layout = _add_columns(rows, layout, columns - reserved, added)
    return layout


def _shrink(names: tuple[str, ...], widths: dict[str, int], available: int) -> TableLayout:
    """Return the first layout that fits, or the narrowest."""
    layout = TableLayout(names, widths, _BAR_WIDTHS[0])
    for narrower in _narrower_layouts(layout):
        layout = narrower
        if layout.used_columns <= available:
            break
    return layout


def _narrower_layouts(layout: TableLayout) -> Iterable[TableLayout]:
    """Yield ever narrower layouts: a shorter model name, a shorter bar, fewer columns."""
    yield layout
    for max_width in _MODEL_WIDTHS if "MODEL" in layout.names else ():
        widths = layout.widths | {"MODEL": min(max_width, layout.widths["MODEL"])}
        yield (layout := TableLayout(layout.names, widths, layout.bar_width))
    for bar_width in _BAR_WIDTHS[1:]:
        yield (layout := TableLayout(layout.names, layout.widths, bar_width))
    for name in _DROPPABLE:
        yield (layout := layout.without(name))


def _add_columns(
    rows: Sequence[GpuRow], layout: TableLayout, available: int, added: dict[str, set[str]]
) -> TableLayout:
    """Add the optional columns that fit and are not empty in every row.

    `added` has the distinct texts of the columns that another layout has added to the rows.
    """
    for name in OPTIONAL_COLUMNS:
        if layout.used_columns + layout.widths[name] + len(_GAP) > available:
            continue  # not even its header fits
        if name not in added:
            added[name] = add_column(rows, name)
        if added[name] <= {"", UNKNOWN}:
            continue
        widths = layout.widths | {name: _width(name, layout.widths[name], added[name])}
        # Preference decides which columns are added; their order on screen is always the same.
        shown = (*layout.names, name)
        names = tuple(column for column in _ORDER if column in shown)
        wider = TableLayout(names, widths, layout.bar_width)
        if wider.used_columns <= available:
            layout = wider
    return layout


def _width(name: str, least: int, texts: Iterable[str]) -> int:
    width = max([least, *map(display_width, texts)])
    return min(width, _MAX_WIDTHS.get(name, width))


def _widths(rows: Sequence[GpuRow], texts: Mapping[str, set[str]]) -> dict[str, int]:
    """Return the widths of all columns; `texts` has those of the columns that are always there."""
    # Every column is at least as wide as its header.
    widths = {name: max(4, len(name)) for name in (*DEFAULT_COLUMNS, *OPTIONAL_COLUMNS, "MODEL")}
    widths |= {"#": 2, "STATE": 6, "FAN": 3, "ECC": 3, "MEMORY": 6}
    # By distinct texts, of which a large table has few.
    instances = [row.cells["UTIL"] for row in rows if row.gpu is None]
    models = {model for row in rows if (model := row.cells.get("MODEL"))}
    shown = {**texts, "UTIL": {*texts["UTIL"], *instances}, "MODEL": models}
    shown |= {"#": {row.index for row in rows}, "STATE": {row.state for row in rows}}
    for name, cells in shown.items():
        widths[name] = _width(name, widths[name], cells)
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
    """Return the header line."""
    cells = [align_right("#", layout.widths["#"]), align_left("STATE", layout.widths["STATE"])]
    for name in layout.names:
        width = layout.widths[name]
        if name == "MEMORY":
            width += layout.bar_width + len(_GAP) if layout.bar_width else 0
        align = align_left if name in (*_LEFT_ALIGNED, "MEMORY") else align_right
        cells.append(align(name, width))
    return [(_GAP.join([*cells, "WHO"]), "head")]


def row_spans(row: GpuRow, layout: TableLayout, columns: int) -> list[Span]:
    """Return one row as spans.

    If nothing was measured and the text is too long for WHO, it takes the place of the cells.
    """
    role: TextRole | None = "unknown" if row.state == "unknown" else None
    spans: list[Span] = [
        (align_right(row.index, layout.widths["#"]) + _GAP, role),
        (align_left(row.state, layout.widths["STATE"]) + _GAP, row.state),
    ]
    variants, who_columns = _who_variants(row, layout), columns - layout.used_columns
    if row.is_blank and display_width(variants[-1]) > who_columns:
        return [*spans, (variants[0], row.state)]
    if role is None and row.profile is None:
        spans += _plain_cells(row, layout)
    else:
        for name, text in _cells(row, layout):
            spans += _memory(row, layout) if name == "MEMORY" else [(text, role)]
            spans.append((_GAP, None))
    who = longest_fitting(variants, who_columns)
    spans.append((who, _WHO_ROLES.get(row.state)))
    return spans


def _who_variants(row: GpuRow, layout: TableLayout) -> tuple[str, ...]:
    """Return the WHO texts; without TEMP, the MIG profile has no other place than here."""
    if row.profile is None or "TEMP" in layout.names:
        return row.holder
    return tuple(f"{row.profile} {text}" for text in row.holder)


def _plain_cells(row: GpuRow, layout: TableLayout) -> list[Span]:
    """Return the cells of a whole GPU without colours, as few spans: nearly all rows are such."""
    cells, spans, texts = row.cells, list[Span](), list[str]()
    for name, align, width in layout.alignments:
        if name == "MEMORY":
            spans = [("".join(texts), None), *_memory(row, layout)]
            texts = [_GAP]
        else:
            texts += align(cells.get(name, UNKNOWN), width), _GAP
    return [*spans, ("".join(texts), None)]


def _cells(row: GpuRow, layout: TableLayout) -> Iterable[tuple[str, str]]:
    """Yield each column and its text; a MIG profile spans the columns only a whole GPU has."""
    names = list(layout.names)
    if row.profile is None:
        cells, empty = dict[str, str](), UNKNOWN
    elif "TEMP" in names:
        start, end = names.index("TEMP"), names.index("MEMORY")
        width = sum(layout.widths[name] + len(_GAP) for name in names[start:end]) - len(_GAP)
        names[start:end] = ["PROFILE"]
        cells, empty = {"PROFILE": align_left(row.profile, width)}, ""
    else:
        cells, empty = {}, ""
    for name in names:
        if name in cells or name == "MEMORY":
            yield name, cells.get(name, "")
            continue
        yield name, _alignment(name)(row.cells.get(name, empty), layout.widths[name])


def _alignment(name: str) -> Callable[[str, int], str]:
    return align_left if name in _LEFT_ALIGNED else align_right


def _memory(row: GpuRow, layout: TableLayout) -> list[Span]:
    memory, width = row.memory, layout.widths["MEMORY"]
    role: TextRole | None = "unknown" if row.state == "unknown" else None
    if not memory.is_known:
        text = "shared" if memory.shared else UNKNOWN
        bar = layout.bar_width + len(_GAP) if layout.bar_width else 0
        return [(align_left(text, width + bar), role)]
    number = align_left(align_right(memory.used, layout.widths["USED"]) + _total(memory), width)
    return [*_bar(row, layout.bar_width), (number, role)]


def _bar(row: GpuRow, width: int) -> list[Span]:
    if not width:
        return []
    if row.memory.share is None:
        return [(" " * width + _GAP, None)]
    filled = round(row.memory.share * width)
    return [("▓" * filled, row.state), ("░" * (width - filled) + _GAP, "dim")]
