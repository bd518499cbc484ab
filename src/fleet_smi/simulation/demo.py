"""The fleet of the demonstration: a lab of 12 nodes, with all that can happen to a GPU."""

from collections.abc import Iterator, Sequence

from msgspec.structs import replace

from fleet_smi.model.snapshot import Gpu, Process
from fleet_smi.model.units import GIB, MIB
from fleet_smi.simulation.gpu_models import A100, H100, L40S, RTX_4090, make_idle_gpu
from fleet_smi.simulation.gpu_slots import (
    GpuSlot,
    IdleSlot,
    LostSlot,
    MigSlice,
    MigSlot,
    SharedSlot,
    TransitionSlot,
    UsagePattern,
    ghost_slot,
    make_instance,
)
from fleet_smi.simulation.processes import OccupiedSlot, SimulatedProcess, make_process
from fleet_smi.simulation.scenario import (
    RECENT_SECONDS,
    FleetScenario,
    MachineModel,
    SimulatedNode,
    make_node,
)
from fleet_smi.simulation.seeded_random import seeded_rng
from fleet_smi.simulation.workloads import (
    EXPLORING,
    FINE_TUNING,
    FITTING,
    NOTEBOOK,
    PRETRAINING,
    SERVING,
    SWEEPING,
    USERS,
    JobManager,
    Workload,
    random_uuid,
)

SILENT_AFTER_SECONDS = 20.0

_HOUR = 3600.0
_DGX = MachineModel(gpu_model=H100, cpu_count=224, memory_total_bytes=2016 * GIB)
_HGX = MachineModel(gpu_model=A100, cpu_count=128, memory_total_bytes=1008 * GIB)
_SERVER = MachineModel(gpu_model=L40S, cpu_count=96, memory_total_bytes=755 * GIB)
_DESK = MachineModel(gpu_model=RTX_4090, cpu_count=32, memory_total_bytes=126 * GIB)
_EARLIER_VISITS_SECONDS = (2.0 * _HOUR, 9.0 * _HOUR)
_MANAGERS: dict[MachineModel, JobManager] = {_SERVER: "pod", _DESK: "bare"}


def demo_fleet(*, seed: int, start: float, interval_seconds: float = 2.0) -> FleetScenario:
    """The lab as it is from `began` on, with its past."""
    return FleetScenario(tuple(_nodes(seed, start)), interval_seconds)


