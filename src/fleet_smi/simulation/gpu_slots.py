"""GPU slots of a simulated node: each is one GPU over time, idle, in use, partitioned or lost."""

from collections.abc import Sequence
from typing import Protocol

from msgspec import Struct
from msgspec.structs import replace

from fleet_smi.model.snapshot import Fault, Gpu, Instance
from fleet_smi.model.units import GIB, MIB
from fleet_smi.simulation.gpu_models import GpuModel
from fleet_smi.simulation.processes import OccupiedSlot, SimulatedProcess, fan_percent, make_process
from fleet_smi.simulation.seeded_random import seeded_rng, smooth_noise
from fleet_smi.simulation.workloads import (
    MULTI_GPU_WORKLOADS,
    SINGLE_GPU_WORKLOADS,
    USERS,
    JobManager,
    random_uuid,
)

_COOLING_SECONDS = 60.0
_COOLING_DEGREES = 22.0
_HOUR = 3600.0
_NIGHT_FACTOR = 0.65
_IDLE_CACHE_SECONDS = 4.0  # an idle GPU's figures are cached for this long


class GpuSlot(Protocol):
    """One GPU over time."""

    def gpu(self, at: float) -> Gpu:
        """Return the GPU as read at any time, past or future."""


class IdleSlot:
    """A GPU without processes; `ghost_slot` makes one whose memory is in use nevertheless."""

    def __init__(self, model: GpuModel, idle_gpu: Gpu) -> None:
        self._model, self._idle_gpu = model, idle_gpu
        self._phase = 1000.0 * seeded_rng(idle_gpu.uuid).random()
        self._step, self._gpu = -1, idle_gpu

    def gpu(self, at: float, vacant_seconds: float = _COOLING_SECONDS) -> Gpu:
        """Return the GPU at a time, cooling down if it was vacated recently."""
        if vacant_seconds < _COOLING_SECONDS:
            return self._at(at, vacant_seconds)
        step = int(at / _IDLE_CACHE_SECONDS)
        if step != self._step:
            # At the start of the step, not at `at`: the result must not depend on earlier calls.
            self._step, self._gpu = step, self._at(step * _IDLE_CACHE_SECONDS, vacant_seconds)
        return self._gpu

    def _at(self, at: float, vacant_seconds: float) -> Gpu:
        drift = smooth_noise(at / 8.0 + self._phase)
        warm = max(0.0, 1.0 - vacant_seconds / _COOLING_SECONDS)
        celsius = self._model.idle_celsius + 3.0 * drift + _COOLING_DEGREES * warm
        return replace(
            self._idle_gpu,
            temperature_celsius=float(int(celsius)),
            fan_percent=fan_percent(celsius) if self._model.has_fans else None,
            power_watts=int(self._model.idle_watts * (97.0 + 6.0 * drift + 30.0 * warm)) / 100.0,
        )


def ghost_slot(model: GpuModel, idle_gpu: Gpu, used_bytes: int) -> IdleSlot:
    """Return a GPU with used memory and no visible process."""
    return IdleSlot(model, replace(idle_gpu, memory_used_bytes=used_bytes))


class TransitionSlot:
    """A GPU that behaves like one slot before a time and like another after it."""

    def __init__(self, before: GpuSlot, since: float, after: GpuSlot) -> None:
        self._before, self._since, self._after = before, since, after

    def gpu(self, at: float) -> Gpu:
        """Return the GPU of the slot in effect at that time."""
        return (self._before if at < self._since else self._after).gpu(at)


class OverheatedSlot:
    """A GPU whose cooling fails for a while: hot, and slowed down by the driver."""

    def __init__(self, slot: GpuSlot, since: float, until: float) -> None:
        self._slot, self._since, self._until = slot, since, until

    def gpu(self, at: float) -> Gpu:
        """Return the GPU, throttled between the two times."""
        gpu = self._slot.gpu(at)
        if not (self._since <= at < self._until and gpu.busy_percent):
            return gpu
        clock = None if gpu.sm_clock_mhz is None else 7 * gpu.sm_clock_mhz // 10
        power = None if gpu.power_watts is None else round(0.7 * gpu.power_watts, 2)
        return replace(
            gpu,
            temperature_celsius=92.0,
            sm_clock_mhz=clock,
            power_watts=power,
            throttle_reasons=("sw_thermal_slowdown",),
        )


class LostSlot:
    """A GPU that fell off the bus: only its identity is known."""

    def __init__(self, idle_gpu: Gpu, since: float) -> None:
        self._gpu = Gpu(
            uuid=idle_gpu.uuid,
            index=idle_gpu.index,
            vendor=idle_gpu.vendor,
            name=idle_gpu.name,
            pci_bus_id=idle_gpu.pci_bus_id,
            fault=Fault(
                kind="lost",
                detail="fell off the bus",
                remedy="reboot; if it returns, check the hardware",
                since=since,
            ),
        )

    def gpu(self, at: float) -> Gpu:
        """Return the same lost GPU at any time."""
        return self._gpu


