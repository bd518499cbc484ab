"""What becomes of one GPU as the story goes: empty, visited, cut into slices, lost."""

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
_AT_NIGHT = 0.45
_STILL_SECONDS = 4.0  # how long the figures of a card at rest stay the same


class GpuSlot(Protocol):
    """The story of one GPU."""

    def gpu(self, at: float) -> Gpu:
        """The GPU as it is read at any moment, past or to come."""


class IdleSlot:
    """A card that nobody touches: its memory may be used all the same."""

    def __init__(self, model: GpuModel, idle_gpu: Gpu) -> None:
        self._card, self._resting = model, idle_gpu
        self._phase = 1000.0 * seeded_rng(idle_gpu.uuid).random()
        self._step, self._gpu = -1, idle_gpu

    def gpu(self, at: float, vacant_seconds: float = _COOLING_SECONDS) -> Gpu:
        """The card at one moment, cooling down if it was left a moment ago."""
        if vacant_seconds < _COOLING_SECONDS:
            return self._at(at, vacant_seconds)
        step = int(at / _STILL_SECONDS)
        if step != self._step:
            self._step, self._gpu = step, self._at(step * _STILL_SECONDS, vacant_seconds)
        return self._gpu

    def _at(self, at: float, deserted_seconds: float) -> Gpu:
        drift = smooth_noise(at / 8.0 + self._phase)
        warm = max(0.0, 1.0 - deserted_seconds / _COOLING_SECONDS)
        celsius = self._card.idle_celsius + 3.0 * drift + _COOLING_DEGREES * warm
        return replace(
            self._resting,
            temperature_celsius=float(int(celsius)),
            fan_percent=fan_percent(celsius) if self._card.has_fans else None,
            power_watts=int(self._card.idle_watts * (97.0 + 6.0 * drift + 30.0 * warm)) / 100.0,
        )


def ghost_slot(model: GpuModel, idle_gpu: Gpu, used_bytes: int) -> IdleSlot:
    """A card whose memory is used and on which no process is to be seen."""
    return IdleSlot(model, replace(idle_gpu, memory_used_bytes=used_bytes))


class TransitionSlot:
    """A card with one story up to a moment, and another from then on."""

    def __init__(self, before: GpuSlot, since: float, after: GpuSlot) -> None:
        self._before, self._since, self._after = before, since, after

    def gpu(self, at: float) -> Gpu:
        """The card as its story of that moment has it."""
        return (self._before if at < self._since else self._after).gpu(at)


class LostSlot:
    """A card that fell off the bus; all that is still known is what it was."""

    def __init__(self, idle_gpu: Gpu, since: float) -> None:
        self._gpu = Gpu(
            uuid=idle_gpu.uuid,
            index=idle_gpu.index,
            vendor=idle_gpu.vendor,
            name=idle_gpu.name,
            pci_bus_id=idle_gpu.pci_bus_id,
            fault=Fault(
                kind="lost",
                detail="lost: fell off the bus",
                remedy="reboot; if it returns, have the hardware looked at",
                since=since,
            ),
        )

    def gpu(self, at: float) -> Gpu:
        """The same at every moment."""
        return self._gpu


class UsagePattern(Struct, frozen=True, kw_only=True, gc=False):
    """How people come to a group of cards: a turn each `period_seconds`.

    In a turn comes nobody, or somebody who takes every card of the group, at its start,
    and leaves before its end. `keenness` is the chance that somebody does; those who
    `sleep` come less often at night.
    """

    key: str
    period_seconds: float
    gpu_count: int = 1
    users: tuple[str, ...] = tuple(USERS)
    probability: float = 0.8
    manager: JobManager = "bare"
    quieter_at_night: bool = False

    def probability_at(self, moment: float) -> float:
        """The chance that somebody comes then."""
        hour = moment / _HOUR % 24.0
        return self.probability * (
            _AT_NIGHT if self.quieter_at_night and not 7.0 <= hour < 21.0 else 1.0
        )


