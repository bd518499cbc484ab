"""Simulated processes: load and memory of each over time, and the GPU they run on."""

from collections.abc import Sequence

from msgspec import Struct
from msgspec.structs import replace

from fleet_smi.model.snapshot import Gpu, Process
from fleet_smi.model.units import GIB, MIB
from fleet_smi.simulation.gpu_models import GpuModel
from fleet_smi.simulation.seeded_random import jitter, seeded_rng, smooth_noise
from fleet_smi.simulation.workloads import USERS, JobManager, Workload, make_process_context

CONTEXT_OVERHEAD_BYTES = 420 * MIB
"""Memory the driver uses on an occupied GPU that no process accounts for."""

_WARM_UP_SECONDS = 80.0
_IDLE_CONTEXT = 1.3  # an open context keeps a GPU above its idle power
_LOADING_PERCENT = 5.0
_POWER_CAP, _POWER_CAP_SHARE = ("sw_power_cap",), 0.9


class SimulatedProcess(Struct, frozen=True, kw_only=True, gc=False):
    """A process and its workload; `phase` shifts its noise against other processes."""

    process: Process
    workload: Workload
    memory_bytes: int
    started_at: float
    phase: float

    def busy_percent(self, at: float) -> float:
        """Return its GPU utilisation at a time, a whole number as drivers report it."""
        workload, age = self.workload, at - self.started_at
        drift = smooth_noise(at / workload.variation_seconds + self.phase)
        if age < workload.loading_seconds:
            return float(int(_LOADING_PERCENT * drift))
        if age % workload.rest_every_seconds > workload.rest_every_seconds - workload.rest_seconds:
            # Never idle: a backfilled week has few samples, and each stands for an hour.
            return float(int(workload.rest_percent * (0.5 + 0.5 * drift)))
        percent = workload.busy_percent + workload.variation_percent * (2.0 * drift - 1.0)
        return 100.0 if percent > 100.0 else float(int(percent)) if percent > 0.0 else 0.0

    def process_at(self, at: float) -> Process:
        """Return the process as listed at a time."""
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
    """Create a process; those with the same `key` are ranks of one multi-GPU job."""
    rng = seeded_rng(key, started_at)
    low, high = workload.memory_share
    # The ranks of a job draw the same numbers; their memory, pid and phase differ by the rank.
    share = low + (high - low) * rng.random() - 0.004 * (rank % 4)
    memory = int(gpu_total_bytes * share) // (2 * MIB) * 2 * MIB
    pid = rng.randrange(4_000, 3_900_000) + rank
    context = make_process_context(manager, rng, started_at)
    process = Process(
        pid=pid,
        parent_pid=pid - rank if rank else None,
        kind="compute",
        gpu_memory_bytes=memory,
        user=user,
        uid=USERS.get(user, 998),
        name=workload.program,
        command=workload.command,
        started_at=started_at,
        busy_percent=0.0,
        cpu_percent=workload.cpu_percent,
        host_memory_bytes=rng.randrange(3 * GIB, 21 * GIB),
        container=context.container,
        pod=context.pod,
        slurm_job=context.slurm_job,
    )
    phase = 1000.0 * rng.random() + 13.0 * rank
    return SimulatedProcess(
        process=process, workload=workload, memory_bytes=memory, started_at=started_at, phase=phase
    )


class OccupiedSlot:
    """A GPU with running processes, besides permanent ones such as a display server."""

    def __init__(
        self, model: GpuModel, idle_gpu: Gpu, occupants: Sequence[SimulatedProcess]
    ) -> None:
        self._model = model
        self._occupants = tuple(occupants)
        self._permanent = idle_gpu.processes or ()
        self._phase = self._occupants[0].phase
        self._used_bytes = (idle_gpu.memory_used_bytes or 0) + CONTEXT_OVERHEAD_BYTES
        self._warm_at = max(process.started_at for process in occupants) + _WARM_UP_SECONDS
        self._heat = max(process.workload.heat for process in occupants)
        # The temperature depends on the typical load: it does not follow each short pause.
        typical = min(100.0, sum(process.workload.busy_percent for process in occupants)) / 100.0
        self._temperature_rise = (model.hot_celsius - model.idle_celsius) * self._heat * typical
        self._idle = replace(idle_gpu, power_watts=model.idle_watts * _IDLE_CONTEXT)
        self._busy = replace(
            idle_gpu,
            memory_clock_mhz=model.memory_clock_max_mhz,
            performance_state=model.busy_pstate,
            pcie_generation=model.pcie_generation,
        )

    def gpu(self, at: float) -> Gpu:
        """Return the GPU at a time."""
        running = [process.process_at(at) for process in self._occupants]
        if len(running) == 1:
            (process,) = running
            busy, used = process.busy_percent or 0.0, process.gpu_memory_bytes or 0
        else:
            busy = min(100.0, sum([process.busy_percent or 0.0 for process in running]))
            used = sum([process.gpu_memory_bytes or 0 for process in running])
        processes = (*self._permanent, *running)
        if busy == 0.0:
            return self._idle_gpu(at, used, processes)
        return self._busy_gpu(at, used, processes, busy)

    def _idle_gpu(self, at: float, used: int, processes: tuple[Process, ...]) -> Gpu:
        celsius = self._celsius(at, 0.0)
        return replace(
            self._idle,
            memory_used_bytes=self._used_bytes + used,
            temperature_celsius=float(int(celsius)),
            fan_percent=fan_percent(celsius) if self._model.has_fans else None,
            processes=processes,
        )

    def _busy_gpu(self, at: float, used: int, processes: tuple[Process, ...], busy: float) -> Gpu:
        model, drift = self._model, jitter(at + self._phase)
        share = busy * 0.01 * self._heat * (0.94 + 0.06 * drift)
        watts = model.idle_watts + (model.power_limit_watts - model.idle_watts) * share
        celsius = self._celsius(at, share)
        traffic = int(busy * 9_000_000.0 * drift)
        return replace(
            self._busy,
            memory_used_bytes=self._used_bytes + used,
            busy_percent=busy,
            memory_busy_percent=float(int(busy * (0.35 + 0.2 * drift))),
            temperature_celsius=float(int(celsius)),
            fan_percent=fan_percent(celsius) if model.has_fans else None,
            power_watts=int(watts * 100.0) / 100.0,
            sm_clock_mhz=model.sm_clock_max_mhz - 15 * int(14.0 * share * drift),
            throttle_reasons=_POWER_CAP if share > _POWER_CAP_SHARE else (),
            pcie_rx_bytes_per_second=traffic,
            pcie_tx_bytes_per_second=traffic // 5,
            nvlink_rx_bytes_per_second=self._nvlink_rate(at),
            nvlink_tx_bytes_per_second=self._nvlink_rate(at),
            processes=processes,
        )

    def _nvlink_rate(self, at: float) -> int | None:
        """Return the bytes per second of a direction, which an agent reads every 10 seconds."""
        if self._model.nvlink_links is None:
            return None
        return int(4e7 * self._heat * jitter(at // 10 * 10 + self._phase)) * 1024

    def _celsius(self, at: float, share: float) -> float:
        """Return the temperature, which lags: it follows the average load, not the instant."""
        warm = 1.0 if at >= self._warm_at else 1.0 - (self._warm_at - at) / _WARM_UP_SECONDS
        return self._model.idle_celsius + self._temperature_rise * warm * (0.88 + 0.12 * share)


def fan_percent(celsius: float) -> float:
    """Return the fan speed of a desktop card, 0 while it is cool."""
    return 0.0 if celsius < 50.0 else float(int(min(100.0, 30.0 + 1.6 * (celsius - 50.0))))
