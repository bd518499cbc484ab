"""The table of GPUs: which columns fit, and each row as a line."""

from collections.abc import Iterable, Sequence

from msgspec import Struct

from fleet_smi.model.fleet import State
from fleet_smi.terminal.paint import Role, Span, left, right, width
from fleet_smi.terminal.view.gpu_cells import Memory, Row
from fleet_smi.terminal.view.holder import best
from fleet_smi.terminal.view.words import UNKNOWN

WIDE_COLUMNS = 120
_ROOMY_COLUMNS = 160
ALWAYS = ("UTIL", "TEMP", "POWER")
# What a wide terminal gains, the most asked for first.
EXTRAS = ("CLOCK", "PCIE", "FAN", "CONTAINER", "LIMIT", "MEMCLOCK", "PERF", "ECC")
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
_EMPHATIC: dict[State, Role] = {
    "leased": "leased",
    "held": "held",
    "ghost": "warn",
    "broken": "broken",
    "unknown": "unknown",
}


class Layout(Struct, frozen=True):
    """The columns shown, the room each has, and the width of the memory bar."""

    names: tuple[str, ...]
    widths: dict[str, int]
    bar: int

    def without(self, name: str) -> "Layout":
        """The same columns but one."""
        return Layout(tuple(each for each in self.names if each != name), self.widths, self.bar)

    @property
    def taken(self) -> int:
        """The columns in front of WHO."""
        names = ("#", "STATE", *self.names)
        bar = self.bar + len(_GAP) if self.bar else 0
        return sum(self.widths[name] + len(_GAP) for name in names) + bar


def choose(rows: Sequence[Row], columns: int, *, mixed: bool) -> Layout:
    """The richest layout that leaves WHO the room it needs."""
    widths = _widths(rows)
    if WIDE_COLUMNS <= columns < _ROOMY_COLUMNS:
        # A long name would cost the columns that a wide terminal is there for.
        widths["MODEL"] = min(widths["MODEL"], _MODEL_CAPS[0])
    wanted = max((width(row.who[0]) for row in rows), default=0)
    names: tuple[str, ...] = (*ALWAYS, "MEMORY", *(("MODEL",) if mixed else ()))
    layout = _narrowed(names, widths, columns - min(wanted, _WHO_AT_LEAST))
    if columns >= WIDE_COLUMNS:
        layout = _widened(rows, layout, columns - min(max(wanted, _WHO_AT_LEAST), _WHO_AT_BEST))
    return layout


def _narrowed(names: tuple[str, ...], widths: dict[str, int], room: int) -> Layout:
    """What does not fit gives way: the model's name first, then the bar, then the rest."""
    layout = Layout(names, widths, _BARS[0])
    for narrower in _narrower(layout):
        layout = narrower
        if layout.taken <= room:
            break
    return layout


def _narrower(layout: Layout) -> Iterable[Layout]:
    yield layout
    for cap in _MODEL_CAPS if "MODEL" in layout.names else ():
        widths = layout.widths | {"MODEL": min(cap, layout.widths["MODEL"])}
        yield (layout := Layout(layout.names, widths, layout.bar))
    for bar in _BARS[1:]:
        yield (layout := Layout(layout.names, layout.widths, bar))
    for name in _GIVES_WAY:
        yield (layout := layout.without(name))


def _widened(rows: Sequence[Row], layout: Layout, room: int) -> Layout:
    for name in EXTRAS:
        if all(row.cells.get(name, "") in ("", UNKNOWN) for row in rows):
            continue
        names = tuple(each for each in _ORDER if each in (*layout.names, name))
        wider = Layout(names, layout.widths, layout.bar)
        if wider.taken <= room:
            layout = wider
    return layout


