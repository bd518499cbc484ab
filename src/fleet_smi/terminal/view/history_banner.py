"""The line above a screen that shows the past: of when it is, and who was heard then."""

from typing import Protocol

from fleet_smi.model.fleet import Summary
from fleet_smi.terminal.paint import Paint, display_width
from fleet_smi.terminal.view.formatting import (
    SEPARATOR,
    ToLocalTime,
    format_elapsed,
    format_moment,
    pluralize,
    to_local_time,
)


class DatedView(Protocol):
    """Anything that shows the fleet at one moment."""

    @property
    def taken_at(self) -> float:
        """When it was so, in seconds since 1970."""

    @property
    def summary(self) -> Summary:
        """How many nodes there were, and how many reported."""


def banner(
    view: DatedView, columns: int, paint: Paint, *, now: float, local: ToLocalTime = to_local_time
) -> str:
    """One line, ending in a newline, and an empty one; where it is narrow, the day is said once."""
    at, summary = view.taken_at, view.summary
    were = "was" if summary.nodes == 1 else "were"
    heard = f"{summary.nodes_reporting} of {pluralize(summary.nodes, 'node')} {were} reporting"
    more = SEPARATOR.join(["", f"{format_elapsed(now - at)} ago", heard])
    when = local(at)
    said = f"As of {format_moment(at, now, local)}", f"{SEPARATOR}{when:%Y-%m-%d %H:%M:%S}{more}"
    if display_width("".join(said)) > columns:
        said = f"As of {when:%Y-%m-%d %H:%M}", more
    return paint.line([(said[0], "title"), (said[1], "dim")], columns) + "\n\n"