class UsagePattern(Struct, frozen=True, kw_only=True, gc=False):
    """How jobs use a group of GPUs: at most one job per period of `period_seconds`.

    A job takes all GPUs of the group at the start of the period and ends before the period
    does. `probability` is the chance of a job, lower at night with `quieter_at_night`. `key` is
    the random seed: equal keys run equal jobs.
    """

    key: str
    period_seconds: float
    gpu_count: int = 1
    users: tuple[str, ...] = tuple(USERS)
    probability: float = 0.8
    manager: JobManager = "bare"
    quieter_at_night: bool = False

    def probability_at(self, moment: float) -> float:
        """Return the probability of a job at that time."""
        hour = moment / _HOUR % 24.0
        return self.probability * (
            _NIGHT_FACTOR if self.quieter_at_night and not 7.0 <= hour < 21.0 else 1.0
        )


class JobSlot:
    """A GPU that runs one job after another; `rank` is its position in its group."""

    def __init__(
        self, model: GpuModel, idle_gpu: Gpu, pattern: UsagePattern, rank: int = 0
    ) -> None:
        self._model, self._idle_gpu, self._pattern, self._rank = model, idle_gpu, pattern, rank
        self._empty = IdleSlot(model, idle_gpu)
        self._offset = pattern.period_seconds * seeded_rng(pattern.key).random()
        self._period: int | None = None
        self._job: OccupiedSlot | None = None
        self._job_ends_at = 0.0

    def gpu(self, at: float) -> Gpu:
        """Return the GPU at a time: in use, or idle and cooling down."""
        period = int((at + self._offset) // self._pattern.period_seconds)
        if period != self._period:
            self._begin(period)
        if self._job is None:
            return self._empty.gpu(at)
        if at < self._job_ends_at:
            return self._job.gpu(at)
        return self._empty.gpu(at, at - self._job_ends_at)

    def _begin(self, period: int) -> None:
        pattern = self._pattern
        # Every rank of the group draws the same numbers, and so runs the same job.
        rng = seeded_rng(pattern.key, period)
        started_at = period * pattern.period_seconds - self._offset
        duration = pattern.period_seconds * (0.6 + 0.3 * rng.random())
        self._period, self._job_ends_at, self._job = period, started_at + duration, None
        if rng.random() < pattern.probability_at(started_at):
            process = make_process(
                pattern.key,
                rng.choice(pattern.users),
                rng.choice(SINGLE_GPU_WORKLOADS if pattern.gpu_count == 1 else MULTI_GPU_WORKLOADS),
                self._model.memory_total_bytes,
                started_at,
                manager=pattern.manager,
                rank=self._rank,
            )
            self._job = OccupiedSlot(self._model, self._idle_gpu, (process,))


class MigSlice(Struct, frozen=True, kw_only=True):
    """A MIG instance and the process on it, if any."""

    instance: Instance
    occupant: SimulatedProcess | None = None

    def instance_at(self, moment: float) -> Instance:
        """Return the instance as read at that time."""
        if self.occupant is None or moment < self.occupant.started_at:
            return self.instance
        # The driver reports no utilisation for MIG instances or for processes in them.
        process = replace(self.occupant.process_at(moment), busy_percent=None)
        used = (self.instance.memory_used_bytes or 0) + (process.gpu_memory_bytes or 0)
        return replace(self.instance, memory_used_bytes=used, processes=(process,))


class MigSlot:
    """A GPU partitioned into MIG instances."""

    def __init__(self, model: GpuModel, idle_gpu: Gpu, slices: Sequence[MigSlice]) -> None:
        self._model, self._slices = model, tuple(slices)
        self._occupied_share = sum(slice_.occupant is not None for slice_ in slices) / len(slices)
        self._idle_gpu = replace(
            idle_gpu, mig_mode=True, busy_percent=None, memory_busy_percent=None
        )

    def gpu(self, at: float) -> Gpu:
        """Return the GPU and its instances at a time."""
        instances = tuple([slice_.instance_at(at) for slice_ in self._slices])
        drift = smooth_noise(at / 4.0)
        share = 0.6 * self._occupied_share * (0.8 + 0.2 * drift)
        span = self._model.power_limit_watts - self._model.idle_watts
        degrees = self._model.hot_celsius - self._model.idle_celsius
        return replace(
            self._idle_gpu,
            memory_used_bytes=sum([slice_.memory_used_bytes or 0 for slice_ in instances]),
            temperature_celsius=float(int(self._model.idle_celsius + degrees * share)),
            power_watts=int(100.0 * (self._model.idle_watts + span * share)) / 100.0,
            sm_clock_mhz=self._model.sm_clock_max_mhz,
            throttle_reasons=(),
            instances=instances,
            processes=tuple([each for slice_ in instances for each in slice_.processes or ()]),
        )


def make_instance(key: object, number: int, profile: str) -> Instance:
    """Return an empty MIG instance of a profile such as "2g.10gb"."""
    memory = int(profile.partition(".")[2].removesuffix("gb")) * GIB
    return Instance(
        uuid=f"MIG-{random_uuid(seeded_rng(key, 'instance', number))}",
        gpu_instance_id=number + 1,
        compute_instance_id=0,
        profile=profile,
        memory_used_bytes=12 * MIB,
        memory_total_bytes=memory - 256 * MIB,
        processes=(),
    )
