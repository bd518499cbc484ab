"""The views that are lists: people, and the queue."""

from fleet_smi.model.people import PeopleView
from fleet_smi.model.queue.view import QueueView
from fleet_smi.terminal.top.spans import TopLine, fit
from fleet_smi.terminal.view import queue as queue_table
from fleet_smi.terminal.view.formatting import ToLocalTime
from fleet_smi.terminal.view.who import who_lines


def people_lines(people: PeopleView | None, columns: int, local: ToLocalTime) -> list[TopLine]:
    """Return who holds GPUs, as `fleet-smi who` does."""
    if people is None:
        return [[(" loading …", "dim")]]
    lines = who_lines(people, columns - 2, local=local)
    return [fit([(" ", None), *line], columns) for line in lines]


def queue_lines(queue: QueueView | None, columns: int) -> list[TopLine]:
    """Return who waits for GPUs, as `fleet-smi queue` does."""
    if queue is None:
        return [[(" loading …", "dim")]]
    heading, *rows = queue_table.render(queue, columns - 2).splitlines() or [""]
    lines = [fit([(f" {row}", None)], columns) for row in rows]
    return [fit([(f" {heading}", "head")], columns), *lines]
