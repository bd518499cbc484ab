"""The queue as a table: place, who, what, how long already, until when, and why."""

from collections.abc import Sequence

from fleet_smi.model.queue.view import QueueRow, QueueView
from fleet_smi.model.units import format_duration
from fleet_smi.terminal.view.expected import format_expected
from fleet_smi.terminal.view.plain_table import render_table

_HEADS = ("#", "ID", "WHO", "WANTS", "WAITING", "BECAUSE")


def render(view: QueueView, columns: int) -> str:
    """Return the table, or one line where nobody waits."""
    rows = [_cells(row, view) for row in view.rows]
    return render_table(_HEADS, rows, columns, "nobody waits for a GPU")


def _cells(row: QueueRow, view: QueueView) -> Sequence[str]:
    expected = format_expected(row.expected, view.taken_at)
    priority = "" if row.band == "normal" else f"{row.band} priority; "
    return (
        "" if row.place is None else str(row.place),
        row.id,
        "you" if row.own else row.person,
        row.wants,
        format_duration(max(0.0, view.taken_at - row.arrived_at)),
        "; ".join([text for text in (f"{priority}{row.why}", expected) if text]),
    )


def describe_place(row: QueueRow, now: float) -> str:
    """Return the place of a request, why it waits and until when, in one line."""
    if row.place is None:
        return row.why
    place = f"place {row.place} in the queue of the hub"
    expected = format_expected(row.expected, now)
    return "; ".join([text for text in (place, row.why, expected) if text])
