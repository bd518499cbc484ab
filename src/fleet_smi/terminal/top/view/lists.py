"""The views that are lists: people, and the queue."""

from collections.abc import Sequence

from fleet_smi.model.people import PeopleView
from fleet_smi.terminal.paint import align_left, display_width
from fleet_smi.terminal.top.spans import TopLine, fit
from fleet_smi.terminal.view.formatting import ToLocalTime
from fleet_smi.terminal.view.who import who_lines

_GAP = "  "
_MAX_WIDTH = 40


def people_lines(people: PeopleView | None, columns: int, local: ToLocalTime) -> list[TopLine]:
    """Return who holds GPUs, as `fleet-smi who` does."""
    if people is None:
        return [[(" loading …", "dim")]]
    lines = who_lines(people, columns - 2, local=local)
    return [fit([(" ", None), *line], columns) for line in lines]


def queue_lines(table: Sequence[Sequence[str]], columns: int) -> list[TopLine]:
    """Return who waits for GPUs: a row of headings, and one row per request."""
    if not table:
        return [[(" loading …", "dim")]]
    if len(table) == 1:
        return [fit([(" Nobody waits for a GPU.", "dim")], columns)]
    widths = [
        min(_MAX_WIDTH, max([display_width(row[at]) for row in table if at < len(row)], default=0))
        for at in range(len(table[0]))
    ]
    lines = []
    for number, row in enumerate(table):
        cells = [align_left(cell, width) for cell, width in zip(row[:-1], widths, strict=False)]
        text = _GAP.join([*cells, *row[-1:]])
        lines.append(fit([(f" {text}", None if number else "head")], columns))
    return lines
