"""The queue as a table: place, who, what, how long already, until when, and why."""

from collections.abc import Iterator, Sequence
from textwrap import wrap

from fleet_smi.model.queue.view import QueueRow, QueueView
from fleet_smi.model.safe_text import sanitize_text
from fleet_smi.model.units import format_duration
from fleet_smi.terminal.paint import align_left, display_width
from fleet_smi.terminal.view.expected import format_expected

_HEADS = ("#", "ID", "WHO", "WANTS", "WAITING", "BECAUSE")
_MOST = (5, 8, 16, 30, 9)
_GAP = "  "
_MIN_REASON = 30
"""Where the last column would be narrower, it is a line of its own below the row."""


def render(view: QueueView, columns: int) -> str:
    """Return the table, or one line where nobody waits."""
    if not view.rows:
        return "nobody waits for a GPU\n"
    rows = [_HEADS, *[_cells(row, view) for row in view.rows]]
    widths = [
        min(most, max(display_width(row[at]) for row in rows)) for at, most in enumerate(_MOST)
    ]
    return "".join(f"{line.rstrip()}\n" for row in rows for line in _lines(row, widths, columns))


def _lines(row: Sequence[str], widths: Sequence[int], columns: int) -> Iterator[str]:
    """Yield the lines of a row; the reason is never cut, it is wrapped."""
    cells = [align_left(cell, width) for cell, width in zip(row, widths, strict=False)]
    before = sum(widths) + len(_GAP) * len(widths)
    if columns - before >= _MIN_REASON:
        first, *more = wrap(row[-1], columns - before) or [""]
        yield _GAP.join([*cells, first])
        yield from (" " * before + line for line in more)
        return
    yield _GAP.join(cells)
    if row is not _HEADS:
        yield from (f"   {line}" for line in wrap(row[-1], max(20, columns - 3)))


def _cells(row: QueueRow, view: QueueView) -> tuple[str, ...]:
    expected = format_expected(row.expected, view.taken_at)
    priority = "" if row.band == "normal" else f"{row.band} priority; "
    cells = (
        "" if row.place is None else str(row.place),
        row.id,
        "you" if row.own else row.person,
        row.wants,
        format_duration(max(0.0, view.taken_at - row.arrived_at)),
        "; ".join([text for text in (f"{priority}{row.why}", expected) if text]),
    )
    return tuple([sanitize_text(cell, 512) for cell in cells])


def describe_place(row: QueueRow, now: float) -> str:
    """Return the place of a request, why it waits and until when, in one line."""
    if row.place is None:
        return row.why
    place = f"place {row.place} in the queue of the hub"
    expected = format_expected(row.expected, now)
    return "; ".join([text for text in (place, row.why, expected) if text])
