"""The last hour of every node and GPU, in memory: for whoever looks at one of them closely.

Pure: the caller brings the snapshots and the time, always by the hub's own clock.
"""

from collections.abc import Callable, Mapping, Sequence
from itertools import chain
from math import isnan
from operator import attrgetter

from msgspec import Struct

from fleet_smi.hub.fleet import Change
from fleet_smi.hub.ring import GRAIN_SECONDS, GRAINS, Columns, Ring
from fleet_smi.model.fleet import State
from fleet_smi.model.snapshot import Host, Snapshot

_MEBIBYTES_IN_A_GIBIBYTE = 1024
_LATE = 1.5
"""So many intervals a report holds: the next may be a little late."""
_of_a_gpu = attrgetter("busy_percent", "memory_used_bytes", "power_watts", "temperature_celsius")

Figures = list[float | None]


class NodeHour(Struct, frozen=True, kw_only=True):
    """A node over an hour."""

    cpu_percent: Figures
    memory_percent: Figures


class GpuHour(Struct, frozen=True, kw_only=True):
    """A GPU over an hour; `state` is `null` where it was not judged."""

    busy_percent: Figures
    memory_used_mebibytes: list[int | None]
    power_watts: Figures
    temperature_celsius: Figures
    state: list[State | None]


class Hour(Struct, frozen=True, kw_only=True, rename={"start": "from"}):
    """An hour of one node: figures every `grain_seconds` from `from` on, `null` for unknown."""

    grain_seconds: int
    start: int
    node: NodeHour
    gpus: dict[str, GpuHour]


class Recent:
    """The last hour of every node; `states_of` tells how the GPUs of a node are judged now."""

    def __init__(self, states_of: Callable[[str], Mapping[str, State]]) -> None:
        self._states_of = states_of
        self._rings: dict[str, Ring] = {}

    def take(self, change: Change) -> None:
        """Take in what was believed, or what came late and fills a hole."""
        snapshot, grain = change.snapshot, int(change.at // GRAIN_SECONDS)
        ring = self._rings.get(snapshot.node_id)
        if ring is None or ring.grain != grain or ring.reported != change.reported:
            ring = self._turned(change, grain)
        ring.gather(_figures(snapshot))

    def forget(self, node_id: str) -> None:
        """A node was removed."""
        self._rings.pop(node_id, None)

    def hour(self, node_id: str, now: float) -> Hour:
        """The hour up to now; of a node that nothing was heard of, it is empty."""
        last = int(now // GRAIN_SECONDS)
        ring = self._rings.get(node_id) or Ring([], last)
        columns = ring.hour(last)
        cpu, memory = map(_rounded, columns.node())
        return Hour(
            grain_seconds=GRAIN_SECONDS,
            start=(last - GRAINS + 1) * GRAIN_SECONDS,
            node=NodeHour(cpu_percent=cpu, memory_percent=memory),
            gpus={uuid: _gpu_hour(columns, uuid) for uuid in columns.uuids},
        )

    def _turned(self, change: Change, grain: int) -> Ring:
        node_id = change.snapshot.node_id
        states = self._states_of(node_id)
        ring = self._rings.get(node_id)
        if ring is None:
            ring = self._rings[node_id] = Ring(list(states), grain)
        ring.turn(grain, [gpu.uuid for gpu in change.snapshot.gpus], states, late=change.late)
        ring.reported = change.reported
        ring.holds = 1 + int((change.snapshot.interval_seconds or 0.0) * _LATE // GRAIN_SECONDS)
        return ring


def _figures(snapshot: Snapshot) -> Figures:
    """What a report has to say, in the order of a row."""
    host = snapshot.host
    gpus = chain.from_iterable(map(_of_a_gpu, snapshot.gpus))
    return [host.cpu_percent, _memory_percent(host), *gpus]


def _memory_percent(host: Host) -> float | None:
    used, total = host.memory_used_bytes, host.memory_total_bytes
    return None if used is None or not total else 100 * used / total


def _gpu_hour(columns: Columns, uuid: str) -> GpuHour:
    busy, memory, watts, celsius = columns.gpu(uuid)
    return GpuHour(
        busy_percent=_rounded(busy),
        memory_used_mebibytes=_mebibytes(memory),
        power_watts=_rounded(watts),
        temperature_celsius=_rounded(celsius),
        state=columns.states(uuid),
    )


def _rounded(figures: Sequence[float]) -> Figures:
    return [None if isnan(figure) else round(figure, 1) for figure in figures]


def _mebibytes(gibibytes: Sequence[float]) -> list[int | None]:
    in_mebibytes = _MEBIBYTES_IN_A_GIBIBYTE
    return [None if isnan(figure) else round(figure * in_mebibytes) for figure in gibibytes]