class _Bench:
    """One machine whose cards are handed out one by one as its seats are told."""

    def __init__(self, seed: int, name: str, chassis: MachineModel, began: float) -> None:
        self.key, self.began, self.card = f"demo-{seed}-{name}", began, chassis.gpu_model
        self.manager = _MANAGERS.get(chassis, "slurm")
        self._name, self._chassis = name, chassis
        self._thrown, self._count = seeded_rng(self.key, "cards"), 0

    def next_card(self) -> Gpu:
        self._count += 1
        return make_idle_gpu(self.card, f"GPU-{random_uuid(self._thrown)}", self._count - 1)

    def since(self, hours: float, seats: Sequence[tuple[Gpu, GpuSlot]]) -> list[GpuSlot]:
        """Cards that stand so since a while ago; before, people came for hours at a time."""
        key = f"{self.key}-{seats[0][0].index}-earlier"
        custom = UsagePattern(
            key=key,
            period_seconds=seeded_rng(key, "period").uniform(*_EARLIER_VISITS_SECONDS),
            gpu_count=len(seats),
            probability=0.85,
            manager=self.manager,
            quieter_at_night=True,
        )
        began = self.began - hours * _HOUR
        return [
            TransitionSlot(SharedSlot(self.card, card, custom, rank), began, seat)
            for rank, (card, seat) in enumerate(seats)
        ]

    def job(self, user: str, work: Workload, hours: float, cards: int = 1) -> list[GpuSlot]:
        """One job of somebody's that began long ago and goes on."""
        key = f"{self.key}-{self._count}"
        taken = [
            (card, OccupiedSlot(self.card, card, (self.tenant(key, user, work, hours, rank),)))
            for rank, card in enumerate(self._cards(cards))
        ]
        return self.since(hours, taken)

    def tenant(
        self, key: str, user: str, work: Workload, hours: float, rank: int = 0
    ) -> SimulatedProcess:
        begins_at = self.began - hours * _HOUR
        memory = self.card.memory_total_bytes
        return make_process(key, user, work, memory, begins_at, manager=self.manager, rank=rank)

    def visited(
        self, period_seconds: float, cards: int = 1, keenness: float = 0.8
    ) -> list[GpuSlot]:
        """Cards that people come to and leave, all of them at once."""
        key = f"{self.key}-{self._count}"
        custom = UsagePattern(
            key=key,
            period_seconds=period_seconds,
            gpu_count=cards,
            probability=keenness,
            manager=self.manager,
        )
        return self.coming_and_going(custom, self._cards(cards))

    def coming_and_going(self, custom: UsagePattern, cards: Sequence[Gpu]) -> list[GpuSlot]:
        """Cards that are changed about often enough to be watched for an hour."""
        seats = [
            (card, SharedSlot(self.card, card, custom, rank)) for rank, card in enumerate(cards)
        ]
        return self.since(RECENT_SECONDS / _HOUR, seats)

    def _cards(self, count: int) -> list[Gpu]:
        return [self.next_card() for _ in range(count)]

    def node(
        self,
        seats: Sequence[GpuSlot],
        place: str,
        silent_from: float | None = None,
        away_hours: tuple[float, float] | None = None,
    ) -> SimulatedNode:
        room, _, rack = place.partition("/")
        return make_node(
            self._name,
            self._chassis,
            seats,
            key=self.key,
            start=self.began,
            labels={"room": room, "rack": rack} if rack else {"room": room},
            silent_from=silent_from,
            outage=away_hours and (self._ago(away_hours[0]), self._ago(away_hours[1])),
        )

    def _ago(self, hours: float) -> float:
        return self.began - hours * _HOUR


def _nodes(seed: int, began: float) -> Iterator[SimulatedNode]:
    def bench(name: str, chassis: MachineModel) -> _Bench:
        return _Bench(seed, name, chassis, began)

    yield _pretraining(bench("dgx01", _DGX))
    yield _serving(bench("dgx02", _DGX))
    yield _broken(bench("dgx03", _DGX))
    yield _held(bench("hgx01", _HGX))
    yield _sliced(bench("hgx02", _HGX))
    yield _haunted(bench("hgx03", _HGX))
    yield _render(bench("ada01", _SERVER))
    yield _render(bench("ada02", _SERVER))
    yield _falls_silent(bench("ada03", _SERVER))
    for owner, period in (("amara", 170.0), ("jonas", 230.0), ("sofia", 310.0)):
        yield _desk(bench(f"desk-{owner}", _DESK), owner, period)


def _pretraining(at: _Bench) -> SimulatedNode:
    return at.node(at.job("maria", PRETRAINING, 52.0, cards=8), "hall-1/r01")


def _serving(at: _Bench) -> SimulatedNode:
    seats = at.job("kenji", PRETRAINING, 7.5, cards=4)
    seats += at.job("llm-gateway", SERVING, 310.0, cards=2)
    return at.node([*seats, *at.visited(260.0), *at.visited(340.0)], "hall-1/r01")


def _broken(at: _Bench) -> SimulatedNode:
    seats = at.visited(420.0, cards=4) + at.visited(150.0)
    card, hours = at.next_card(), 0.7
    seats += at.since(hours, [(card, LostSlot(card, at.began - hours * _HOUR))])
    return at.node([*seats, *at.visited(190.0, cards=2, keenness=0.6)], "hall-1/r02")


def _held(at: _Bench) -> SimulatedNode:
    seats = at.job("lucas", NOTEBOOK, 26.0) + at.visited(210.0, cards=2)
    return at.node([*seats, *at.job("priya", FINE_TUNING, 3.2)], "hall-1/r03")


