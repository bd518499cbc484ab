"""Somebody at work on a GPU: how busy their process is at any moment, and what it holds."""

from collections.abc import Sequence

from msgspec import Struct
from msgspec.structs import replace

from fleet_smi.model.snapshot import Gpu, Process
from fleet_smi.model.units import GIB, MIB
from fleet_smi.simulation.gpu_models import GpuModel
from fleet_smi.simulation.seeded_random import jitter, seeded_rng, smooth_noise
from fleet_smi.simulation.workloads import USERS, JobManager, Workload, make_process_context

CONTEXT_OVERHEAD_BYTES = 420 * MIB
"""What the driver keeps for a card in use, beyond what its processes are booked for."""

_WARM_UP_SECONDS = 80.0
_IDLE_CONTEXT = 1.3  # an open context keeps a card from resting fully
_LOADING_PERCENT = 5.0
_CAPPED, _CAPPED_SHARE = ("sw_power_cap",), 0.9


class SimulatedProcess(Struct, frozen=True, kw_only=True, gc=False):
    """One process and its work; `phase` tells it from others who do the same."""

    process: Process
    workload: Workload
    memory_bytes: int
    started_at: float
    phase: float

    def busy_percent(self, at: float) -> float:
        """How much of the card it uses now, as whole a number as drivers tell."""
        work, age = self.workload, at - self.started_at
        drift = smooth_noise(at / work.variation_seconds + self.phase)
        if age < work.loading_seconds:
            return float(int(_LOADING_PERCENT * drift))
        if age % work.rest_every_seconds > work.rest_every_seconds - work.rest_seconds:
            return float(int(work.rest_percent * drift))
        percent = work.busy_percent + work.variation_percent * (2.0 * drift - 1.0)
        return 100.0 if percent > 100.0 else float(int(percent)) if percent > 0.0 else 0.0

    def process_at(self, at: float) -> Process:
        """Its process as it is listed now."""
        cpu = int(self.workload.cpu_percent * (9.0 + 2.0 * jitter(at + self.phase))) / 10.0
        busy, loaded = self.busy_percent(at), (at - self.started_at) / self.workload.loading_seconds
        if loaded >= 1.0:
            return replace(self.process, busy_percent=busy, cpu_percent=cpu)
        held = int(self.memory_bytes * max(0.02, loaded)) // MIB * MIB
        return replace(self.process, gpu_memory_bytes=held, busy_percent=busy, cpu_percent=cpu)


def make_process(
    key: object,
    user: str,
    workload: Workload,
    gpu_total_bytes: int,
    started_at: float,
    *,
    manager: JobManager = "bare",
    rank: int = 0,
) -> SimulatedProcess:
    """Somebody on a card; those of one `key` are one job with a process on each card."""
    thrown = seeded_rng(key, started_at)
    low, high = workload.memory_share
    share = low + (high - low) * thrown.random() - 0.004 * (rank % 4)
    memory = int(gpu_total_bytes * share) // (2 * MIB) * 2 * MIB
    pid = thrown.randrange(4_000, 3_900_000) + rank
    within = make_process_context(manager, thrown, started_at)
    process = Process(
        pid=pid,
        kind="compute",
        gpu_memory_bytes=memory,
        user=user,
        uid=USERS.get(user, 998),
        name=workload.program,
        command=workload.command,
        started_at=started_at,
        busy_percent=0.0,
        cpu_percent=workload.cpu_percent,
        host_memory_bytes=thrown.randrange(3 * GIB, 21 * GIB),
        container=within.container,
        pod=within.pod,
        slurm_job=within.slurm_job,
    )
    phase = 1000.0 * thrown.random() + 13.0 * rank
    return SimulatedProcess(
        process=process, workload=workload, memory_bytes=memory, started_at=started_at, phase=phase
    )


class OccupiedSlot:
    """A card with people on it, beside what else is always there, such as a screen."""

    def __init__(
        self, model: GpuModel, idle_gpu: Gpu, occupants: Sequence[SimulatedProcess]
    ) -> None:
        self._card = model
        self._tenants = tuple(occupants)
        self._always = idle_gpu.processes or ()
        self._phase = self._tenants[0].phase
        self._used_bytes = (idle_gpu.memory_used_bytes or 0) + CONTEXT_OVERHEAD_BYTES
        self._warm_at = max(one.started_at for one in occupants) + _WARM_UP_SECONDS
        self._heat = max(one.workload.heat for one in occupants)
        typical = min(100.0, sum(one.workload.busy_percent for one in occupants)) / 100.0
        self._warmth = (model.hot_celsius - model.idle_celsius) * self._heat * typical
        self._idle = replace(idle_gpu, power_watts=model.idle_watts * _IDLE_CONTEXT)
        self._busy = replace(
            idle_gpu,
            memory_clock_mhz=model.memory_clock_max_mhz,
            performance_state=model.busy_pstate,
            pcie_generation=model.pcie_generation,
        )

    def gpu(self, at: float) -> Gpu:
        """The card at one moment."""
        seen = [one.process_at(at) for one in self._tenants]
        if len(seen) == 1:
            (only,) = seen
            busy, used = only.busy_percent or 0.0, only.gpu_memory_bytes or 0
        else:
            busy = min(100.0, sum([one.busy_percent or 0.0 for one in seen]))
            used = sum([one.gpu_memory_bytes or 0 for one in seen])
        processes = (*self._always, *seen)
        if busy == 0.0:
            return self._at_rest(at, used, processes)
        return self._at_work(at, used, processes, busy)

    def _at_rest(self, at: float, used: int, processes: tuple[Process, ...]) -> Gpu:
        celsius = self._celsius(at, 0.0)
        return replace(
            self._idle,
            memory_used_bytes=self._used_bytes + used,
            temperature_celsius=float(int(celsius)),
            fan_percent=fan_percent(celsius) if self._card.has_fans else None,
            processes=processes,
        )

    def _at_work(self, at: float, used: int, processes: tuple[Process, ...], busy: float) -> Gpu:
        card, drift = self._card, jitter(at + self._phase)
        share = busy * 0.01 * self._heat * (0.94 + 0.06 * drift)
        watts = card.idle_watts + (card.power_limit_watts - card.idle_watts) * share
        celsius = self._celsius(at, share)
        traffic = int(busy * 9_000_000.0 * drift)
        return replace(
            self._busy,
            memory_used_bytes=self._used_bytes + used,
            busy_percent=busy,
            memory_busy_percent=float(int(busy * (0.35 + 0.2 * drift))),
            temperature_celsius=float(int(celsius)),
            fan_percent=fan_percent(celsius) if card.has_fans else None,
            power_watts=int(watts * 100.0) / 100.0,
            sm_clock_mhz=card.sm_clock_max_mhz - 15 * int(14.0 * share * drift),
            throttle_reasons=_CAPPED if share > _CAPPED_SHARE else (),
            pcie_rx_bytes_per_second=traffic,
            pcie_tx_bytes_per_second=traffic // 5,
            processes=processes,
        )

    def _celsius(self, at: float, share: float) -> float:
        """Heat is slow: it follows the work as a whole far more than this moment's."""
        warm = 1.0 if at >= self._warm_at else 1.0 - (self._warm_at - at) / _WARM_UP_SECONDS
        return self._card.idle_celsius + self._warmth * warm * (0.88 + 0.12 * share)


def fan_percent(celsius: float) -> float:
    """The fans of a card for people: still while it is cool."""
    return 0.0 if celsius < 50.0 else float(int(min(100.0, 30.0 + 1.6 * (celsius - 50.0))))
