"""Random walks of GPUs: long stretches in which only figures move, and whatever ends them."""

from random import Random
from typing import Any

from msgspec.structs import replace

from fleet_smi.model.snapshot import Fault, Gpu, Instance, Process, Snapshot
from fleet_smi.model.units import GIB, MIB
from fleet_smi.model.verdict.thresholds import Thresholds
from tests.builders import NOON, gpu, instance, process

GPUS = 6
THRESHOLDS = (
    Thresholds(),
    # Short windows, so that every time limit is reached within a few samples.
    Thresholds(idle_window_seconds=20.0, hole_seconds=8.0),
    Thresholds(idle_window_seconds=45.0, settle_samples=1, idle_percent=4.0),
    Thresholds(idle_window_seconds=90.0, noise_percent=9.0, idle_power_fraction=0.5),
    Thresholds(free_memory_bytes=3 * GIB, display_memory_bytes=2 * GIB, idle_window_seconds=30.0),
)
_INTERVALS = (0.5, 1.0, 1.0, 2.0, 5.0, 30.0, None)
# Levels around which the load of a GPU wanders, with every threshold among them.
_LOADS = (0.0, 0.0, 0.0, 1.0, 2.0, 3.0, 4.0, 5.0, 9.0, 10.0, 50.0, 97.0, 99.5, 100.0, 100.0)
_ODD_LOADS = (None, 255.0, -1.0, 2.0**32)
_MEMORY = (0, 4 * MIB, 800 * MIB, 860 * MIB, GIB - 1, GIB, GIB + 1, 2 * GIB, 3 * GIB, 71 * GIB)
_POWER = (None, 30.0, 71.0, 139.0, 140.0, 174.9, 175.0, 176.0, 349.0, 350.0, 600.0, 9000.0)
_THROTTLES = (None, (), ("gpu_idle",), ("sw_power_cap",), ("hw_slowdown",), ("thermal", "x"))
_FAULTS = ("lost", "needs_reset", "slow", "not_answering", "mismatch", "unreadable")
_NAMES = ("python", "python", "Xorg", "firefox", "nv-hostengine", "nvidia-cuda-mps-server", None)
_KINDS = ("compute", "compute", "compute", "graphics", "compute+graphics")


