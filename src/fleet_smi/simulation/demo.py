"""The demo fleet: a lab of 12 nodes that shows every state a GPU can be in."""

from collections.abc import Iterator, Sequence

from msgspec.structs import replace

from fleet_smi.model.snapshot import Gpu, Process
from fleet_smi.model.units import GIB, MIB
from fleet_smi.simulation.gpu_models import A100, H100, L40S, RTX_4090, make_idle_gpu
from fleet_smi.simulation.gpu_slots import (
    GpuSlot,
    IdleSlot,
    JobSlot,
    LostSlot,
    MigSlice,
    MigSlot,
    OverheatedSlot,
    TransitionSlot,
    UsagePattern,
    ghost_slot,
    make_instance,
)
from fleet_smi.simulation.processes import OccupiedSlot, SimulatedProcess, make_process
from fleet_smi.simulation.scenario import (
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
    RESERVING,
    SERVING,
    SWEEPING,
    USERS,
    JobManager,
    Workload,
    random_uuid,
)

SILENT_AFTER_SECONDS = 20.0
"""How long after `start` one node stops reporting: late enough to be seen alive first."""

_HOUR = 3600.0
_DGX = MachineModel(gpu_model=H100, cpu_count=224, memory_total_bytes=2016 * GIB)
_HGX = MachineModel(gpu_model=A100, cpu_count=128, memory_total_bytes=1008 * GIB)
_SERVER = MachineModel(gpu_model=L40S, cpu_count=96, memory_total_bytes=755 * GIB)
_DESK = MachineModel(gpu_model=RTX_4090, cpu_count=32, memory_total_bytes=126 * GIB)
_JOB_PERIOD_SECONDS = (3.0 * _HOUR, 20.0 * _HOUR)
_MANAGERS: dict[MachineModel, JobManager] = {_SERVER: "pod", _DESK: "bare"}


def demo_fleet(*, seed: int, start: float, interval_seconds: float = 2.0) -> FleetScenario:
    """Return the scenario of the demo lab, valid before and after `start`."""
    return FleetScenario(tuple(_nodes(seed, start)), interval_seconds)


class _NodeBuilder:
    """Builds the GPU slots of one machine, in index order."""

    def __init__(self, seed: int, name: str, machine_model: MachineModel, start: float) -> None:
        self.key, self.start, self.gpu_model = f"demo-{seed}-{name}", start, machine_model.gpu_model
        self.manager = _MANAGERS.get(machine_model, "slurm")
        self._name, self._machine_model = name, machine_model
        self._rng, self._count = seeded_rng(self.key, "cards"), 0

    def next_gpu(self) -> Gpu:
        self._count += 1
        return make_idle_gpu(self.gpu_model, f"GPU-{random_uuid(self._rng)}", self._count - 1)

    def since(self, hours: float, slots: Sequence[tuple[Gpu, GpuSlot]]) -> list[GpuSlot]:
        """Return slots in their present use for `hours`; before that, they ran other jobs."""
        # One pattern for all of them: earlier jobs took the whole group too.
        earlier = self.jobs_on([gpu for gpu, _ in slots])
        start = self.start - hours * _HOUR
        return [
            TransitionSlot(before, start, slot)
            for before, (_, slot) in zip(earlier, slots, strict=True)
        ]

    def job(self, user: str, work: Workload, hours: float, gpus: int = 1) -> list[GpuSlot]:
        """Return slots of one job that started `hours` ago and still runs."""
        key = f"{self.key}-{self._count}"
        taken = [
            (gpu, OccupiedSlot(self.gpu_model, gpu, (self.process(key, user, work, hours, rank),)))
            for rank, gpu in enumerate(self._next_gpus(gpus))
        ]
        return self.since(hours, taken)

    def process(
        self, key: str, user: str, work: Workload, hours: float, rank: int = 0
    ) -> SimulatedProcess:
        started_at = self.start - hours * _HOUR
        memory = self.gpu_model.memory_total_bytes
        return make_process(key, user, work, memory, started_at, manager=self.manager, rank=rank)

    def jobs(self, gpus: int = 1, probability: float = 0.92) -> list[GpuSlot]:
        """Return slots used by one job of hours after another, which takes all of them."""
        return self.jobs_on(self._next_gpus(gpus), probability)

    def jobs_on(
        self, gpus: Sequence[Gpu], probability: float = 0.92, users: Sequence[str] = tuple(USERS)
    ) -> list[GpuSlot]:
        """Return the same for these GPUs; the past hour and the past week are alike."""
        key = f"{self.key}-{gpus[0].index}-jobs"
        pattern = UsagePattern(
            key=key,
            period_seconds=seeded_rng(key, "period").uniform(*_JOB_PERIOD_SECONDS),
            gpu_count=len(gpus),
            users=tuple(users),
            probability=probability,
            manager=self.manager,
            quieter_at_night=True,
        )
        return [JobSlot(self.gpu_model, gpu, pattern, rank) for rank, gpu in enumerate(gpus)]

    def _next_gpus(self, count: int) -> list[Gpu]:
        return [self.next_gpu() for _ in range(count)]

    def node(
        self,
        slots: Sequence[GpuSlot],
        place: str,
        silent_from: float | None = None,
        outage_hours: tuple[float, float] | None = None,
    ) -> SimulatedNode:
        room, _, rack = place.partition("/")
        return make_node(
            self._name,
            self._machine_model,
            slots,
            key=self.key,
            start=self.start,
            labels={"room": room, "rack": rack} if rack else {"room": room},
            silent_from=silent_from,
            outage=outage_hours and (self._ago(outage_hours[0]), self._ago(outage_hours[1])),
        )

    def _ago(self, hours: float) -> float:
        return self.start - hours * _HOUR


