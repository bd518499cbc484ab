"""The usage report of a range: totals, hours of the day, least used GPUs and idle jobs."""

from collections.abc import Callable, Iterable, Sequence
from datetime import datetime

from msgspec import Struct

from fleet_smi.model.fleet import FleetView, JudgedGpu, NodeView, State
from fleet_smi.model.history import Gap, Job, Ribbon, RibbonPoint, Sums, Usage, Usages
from fleet_smi.model.mig import instance_weights
from fleet_smi.model.safe_text import natural_sort_key

HOUR_SECONDS = 3600.0
_JOULES_PER_KILOWATT_HOUR = 3.6e6
_TAKEN: tuple[State, ...] = ("busy", "held", "ghost")
_MAX_LEAST_USED = 5
MAX_WASTE = 10
_MIN_WASTE_SECONDS = 3600.0


class HourOfDay(Struct, frozen=True, kw_only=True):
    """How many GPUs were in use at this hour of the day, on average, and of how many."""

    hour: int
    in_use: float
    gpus: float


class Price(Struct, frozen=True, kw_only=True):
    """What a kilowatt-hour costs."""

    per_kwh: float
    currency: str = ""


class UsageReport(Struct, frozen=True, kw_only=True):
    """The contents of a usage report.

    `heard` is the share of the GPU-time in which the nodes reported; the rest is not counted.
    `waste` are the jobs with the most idle time; `None` where there were too many to rank.
    """

    usages: Usages
    hours: tuple[HourOfDay, ...]
    least_used: tuple[Usage, ...]
    waste: tuple[Job, ...] | None
    heard: float | None
    gaps: tuple[Gap, ...] = ()
    price: Price | None = None

    @property
    def observed_seconds(self) -> float:
        """The GPU-time in which the nodes reported, in use or not."""
        return sum(self.usages.by_state.values())

    def cost(self, sums: Sums) -> float | None:
        """Return the cost of the energy in these sums; `None` without a price."""
        return None if self.price is None else kilowatt_hours(sums) * self.price.per_kwh


def build_usage_report(
    usages: Usages,
    gpus: Usages,
    fleet: FleetView,
    ribbon: Ribbon,
    jobs: Iterable[Job] | None,
    *,
    to_local_time: Callable[[float], datetime],
    price: Price | None = None,
) -> UsageReport:
    """Build the report of one range from the results of the single queries.

    `gpus` are the usages of each GPU, by node and UUID. `fleet` is the fleet at the end of the
    range, which has the unused GPUs too. `jobs` is `None` where there are too many.
    """
    return UsageReport(
        usages=usages,
        hours=hours_of_day(ribbon.moments, to_local_time),
        least_used=_least_used(gpus, fleet.nodes),
        waste=None if jobs is None else _waste(jobs),
        heard=_coverage(usages, fleet),
        gaps=ribbon.gaps,
        price=price,
    )


def _waste(jobs: Iterable[Job]) -> tuple[Job, ...]:
    idle = [job for job in jobs if job.sums.idle_seconds >= _MIN_WASTE_SECONDS]
    idle.sort(key=lambda job: (-job.sums.idle_seconds, job.id))
    return tuple(idle[:MAX_WASTE])


def _least_used(gpus: Usages, nodes: Iterable[NodeView]) -> tuple[Usage, ...]:
    """Return the GPUs and instances of reporting nodes that worked the least."""
    known = {(row.node_id, row.name): row.sums for row in gpus.rows}

    def sums_of(node: NodeView, uuid: str) -> Sums:
        by_uuid = known.get((None, uuid), Sums())  # from an older hub
        return known.get((node.node_id, uuid), by_uuid)

    found = [
        Usage(name=name, sums=scale_sums(sums_of(node, uuid), 1.0 / weight))
        for node in nodes
        if not node.silent
        for gpu in node.gpus
        for name, uuid, weight in _parts(f"{node.name}:{gpu.index}", gpu)
    ]
    found.sort(
        key=lambda row: (
            _worked_seconds(row.sums),
            row.sums.gpu_seconds,
            natural_sort_key(row.name),
        )
    )
    return tuple(found[:_MAX_LEAST_USED])