class RandomNode:
    """A node whose reports are drawn from a seed; `at` is the hub's clock."""

    def __init__(self, seed: int) -> None:
        self._rng = rng = Random(seed)
        self.thresholds = rng.choice(THRESHOLDS)
        self.interval_seconds = rng.choice(_INTERVALS)
        # How often something else than a figure changes.
        self._restlessness = rng.choice((0.001, 0.003, 0.01, 0.03, 0.2))
        self.at = NOON
        self._skew, self._sequence = rng.choice((0.0, 0.1, -30.0, 4000.0)), 0
        self._gpus = [self._new_gpu(index) for index in range(GPUS)]
        self._levels = [(0.0, 71.0)] * GPUS

    def next_snapshot(self) -> Snapshot:
        """The next report, taken at `at`."""
        rng, self._sequence = self._rng, self._sequence + 1
        self.at += self._next_gap()
        if self._is_restless(0.1):
            self._skew += rng.choice((-3600.0, -5.0, 0.5, 90.0))
        self._gpus = [self._next_gpu(index, each) for index, each in enumerate(self._gpus)]
        # Some are missing from some reports.
        shown = [each for each in self._gpus if not (self._is_restless(0.05))]
        return Snapshot(
            node_id="id-of-gpu01",
            name="gpu01",
            taken_at=self.at - self._skew + rng.uniform(0.0, 0.01),
            interval_seconds=self.interval_seconds,
            sequence=self._sequence,
            run_id="run-1",
            boot_id="boot-1",
            gpus=tuple(shown),
        )

    def _is_restless(self, share: float = 1.0) -> bool:
        return self._rng.random() < self._restlessness * share

    def _next_gap(self) -> float:
        rng, interval = self._rng, self.interval_seconds or 1.0
        if self._is_restless(0.3):
            return rng.choice((0.0, 3.0 * interval, 7.9, 8.1, 119.0, 121.0, 700.0, -2.0))
        return interval if rng.random() < 0.5 else interval * rng.uniform(0.9, 1.1)

    def _new_gpu(self, index: int) -> Gpu:
        rng = self._rng
        fields: dict[str, Any] = {"vendor": rng.choice(("nvidia", "nvidia", "amd"))}
        if rng.random() < 0.1:
            fields |= {"memory_shared": True}
        if rng.random() < 0.1:
            fields |= {"processes": None, "processes_hidden": rng.random() < 0.5}
        if rng.random() < 0.1:
            fields |= {"busy_percent": None, "mig_mode": None}
        if rng.random() < 0.1:
            parts = tuple([instance(10 * index + number) for number in range(rng.randint(0, 3))])
            fields |= {"mig_mode": True, "instances": parts}
        if rng.random() < 0.1:
            fields |= {"memory_total_bytes": rng.choice((None, 8 * GIB, 10**20))}
        return gpu(index, **fields)

    def _next_gpu(self, index: int, card: Gpu) -> Gpu:
        if self._is_restless():
            card = self._changed(index, card)
        return self._with_figures(index, card)

    def _with_figures(self, index: int, card: Gpu) -> Gpu:
        rng = self._rng
        if self._is_restless(5.0):
            self._levels[index] = rng.choice(_LOADS), rng.choice((71.0, 140.0, 175.0, 600.0))
        load, watts = self._levels[index]
        fields: dict[str, Any] = {"temperature_celsius": float(rng.randint(30, 80))}
        if card.busy_percent is not None:
            is_still = rng.random() < 0.4
            fields["busy_percent"] = load if is_still else min(100.0, load + rng.choice((0, 0, 1)))
        fields["power_watts"] = watts * rng.uniform(0.98, 1.02)
        if card.memory_used_bytes is not None and rng.random() < 0.1:
            moved = card.memory_used_bytes + rng.choice((-MIB, 0, MIB))
            fields["memory_used_bytes"] = max(0, moved)
        if self._is_restless():
            fields["power_watts"] = rng.choice(_POWER)
        if self._is_restless(0.3):
            fields["busy_percent"] = rng.choice(_ODD_LOADS)
        if card.processes:
            busy = [replace(one, busy_percent=self._process_load()) for one in card.processes]
            fields["processes"] = tuple(busy)
        return replace(card, **fields)

    def _process_load(self) -> float | None:
        return self._rng.choice((None, 0.0, 1.0, 60.0)) if self._is_restless(3.0) else 60.0

    def _changed(self, index: int, card: Gpu) -> Gpu:
        """Something that changes more than figures, or a figure by a lot."""
        rng = self._rng
        choice = rng.randint(0, 13)
        if choice <= 3:
            return replace(card, processes=self._processes(card.processes or ()))
        if choice == 4:
            return replace(card, processes=None if card.processes is not None else ())
        if choice <= 6:
            return replace(card, memory_used_bytes=rng.choice((*_MEMORY, None, 10**20)))
        if choice == 7:
            fault = Fault(kind=rng.choice(_FAULTS), detail="", since=self.at - 100)  # type: ignore[arg-type]
            return replace(card, fault=None if card.fault else fault)
        if choice == 8:
            return replace(card, throttle_reasons=rng.choice(_THROTTLES))
        if choice == 9:
            video = rng.choice((None, 0.0, 1.0, 3.0, 60.0, 100.0))
            return replace(card, **{rng.choice(("encoder_percent", "decoder_percent")): video})
        if choice == 10:
            return self._changed_hardware(card)
        if choice == 11 and card.instances:
            return replace(card, instances=tuple(map(self._changed_instance, card.instances)))
        if choice == 12:
            return self._new_gpu(index)
        return replace(card, busy_percent=rng.choice((None, *_LOADS)))

    def _changed_hardware(self, card: Gpu) -> Gpu:
        field, values = self._rng.choice(
            [
                ("ecc_uncorrected", (0, 0, None, 3, 2**64 - 1)),
                ("ecc_contained", (None, True, False)),
                ("compute_mode", ("default", "default", "prohibited", None)),
                ("asleep", (False, False, True)),
                ("processes_hidden", (False, True)),
                ("reset_pending", (None, "remapped rows wait for a reset")),
                ("reported_by", (None, "nvgpu")),
                ("power_limit_watts", (700.0, 700.0, None, 350.0, 0.0)),
                ("more_processes", (0, 3)),
            ]
        )
        return replace(card, **{field: self._rng.choice(values)})

    def _changed_instance(self, part: Instance) -> Instance:
        used = self._rng.choice((12 * MIB, 5 * GIB, None))
        return replace(
            part, memory_used_bytes=used, processes=self._processes(part.processes or ())
        )

    def _processes(self, before: tuple[Process, ...]) -> tuple[Process, ...]:
        """Some that end, some that come, and some whose memory changes."""
        rng = self._rng
        after = [each for each in before if rng.random() < 0.6]
        if rng.random() < 0.7:
            after += [self._process() for _ in range(rng.choice((1, 1, 2, 3)))]
        if after and rng.random() < 0.3:
            used = rng.choice((None, 300 * MIB, 2 * GIB, 16 * GIB))
            after[0] = replace(after[0], gpu_memory_bytes=used)
        return tuple(after)

    def _process(self) -> Process:
        rng = self._rng
        started = rng.choice((None, self.at - self._skew - rng.choice((0, 5, 40, 9000)), 1e300))
        return process(
            rng.randint(1, 40),
            rng.choice(("alice", "alice", "bob", "carol", None)),
            kind=rng.choice(_KINDS),
            name=rng.choice(_NAMES),
            gpu_memory_bytes=rng.choice((None, 100 * MIB, 2 * GIB, 16 * GIB)),
            started_at=started,
            condition=rng.choice((None, None, None, "zombie", "uninterruptible")),
            hidden=rng.random() < 0.1,
        )