def _nodes(seed: int, start: float) -> Iterator[SimulatedNode]:
    def builder(name: str, machine_model: MachineModel) -> _NodeBuilder:
        return _NodeBuilder(seed, name, machine_model, start)

    yield _pretraining(builder("dgx01", _DGX))
    yield _serving(builder("dgx02", _DGX))
    yield _broken(builder("dgx03", _DGX))
    yield _held(builder("hgx01", _HGX))
    yield _mig(builder("hgx02", _HGX))
    yield _ghost(builder("hgx03", _HGX))
    yield _render(builder("ada01", _SERVER))
    yield _squatted(builder("ada02", _SERVER))
    yield _falls_silent(builder("ada03", _SERVER))
    for owner in ("amara", "jonas", "sofia"):
        yield _desk(builder(f"desk-{owner}", _DESK), owner)


def _pretraining(builder: _NodeBuilder) -> SimulatedNode:
    return builder.node(builder.job("maria", PRETRAINING, 52.0, gpus=8), "hall-1/r01")


def _serving(builder: _NodeBuilder) -> SimulatedNode:
    slots = builder.job("kenji", PRETRAINING, 7.5, gpus=4)
    slots += builder.job("llm-gateway", SERVING, 310.0, gpus=2)
    return builder.node([*slots, *builder.jobs(), *builder.jobs()], "hall-1/r01")


def _broken(builder: _NodeBuilder) -> SimulatedNode:
    slots = builder.jobs(gpus=4) + builder.jobs()
    gpu, hours = builder.next_gpu(), 6.4
    broke_at = builder.start - hours * _HOUR
    lost = builder.since(hours, [(gpu, LostSlot(gpu, broke_at))])
    slots += [OverheatedSlot(slot, broke_at - 0.8 * _HOUR, broke_at) for slot in lost]
    return builder.node([*slots, *builder.jobs(gpus=2, probability=0.6)], "hall-1/r02")


def _held(builder: _NodeBuilder) -> SimulatedNode:
    slots = builder.job("lucas", NOTEBOOK, 22.4) + builder.jobs(gpus=2)
    return builder.node([*slots, *builder.job("priya", FINE_TUNING, 3.2)], "hall-1/r03")


