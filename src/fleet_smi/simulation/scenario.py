"""Scenario of a simulated fleet: the snapshot of each node at any time.

Pure: the same seed, start and time give the same snapshot. Times before the start work too,
so a hub can be backfilled with an hour in detail and a week in outline.
"""

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from msgspec import Struct
from msgspec.structs import replace

from fleet_smi import __version__
from fleet_smi.model.snapshot import CollectorRun, Host, Snapshot
from fleet_smi.model.units import GIB
from fleet_smi.simulation.gpu_models import GpuModel
from fleet_smi.simulation.gpu_slots import GpuSlot
from fleet_smi.simulation.seeded_random import seeded_rng, smooth_noise

RECENT_SECONDS = 3600.0
_DAY_SECONDS = 86400.0
WEEK_SECONDS = 7 * _DAY_SECONDS
_HOUR_STEP, _DAY_STEP, _WEEK_STEP = 10.0, 900.0, 3600.0
"""Seconds between backfilled snapshots: in the last hour, the day before, the week before."""

_DRIVERS = (("580.95.05", "13.0"), ("570.172.08", "12.8"), ("590.48.01", "13.1"))
_RUNS = tuple(
    CollectorRun(name=name, outcome="ok", seconds=seconds)
    for name, seconds in (
        ("nvidia", 0.0041),
        ("host", 0.0003),
        ("network", 0.0001),
        ("processes", 0.0012),
    )
)


class MachineModel(Struct, frozen=True, kw_only=True, gc=False):
    """A kind of machine: its GPU model, CPU count and memory."""

    gpu_model: GpuModel
    cpu_count: int
    memory_total_bytes: int


class BackfillPoint(NamedTuple):
    """A past time to report, and the reporting interval at that time."""

    at: float
    interval_seconds: float


class SimulatedNode(Struct, frozen=True, kw_only=True):
    """One simulated machine; it sends nothing during `outage` and from `silent_from` on."""

    node_id: str
    name: str
    slots: tuple[GpuSlot, ...]
    host: Host
    run_id: str
    boot_id: str
    labels: dict[str, str] = {}
    silent_from: float | None = None
    outage: tuple[float, float] | None = None
    phase: float = 0.0


class FleetScenario:
    """Snapshots of every node of a simulated fleet, by time."""

    def __init__(self, nodes: Sequence[SimulatedNode], interval_seconds: float) -> None:
        self.nodes = tuple(nodes)
        self.interval_seconds = interval_seconds

    def snapshot(
        self, index: int, at: float, sequence: int, interval_seconds: float | None = None
    ) -> Snapshot:
        """Return the snapshot of one node at a time."""
        node = self.nodes[index]
        return Snapshot(
            node_id=node.node_id,
            name=node.name,
            taken_at=at,
            interval_seconds=interval_seconds or self.interval_seconds,
            sequence=sequence,
            run_id=node.run_id,
            boot_id=node.boot_id,
            agent_version=__version__,
            labels=node.labels,
            host=_host(node, at),
            gpus=tuple([slot.gpu(at) for slot in node.slots]),
            runs=_RUNS,
        )

    def is_reporting(self, index: int, at: float) -> bool:
        """Whether a node sends reports at that time."""
        node = self.nodes[index]
        if node.outage is not None and node.outage[0] <= at < node.outage[1]:
            return False
        return node.silent_from is None or at < node.silent_from


def last_hour(now: float, step: float = _HOUR_STEP) -> tuple[BackfillPoint, ...]:
    """Return backfill points for the last hour, oldest first."""
    return tuple(_points(now, RECENT_SECONDS, 0.0, step))


def last_week(now: float, hour_step: float = _HOUR_STEP) -> tuple[BackfillPoint, ...]:
    """Return backfill points for the last week, oldest first, with this step in the last hour."""
    day = _points(now, _DAY_SECONDS, RECENT_SECONDS, _DAY_STEP)
    hour = last_hour(now, hour_step)
    return (
        *_points(now, WEEK_SECONDS, _DAY_SECONDS, _WEEK_STEP),
        *_after_longer_interval(tuple(day), _WEEK_STEP),
        *_after_longer_interval(hour, _DAY_STEP),
    )


def _after_longer_interval(
    points: tuple[BackfillPoint, ...], interval_seconds: float
) -> Iterator[BackfillPoint]:
    """Yield the points, the first with the interval before it: the pause is no missed report."""
    yield points[0]._replace(interval_seconds=interval_seconds)
    yield from points[1:]


def _points(now: float, first: float, last: float, step: float) -> Iterator[BackfillPoint]:
    """Yield points from `first` to `last` seconds ago, excluding the last."""
    # Computed from the number, so that rounding errors do not add up.
    for number in range(int((first - last) / step)):
        yield BackfillPoint(now - first + number * step, step)


def make_node(
    name: str,
    machine_model: MachineModel,
    slots: Sequence[GpuSlot],
    *,
    key: object,
    start: float,
    labels: dict[str, str],
    silent_from: float | None = None,
    outage: tuple[float, float] | None = None,
) -> SimulatedNode:
    """Create a node of a machine model; `key` seeds everything random about it."""
    rng = seeded_rng(key, "node")
    driver, cuda = rng.choice(_DRIVERS)
    host = Host(
        addresses=(f"10.20.{rng.randrange(256)}.{rng.randrange(1, 255)}",),
        kernel="6.8.0-85-generic",
        driver_version=driver,
        cuda_version=cuda,
        booted_at=start - _DAY_SECONDS * (2 + 90 * rng.random()),
        cpu_count=machine_model.cpu_count,
        memory_total_bytes=machine_model.memory_total_bytes,
    )
    return SimulatedNode(
        node_id=f"{rng.getrandbits(128):032x}",
        name=name,
        slots=tuple(slots),
        host=host,
        # Of the start too: each start is a new run of the same node.
        run_id=f"{seeded_rng(key, 'run', start).getrandbits(64):016x}",
        boot_id=f"{rng.getrandbits(128):032x}",
        labels=labels,
        silent_from=silent_from,
        outage=outage,
        phase=1000.0 * rng.random(),
    )


def _host(node: SimulatedNode, at: float) -> Host:
    """Return host figures that drift, each at its own pace."""
    cpus, total = node.host.cpu_count or 1, node.host.memory_total_bytes or GIB
    percent = 6.0 + 34.0 * smooth_noise(at / 5.0 + node.phase)
    load = cpus * (0.06 + 0.34 * smooth_noise(at / 60.0 + node.phase))
    return replace(
        node.host,
        cpu_percent=int(10.0 * percent) / 10.0,
        load_1_minute=int(cpus * percent) / 100.0,
        load_5_minutes=int(100.0 * load) / 100.0,
        load_15_minutes=int(90.0 * load) / 100.0,
        memory_used_bytes=int(total * (0.11 + 0.24 * smooth_noise(at / 45.0 + node.phase))),
    )