def _parts(name: str, gpu: JudgedGpu) -> list[tuple[str, str, float]]:
    """Return name, UUID and weight of what can be used of a GPU: itself, or its instances.

    The time of an instance is counted as that part of a GPU; divided by the weight it can be
    compared with the time of others.
    """
    cut = [
        (f"{name} {part.profile or 'instance'}", part.uuid, weight)
        for part, weight in zip(gpu.instances, instance_weights(gpu), strict=True)
    ]
    return cut or [(name, gpu.uuid, 1.0)]


def _worked_seconds(sums: Sums) -> float:
    """Return how long it may have worked: where the load is unknown, all the time."""
    # Otherwise a GPU whose load cannot be measured would lead the list of the least used.
    return sums.busy_seconds + max(0.0, sums.gpu_seconds - sums.measured_seconds)


def add_sums(sums: Iterable[Sums]) -> Sums:
    """Add up sums."""
    addends = tuple(sums)
    if len(addends) == 1:
        return addends[0]
    return Sums(
        gpu_seconds=sum(one.gpu_seconds for one in addends),
        measured_seconds=sum(one.measured_seconds for one in addends),
        busy_seconds=sum(one.busy_seconds for one in addends),
        idle_seconds=sum(one.idle_seconds for one in addends),
        energy_joules=sum(one.energy_joules for one in addends),
    )


def scale_sums(sums: Sums, factor: float) -> Sums:
    """Multiply sums by a factor."""
    return Sums(
        gpu_seconds=factor * sums.gpu_seconds,
        measured_seconds=factor * sums.measured_seconds,
        busy_seconds=factor * sums.busy_seconds,
        idle_seconds=factor * sums.idle_seconds,
        energy_joules=factor * sums.energy_joules,
    )


def kilowatt_hours(sums: Sums) -> float:
    """Return the energy in these sums."""
    return sums.energy_joules / _JOULES_PER_KILOWATT_HOUR


def busy_percent(sums: Sums) -> float | None:
    """Return the mean load over the measured time; `None` without any."""
    return 100 * sums.busy_seconds / sums.measured_seconds if sums.measured_seconds else None


def share_percent(part: float, whole: float) -> float | None:
    """Return a part of a whole in percent; `None` where the whole is 0."""
    return 100 * part / whole if whole else None


def hours_of_day(
    moments: Iterable[RibbonPoint], to_local_time: Callable[[float], datetime]
) -> tuple[HourOfDay, ...]:
    """Return the mean over all points of each hour of the day that has any."""
    by_hour: dict[int, list[RibbonPoint]] = {}
    for moment in moments:
        # Without any report the GPUs in use are unknown, not zero.
        if moment.nodes_reporting:
            by_hour.setdefault(to_local_time(moment.at).hour, []).append(moment)
    return tuple(
        HourOfDay(
            hour=hour,
            in_use=_mean([sum(point.gpus.get(state, 0.0) for state in _TAKEN) for point in points]),
            gpus=_mean([sum(point.gpus.values()) for point in points]),
        )
        for hour, points in sorted(by_hour.items())
    )


def _coverage(usages: Usages, fleet: FleetView) -> float | None:
    """Return the share of all GPU-time in which the nodes reported."""
    # A range that is not over yet can be covered only up to now. GPUs that were removed during
    # the range are in the sums but not in the fleet at its end: hence the limit of 1.
    seconds = fleet.summary.gpus * (min(usages.end, fleet.taken_at) - usages.start)
    return min(1.0, sum(usages.by_state.values()) / seconds) if seconds > 0 else None


def _mean(values: Sequence[float]) -> float:
    return sum(values) / len(values)
