"""How a GPU stands where a heat strip ends: as that moment is told, else by the last columns."""

from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from fleet_smi.model.fleet import FleetView, JudgedGpu, JudgedInstance, NodeView, State
from fleet_smi.model.history import NO_USER, StripRun, Strips
from fleet_smi.model.people import owners

_HELD: tuple[State, ...] = ("busy", "held")
StripEnds = Mapping[tuple[str, str], "StripEnd"]
"""By the node's id and the UUID of the GPU or instance."""


class StripEnd(NamedTuple):
    """The state, since when where that is known, whose it is, and how busy.

    Of a node that is not heard then there is no state, and `since` is when it last was.
    """

    state: State | None
    since: float | None
    user: str = NO_USER
    busy_percent: float | None = None


def strip_ends(view: FleetView) -> StripEnds:
    """How everything stands at that moment."""
    return {
        (node.node_id, part.uuid): _end(node, part, view.taken_at)
        for node in view.nodes
        for part in _parts(node)
    }


def _parts(node: NodeView) -> Iterator[JudgedGpu | JudgedInstance]:
    for gpu in node.gpus:
        yield gpu
        yield from gpu.instances


def _end(node: NodeView, part: JudgedGpu | JudgedInstance, now: float) -> StripEnd:
    if node.silent:
        return StripEnd(None, None if node.age_seconds is None else now - node.age_seconds)
    verdict = part.verdict
    users = owners(part.processes or ()) if verdict.state in _HELD else ()
    return StripEnd(verdict.state, verdict.since, next(iter(users), NO_USER), part.busy_percent)


def strip_end_from_runs(runs: Sequence[StripRun], strips: Strips) -> StripEnd | None:
    """The same by the runs of a row, if there are any."""
    if not runs:
        return None
    apart = (strips.end - strips.start) / strips.columns / 2
    last = first = runs[-1]
    if strips.end - last.end > apart:
        return StripEnd(None, last.end)
    for run in reversed(runs):
        if run.state != last.state or first.start - run.end > apart:
            break
        first = run
    since = first.start if first.start - strips.start > apart else None
    return StripEnd(last.state, since, last.user, last.busy_percent)