def _mig(builder: _NodeBuilder) -> SimulatedNode:
    slices = [
        _slice(builder, number, profile, user)
        for number, (profile, user) in enumerate(
            (("3g.20gb", "chen"), ("2g.10gb", "nadia"), ("1g.5gb", "tomas"), ("1g.5gb", None))
        )
    ]
    mig_slot = MigSlot(builder.gpu_model, builder.next_gpu(), slices)
    return builder.node([mig_slot, *builder.jobs(), *builder.jobs(gpus=2)], "hall-1/r03")


def _slice(builder: _NodeBuilder, number: int, profile: str, user: str | None) -> MigSlice:
    instance = make_instance(builder.key, number, profile)
    if user is None:
        return MigSlice(instance=instance)
    started_at, memory = (
        builder.start - (2.0 + 5.0 * number) * _HOUR,
        instance.memory_total_bytes or 0,
    )
    key = f"{builder.key}-slice-{number}"
    process = make_process(key, user, EXPLORING, memory, started_at, manager=builder.manager)
    return MigSlice(instance=instance, occupant=process)


def _ghost(builder: _NodeBuilder) -> SimulatedNode:
    """A GPU shared by two users, one with unaccounted memory, and one that stays idle."""
    processes = (
        builder.process(f"{builder.key}-sweep", "oskar", SWEEPING, 5.0),
        builder.process(f"{builder.key}-fit", "fatima", FITTING, 1.4),
    )
    gpu = builder.next_gpu()
    alone, together = (
        OccupiedSlot(builder.gpu_model, gpu, processes[:1]),
        OccupiedSlot(builder.gpu_model, gpu, processes),
    )
    shared = TransitionSlot(alone, processes[1].started_at, together)
    slots = builder.since(5.0, [(gpu, shared)]) + builder.jobs()
    gpu = builder.next_gpu()
    slots += builder.since(9.0, [(gpu, ghost_slot(builder.gpu_model, gpu, 31 * GIB + 212 * MIB))])
    idle = IdleSlot(builder.gpu_model, builder.next_gpu())
    return builder.node([*slots, idle], "hall-1/r03", outage_hours=(81.0, 72.0))


def _render(builder: _NodeBuilder) -> SimulatedNode:
    slots = [*builder.jobs(), *builder.jobs(gpus=2), *builder.jobs()]
    hot = builder.start - 0.7 * _HOUR
    slots = [OverheatedSlot(slot, hot, hot + 0.25 * _HOUR) for slot in slots]
    return builder.node(slots, "hall-2/r11")


def _squatted(builder: _NodeBuilder) -> SimulatedNode:
    """Two GPUs whose memory a script keeps allocated for days, without any work."""
    slots = builder.jobs() + builder.job("oskar", RESERVING, 70.0, gpus=2)
    return builder.node([*slots, *builder.jobs()], "hall-2/r11")


def _falls_silent(builder: _NodeBuilder) -> SimulatedNode:
    slots = builder.job("chen", FINE_TUNING, 11.0, gpus=2) + builder.jobs(gpus=2)
    return builder.node(slots, "hall-2/r12", silent_from=builder.start + SILENT_AFTER_SECONDS)


def _desk(builder: _NodeBuilder, owner: str) -> SimulatedNode:
    """A workstation: its first GPU drives a display and is used by its owner."""
    screen = _with_screen(builder.next_gpu(), owner, builder.start)
    first = builder.jobs_on([screen], probability=0.7, users=(owner,))
    return builder.node([*first, *builder.jobs(probability=0.6)], "office")


def _with_screen(idle_gpu: Gpu, owner: str, start: float) -> Gpu:
    since = start - 200.0 * _HOUR
    processes = (
        _graphics(1874, owner, "/usr/lib/xorg/Xorg vt2 -noreset", 187 * MIB, since),
        _graphics(2210, owner, "/usr/bin/gnome-shell", 96 * MIB, since),
    )
    used = sum(one.gpu_memory_bytes or 0 for one in processes) + (idle_gpu.memory_used_bytes or 0)
    return replace(idle_gpu, memory_used_bytes=used, processes=processes)


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
