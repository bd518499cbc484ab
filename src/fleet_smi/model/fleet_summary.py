"""The fleet in a few numbers, for status lines: GPUs by state, and those of one person."""

from collections.abc import Iterable

from msgspec import Struct

from fleet_smi.model.fleet import FleetView, Summary
from fleet_smi.model.node_summary import FleetOverview, UserCount, view_overview


class FleetSummary(Struct, frozen=True, kw_only=True):
    """The counts of a fleet; `mine` are the GPUs that `user` holds, `mine_idle` those held idle.

    Without a `user` both are unknown.
    """

    taken_at: float
    summary: Summary
    user: str | None = None
    mine: int | None = None
    mine_idle: int | None = None


def summarize_fleet(
    taken_at: float, summary: Summary, users: Iterable[UserCount], user: str | None
) -> FleetSummary:
    """Return the counts, with those of one user of all that hold GPUs on a node."""
    if user is None:
        return FleetSummary(taken_at=taken_at, summary=summary)
    theirs = [count for count in users if count.user == user]
    return FleetSummary(
        taken_at=taken_at,
        summary=summary,
        user=user,
        mine=sum([count.gpus for count in theirs]),
        mine_idle=sum([count.idle for count in theirs]),
    )


def summarize_view(view: FleetView | FleetOverview, user: str | None) -> FleetSummary:
    """Return the counts of a view."""
    overview = view if isinstance(view, FleetOverview) else view_overview(view)
    users = [count for node in overview.nodes for count in node.users]
    return summarize_fleet(overview.taken_at, overview.summary, users, user)