def _widths(rows: Sequence[Row]) -> dict[str, int]:
    widths = {name: max(4, len(name)) for name in (*ALWAYS, *EXTRAS, "MODEL")}
    widths |= {"#": 2, "STATE": 6, "FAN": 3, "ECC": 3, "MEMORY": 6}
    for row in rows:
        widths["#"] = max(widths["#"], len(row.index))
        widths["STATE"] = max(widths["STATE"], len(row.state))
        for name, cell in row.cells.items():
            widths[name] = max(widths[name], width(cell))
    for name, cap in _CAPPED.items():
        widths[name] = min(widths[name], cap)
    used, total = _memory_widths(rows)
    widths |= {"USED": used, "MEMORY": max(widths["MEMORY"], used + total)}
    return widths


def _memory_widths(rows: Iterable[Row]) -> tuple[int, int]:
    used = total = 0
    for row in rows:
        if row.memory.known:
            used = max(used, len(row.memory.used))
            total = max(total, len(_total(row.memory)))
    return used, total


def _total(memory: Memory) -> str:
    return (f"/{memory.total} GiB" if memory.total else " GiB") + " shared" * memory.shared


def head(layout: Layout) -> list[Span]:
    """The line of column heads."""
    cells = [right("#", layout.widths["#"]), left("STATE", layout.widths["STATE"])]
    for name in layout.names:
        room = layout.widths[name]
        if name == "MEMORY":
            room += layout.bar + len(_GAP) if layout.bar else 0
        put = left if name in (*_LEFT, "MEMORY") else right
        cells.append(put(name, room))
    return [(_GAP.join([*cells, "WHO"]), "head")]


def line(row: Row, layout: Layout, columns: int) -> list[Span]:
    """One row as spans of a line; words too long for WHO take the place of empty cells."""
    role: Role | None = "unknown" if row.state == "unknown" else None
    spans: list[Span] = [
        (right(row.index, layout.widths["#"]) + _GAP, role),
        (left(row.state, layout.widths["STATE"]) + _GAP, row.state),
    ]
    wordings = _wordings(row, layout)
    if row.is_blank and width(wordings[-1]) > columns - layout.taken:
        return [*spans, (wordings[0], row.state)]
    for name, text in _cells(row, layout):
        if name == "MEMORY":
            spans += _memory(row, layout)
        else:
            spans.append((text, role))
        spans.append((_GAP, None))
    words = best(wordings, columns - layout.taken)
    spans.append((words, _EMPHATIC.get(row.state)))
    return spans


def _wordings(row: Row, layout: Layout) -> tuple[str, ...]:
    """What WHO says; the profile of an instance goes there when it has no other place."""
    if row.profile is None or "TEMP" in layout.names:
        return row.who
    return tuple(f"{row.profile} {words}" for words in row.who)


def _cells(row: Row, layout: Layout) -> Iterable[tuple[str, str]]:
    """Each column's text; an instance's profile fills the room of what only the GPU has."""
    names = list(layout.names)
    if row.profile is not None and "TEMP" in names:
        at = names.index("TEMP")
        upto = names.index("MEMORY")
        room = sum(layout.widths[name] + len(_GAP) for name in names[at:upto]) - len(_GAP)
        names[at:upto] = ["PROFILE"]
        cells = {"PROFILE": left(row.profile, room)}
    else:
        cells = {}
    for name in names:
        if name in cells or name == "MEMORY":
            yield name, cells.get(name, "")
            continue
        put = left if name in _LEFT else right
        empty = "" if row.profile is not None else UNKNOWN
        yield name, put(row.cells.get(name, empty), layout.widths[name])


def _memory(row: Row, layout: Layout) -> list[Span]:
    memory, room = row.memory, layout.widths["MEMORY"]
    role: Role | None = "unknown" if row.state == "unknown" else None
    if not memory.known:
        text = "shared" if memory.shared else UNKNOWN
        return [(left(text, room + (layout.bar + len(_GAP) if layout.bar else 0)), role)]
    number = left(right(memory.used, layout.widths["USED"]) + _total(memory), room)
    return [*_bar(row, layout.bar), (number, role)]


def _bar(row: Row, bar: int) -> list[Span]:
    if not bar:
        return []
    if row.memory.share is None:
        return [(" " * bar + _GAP, None)]
    full = round(row.memory.share * bar)
    return [("▓" * full, row.state), ("░" * (bar - full) + _GAP, "dim")]
