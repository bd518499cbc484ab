"""A range summed up: who had what, when it was most, which GPUs least, and what was wasted."""

from collections.abc import Callable, Iterable, Sequence
from datetime import datetime

from msgspec import Struct

from fleet_smi.model.fleet import FleetView, JudgedGpu, NodeView, State
from fleet_smi.model.history import Gap, Job, Ribbon, RibbonPoint, Sums, Usage, Usages
from fleet_smi.model.safe_text import natural_sort_key

HOUR_SECONDS = 3600.0
_JOULES = 3.6e6  # a kilowatt-hour
_TAKEN: tuple[State, ...] = ("busy", "held", "ghost")
_LEAST_USED = 5
_WASTE = 10
_WASTE_SECONDS = 3600.0


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
    """What a report tells.

    `heard` is how much of the time nodes were heard, as a share of the time of their GPUs; of
    the rest nothing is counted. `waste` is `None` where there were too many jobs to look at,
    and `price` where none was named.
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
        """The GPU-time in which anything was known, whoever had it."""
        return sum(self.usages.by_state.values())

    def cost(self, sums: Sums) -> float | None:
        """What the energy in these sums costs."""
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
    """All answers about one range, put together.

    `gpus` are the usages of each GPU by its UUID, and `fleet` is how things stood at the end:
    it has the GPUs that nobody had, too. Where there are too many jobs to tell, they are `None`.
    """
    return UsageReport(
        usages=usages,
        hours=hours_of_day(ribbon.moments, to_local_time),
        least_used=_least_used(gpus, fleet.nodes),
        waste=None if jobs is None else _waste(jobs),
        heard=_heard(usages, fleet),
        gaps=ribbon.gaps,
        price=price,
    )


def _waste(jobs: Iterable[Job]) -> tuple[Job, ...]:
    idle = [job for job in jobs if job.sums.idle_seconds >= _WASTE_SECONDS]
    idle.sort(key=lambda job: (-job.sums.idle_seconds, job.id))
    return tuple(idle[:_WASTE])


def _least_used(gpus: Usages, nodes: Iterable[NodeView]) -> tuple[Usage, ...]:
    """Of the GPUs and instances of nodes that report, those that worked the least."""
    known = {row.name: row.sums for row in gpus.rows}
    found = [
        Usage(name=name, sums=known.get(uuid, Sums()))
        for node in nodes
        if not node.silent
        for gpu in node.gpus
        for name, uuid in _parts(f"{node.name}:{gpu.index}", gpu)
    ]
    found.sort(
        key=lambda row: (
            _worked_seconds(row.sums),
            row.sums.gpu_seconds,
            natural_sort_key(row.name),
        )
    )
    return tuple(found[:_LEAST_USED])


def _parts(name: str, gpu: JudgedGpu) -> list[tuple[str, str]]:
    """What people can have of a GPU: itself, or its instances."""
    cut = [(f"{name} {part.profile or 'instance'}", part.uuid) for part in gpu.instances]
    return cut or [(name, gpu.uuid)]


def _worked_seconds(sums: Sums) -> float:
    """How long it may have worked: where the load is not told, all the time."""
    return sums.busy_seconds + max(0.0, sums.gpu_seconds - sums.measured_seconds)


def add_sums(sums: Iterable[Sums]) -> Sums:
    """Sums added up."""
    every = tuple(sums)
    if len(every) == 1:
        return every[0]
    return Sums(
        gpu_seconds=sum(each.gpu_seconds for each in every),
        measured_seconds=sum(each.measured_seconds for each in every),
        busy_seconds=sum(each.busy_seconds for each in every),
        idle_seconds=sum(each.idle_seconds for each in every),
        energy_joules=sum(each.energy_joules for each in every),
    )


def kilowatt_hours(sums: Sums) -> float:
    """The energy in these sums."""
    return sums.energy_joules / _JOULES


def busy_percent(sums: Sums) -> float | None:
    """The mean load over the time in which it was told."""
    return 100 * sums.busy_seconds / sums.measured_seconds if sums.measured_seconds else None


def share_percent(part: float, whole: float) -> float | None:
    """A part of a whole; of nothing, unknown."""
    return 100 * part / whole if whole else None


def hours_of_day(
    moments: Iterable[RibbonPoint], to_local_time: Callable[[float], datetime]
) -> tuple[HourOfDay, ...]:
    """The mean of all moments in each hour of the day in which any was known."""
    found: dict[int, list[RibbonPoint]] = {}
    for moment in moments:
        if moment.nodes_reporting:
            found.setdefault(to_local_time(moment.at).hour, []).append(moment)
    return tuple(
        HourOfDay(
            hour=hour,
            in_use=_mean([sum(each.gpus.get(state, 0.0) for state in _TAKEN) for each in told]),
            gpus=_mean([sum(each.gpus.values()) for each in told]),
        )
        for hour, told in sorted(found.items())
    )


def _heard(usages: Usages, fleet: FleetView) -> float | None:
    """The share of all GPU-time in which anything was known of it."""
    seconds = fleet.summary.gpus * (min(usages.end, fleet.taken_at) - usages.start)
    return min(1.0, sum(usages.by_state.values()) / seconds) if seconds > 0 else None


def _mean(values: Sequence[float]) -> float:
    return sum(values) / len(values)