class SharedSlot:
    """A card that people come to and leave; `rank` is its place in its group."""

    def __init__(
        self, model: GpuModel, idle_gpu: Gpu, pattern: UsagePattern, rank: int = 0
    ) -> None:
        self._card, self._resting, self._custom, self._rank = model, idle_gpu, pattern, rank
        self._empty = IdleSlot(model, idle_gpu)
        self._offset = pattern.period_seconds * seeded_rng(pattern.key).random()
        self._turn: int | None = None
        self._visit: OccupiedSlot | None = None
        self._leaves_at = 0.0

    def gpu(self, at: float) -> Gpu:
        """The card at one moment: somebody's, or empty and cooling down."""
        turn = int((at + self._offset) // self._custom.period_seconds)
        if turn != self._turn:
            self._begin(turn)
        if self._visit is None:
            return self._empty.gpu(at)
        if at < self._leaves_at:
            return self._visit.gpu(at)
        return self._empty.gpu(at, at - self._leaves_at)

    def _begin(self, turn: int) -> None:
        custom = self._custom
        thrown = seeded_rng(custom.key, turn)
        begins_at = turn * custom.period_seconds - self._offset
        stays = custom.period_seconds * (0.6 + 0.3 * thrown.random())
        self._turn, self._leaves_at, self._visit = turn, begins_at + stays, None
        if thrown.random() < custom.probability_at(begins_at):
            somebody = make_process(
                custom.key,
                thrown.choice(custom.users),
                thrown.choice(
                    SINGLE_GPU_WORKLOADS if custom.gpu_count == 1 else MULTI_GPU_WORKLOADS
                ),
                self._card.memory_total_bytes,
                begins_at,
                manager=custom.manager,
                rank=self._rank,
            )
            self._visit = OccupiedSlot(self._card, self._resting, (somebody,))


class MigSlice(Struct, frozen=True, kw_only=True):
    """A MIG instance and who has it, if anybody."""

    instance: Instance
    occupant: SimulatedProcess | None = None

    def instance_at(self, moment: float) -> Instance:
        """The instance as it is read at that moment."""
        if self.occupant is None or moment < self.occupant.started_at:
            return self.instance
        # The driver tells no utilisation of a slice, nor of one process in it.
        process = replace(self.occupant.process_at(moment), busy_percent=None)
        used = (self.instance.memory_used_bytes or 0) + (process.gpu_memory_bytes or 0)
        return replace(self.instance, memory_used_bytes=used, processes=(process,))


class MigSlot:
    """A card cut into MIG instances."""

    def __init__(self, model: GpuModel, idle_gpu: Gpu, slices: Sequence[MigSlice]) -> None:
        self._card, self._slices = model, tuple(slices)
        self._taken = sum(one.occupant is not None for one in slices) / len(slices)
        self._resting = replace(
            idle_gpu, mig_mode=True, busy_percent=None, memory_busy_percent=None
        )

    def gpu(self, at: float) -> Gpu:
        """The card and its instances at one moment."""
        instances = tuple([one.instance_at(at) for one in self._slices])
        drift = smooth_noise(at / 4.0)
        share = 0.6 * self._taken * (0.8 + 0.2 * drift)
        span = self._card.power_limit_watts - self._card.idle_watts
        degrees = self._card.hot_celsius - self._card.idle_celsius
        return replace(
            self._resting,
            memory_used_bytes=sum([one.memory_used_bytes or 0 for one in instances]),
            temperature_celsius=float(int(self._card.idle_celsius + degrees * share)),
            power_watts=int(100.0 * (self._card.idle_watts + span * share)) / 100.0,
            sm_clock_mhz=self._card.sm_clock_max_mhz,
            throttle_reasons=(),
            instances=instances,
            processes=tuple([each for one in instances for each in one.processes or ()]),
        )


def make_instance(key: object, number: int, profile: str) -> Instance:
    """An empty MIG instance of a profile such as "2g.10gb"."""
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
