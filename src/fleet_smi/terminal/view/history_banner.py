"""The banner above a screen with `--at`: its time, and how many nodes were reporting then."""

from typing import Protocol

from fleet_smi.model.fleet import Summary
from fleet_smi.model.units import format_elapsed, pluralize
from fleet_smi.terminal.paint import Paint, display_width
from fleet_smi.terminal.view.formatting import SEPARATOR, ToLocalTime, format_moment, to_local_time


class DatedView(Protocol):
    """A view of the fleet at one time."""

    @property
    def taken_at(self) -> float:
        """The time of the view, in seconds since 1970."""

    @property
    def summary(self) -> Summary:
        """Counts of nodes and of reporting nodes."""


def banner(
    view: DatedView, columns: int, paint: Paint, *, now: float, local: ToLocalTime = to_local_time
) -> str:
    """Return the banner line and an empty line; a narrow terminal gets the short date only."""
    at, summary = view.taken_at, view.summary
    were = "was" if summary.nodes == 1 else "were"
    reporting = f"{summary.nodes_reporting} of {pluralize(summary.nodes, 'node')} {were} reporting"
    details = SEPARATOR.join(["", f"{format_elapsed(now - at)} ago", reporting])
    time = local(at)
    title = f"As of {format_moment(at, now, local)}"
    rest = f"{SEPARATOR}{time:%Y-%m-%d %H:%M:%S}{details}"
    if display_width(title + rest) > columns:
        title, rest = f"As of {time:%Y-%m-%d %H:%M}", details
    return paint.line([(title, "title"), (rest, "dim")], columns) + "\n\n"
