"""State of each GPU at the end of a heat strip: from the view of that time, else the last runs."""

from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from fleet_smi.model.fleet import FleetView, JudgedGpu, JudgedInstance, NodeView, State
from fleet_smi.model.history import NO_USER, StripRun, Strips
from fleet_smi.model.people import owners

_HELD: tuple[State, ...] = ("busy", "held")
StripEnds = Mapping[tuple[str, str], "StripEnd"]
"""Keyed by node id and the UUID of the GPU or instance."""


class StripEnd(NamedTuple):
    """The state, when it began if known, its user and load.

    A node that was silent has no state; `since` is then the time of its last report.
    """

    state: State | None
    since: float | None
    user: str = NO_USER
    busy_percent: float | None = None


def strip_ends(view: FleetView) -> StripEnds:
    """Return the state of every GPU and MIG instance of the view."""
    return {
        (node.node_id, device.uuid): _end(node, device, view.taken_at)
        for node in view.nodes
        for device in _devices(node)
    }


def _devices(node: NodeView) -> Iterator[JudgedGpu | JudgedInstance]:
    for gpu in node.gpus:
        yield gpu
        yield from gpu.instances


def _end(node: NodeView, device: JudgedGpu | JudgedInstance, now: float) -> StripEnd:
    if node.silent:
        return StripEnd(None, None if node.age_seconds is None else now - node.age_seconds)
    verdict = device.verdict
    users = owners(device.processes or ()) if verdict.state in _HELD else ()
    return StripEnd(verdict.state, verdict.since, next(iter(users), NO_USER), device.busy_percent)


def strip_end_from_runs(runs: Sequence[StripRun], strips: Strips) -> StripEnd | None:
    """Return the state at the end by the runs of a row; `None` without runs.

    Runs follow each other if they are at most half a column apart. The state began with the
    first of the last runs with that state; if that reaches the start of the strip, when it
    began is not known.
    """
    if not runs:
        return None
    # Runs start and end at column edges: a smaller gap is a rounding error.
    max_gap = (strips.end - strips.start) / strips.columns / 2
    last = first = runs[-1]
    if strips.end - last.end > max_gap:
        return StripEnd(None, last.end)
    for run in reversed(runs):
        if run.state != last.state or first.start - run.end > max_gap:
            break
        first = run
    since = first.start if first.start - strips.start > max_gap else None
    return StripEnd(last.state, since, last.user, last.busy_percent)