def _sliced(at: _Bench) -> SimulatedNode:
    slices = [
        _slice(at, number, profile, user)
        for number, (profile, user) in enumerate(
            (("3g.20gb", "chen"), ("2g.10gb", "nadia"), ("1g.5gb", "tomas"), ("1g.5gb", None))
        )
    ]
    cut = MigSlot(at.card, at.next_card(), slices)
    return at.node([cut, *at.visited(280.0), *at.visited(240.0, cards=2)], "hall-1/r03")


def _slice(at: _Bench, number: int, profile: str, user: str | None) -> MigSlice:
    part = make_instance(at.key, number, profile)
    if user is None:
        return MigSlice(instance=part)
    begins_at, memory = at.began - (2.0 + 5.0 * number) * _HOUR, part.memory_total_bytes or 0
    key = f"{at.key}-slice-{number}"
    somebody = make_process(key, user, EXPLORING, memory, begins_at, manager=at.manager)
    return MigSlice(instance=part, occupant=somebody)


def _haunted(at: _Bench) -> SimulatedNode:
    """Two people on one card, memory that nobody accounts for, and one that nobody wants."""
    two = (
        at.tenant(f"{at.key}-sweep", "oskar", SWEEPING, 5.0),
        at.tenant(f"{at.key}-fit", "fatima", FITTING, 1.4),
    )
    card = at.next_card()
    alone, together = OccupiedSlot(at.card, card, two[:1]), OccupiedSlot(at.card, card, two)
    shared = TransitionSlot(alone, two[1].started_at, together)
    seats = at.since(5.0, [(card, shared)]) + at.visited(200.0)
    card = at.next_card()
    seats += at.since(9.0, [(card, ghost_slot(at.card, card, 31 * GIB + 212 * MIB))])
    unwanted = IdleSlot(at.card, at.next_card())
    return at.node([*seats, unwanted], "hall-1/r03", away_hours=(81.0, 72.0))


def _render(at: _Bench) -> SimulatedNode:
    seats = [*at.visited(130.0), *at.visited(180.0, cards=2), *at.visited(250.0)]
    return at.node(seats, "hall-2/r11")


def _falls_silent(at: _Bench) -> SimulatedNode:
    seats = at.job("chen", FINE_TUNING, 11.0, cards=2) + at.visited(160.0, cards=2)
    return at.node(seats, "hall-2/r12", silent_from=at.began + SILENT_AFTER_SECONDS)


def _desk(at: _Bench, owner: str, period: float) -> SimulatedNode:
    """A workstation: its first card has a screen and is its owner's."""
    custom = UsagePattern(key=at.key, period_seconds=period, probability=0.6, users=(owner,))
    first = at.coming_and_going(custom, [_with_screen(at.next_card(), owner, at.began)])
    return at.node([*first, *at.visited(period * 1.4)], "office")


def _with_screen(resting: Gpu, owner: str, began: float) -> Gpu:
    since = began - 200.0 * _HOUR
    shown = (
        _graphics(1874, owner, "/usr/lib/xorg/Xorg vt2 -noreset", 187 * MIB, since),
        _graphics(2210, owner, "/usr/bin/gnome-shell", 96 * MIB, since),
    )
    used = sum(one.gpu_memory_bytes or 0 for one in shown) + (resting.memory_used_bytes or 0)
    return replace(resting, memory_used_bytes=used, processes=shown)


def _graphics(pid: int, user: str, command: str, memory_bytes: int, started_at: float) -> Process:
    return Process(
        pid=pid,
        kind="graphics",
        gpu_memory_bytes=memory_bytes,
        user=user,
        uid=USERS[user],
        name=command.split(maxsplit=1)[0].rpartition("/")[2],
        command=command,
        started_at=started_at,
        cpu_percent=1.4,
        host_memory_bytes=210 * MIB,
    )
