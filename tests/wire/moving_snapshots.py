"""Random snapshots, and what they become when only their figures move."""

from random import Random
from typing import Any, TypeVar

from msgspec.structs import replace

from fleet_smi.model.snapshot import CollectorRun, Gpu, Host, Instance, Process, Snapshot
from fleet_smi.model.throttle_reasons import THROTTLE_REASONS
from fleet_smi.model.units import GIB
from tests.builders import NOON, gpu, instance, process, snapshot

_Part = TypeVar("_Part", Gpu, Instance, Process, Host)
PERCENT = (None, 0, 0.0, 1.5, 37, 100.0)
BYTES = (None, 0, 1, 4095, 2**32, 9 * GIB)
NUMBERS: dict[str, tuple[Any, ...]] = {
    "memory_used_bytes": BYTES,
    "temperature_celsius": (None, -40.0, -1.0, 33, 64.5),
    "memory_temperature_celsius": (None, 0, 95.0),
    "fan_percent": (None, 0.0, 130.0),
    "power_watts": (None, 0, 71.0, 512.347),
    "energy_joules": (None, 0, 1e12 + 0.123),
    "sm_clock_mhz": (None, 0, 1980),
    "memory_clock_mhz": (None, 2619),
    "pcie_rx_bytes_per_second": (None, 0, 10**11),
    "pcie_tx_bytes_per_second": (None, 7),
    "nvlink_rx_bytes_per_second": (None, 0, 1023, 9 * 10**12),
    "nvlink_tx_bytes_per_second": (None, 1024, 450 * GIB),
    "pcie_generation": (None, 1, 5),
    "pcie_width": (None, 4, 16),
    "ecc_corrected": (None, 0, 2**32 - 2),
    "performance_state": (None, "P0", "P8", "P15"),
    "gpu_memory_bytes": BYTES,
    "host_memory_bytes": BYTES,
    "cpu_percent": (None, 0, 99.7, 6400.0),
    "condition": (None, "zombie", "uninterruptible"),
    "load_1_minute": (None, 0, 3.5),
    "load_5_minutes": (None, 0.01),
    "load_15_minutes": (None, 1000.0),
}
DEVICE = ("memory_used_bytes", "busy_percent")
PROCESS = ("gpu_memory_bytes", "busy_percent", "cpu_percent", "host_memory_bytes", "condition")
HOST = ("cpu_percent", "load_1_minute", "load_5_minutes", "load_15_minutes", "memory_used_bytes")
GPU = (
    *DEVICE,
    *("memory_busy_percent", "encoder_percent", "decoder_percent", "temperature_celsius"),
    *("memory_temperature_celsius", "fan_percent", "power_watts", "energy_joules"),
    *("sm_clock_mhz", "memory_clock_mhz", "pcie_rx_bytes_per_second"),
    *("pcie_tx_bytes_per_second", "pcie_generation", "pcie_width", "ecc_corrected"),
    *("nvlink_rx_bytes_per_second", "nvlink_tx_bytes_per_second", "performance_state"),
)


class SnapshotMover:
    """Makes snapshots from a seed, and moves their figures."""

    def __init__(self, seed: int) -> None:
        self._random = Random(seed)

    def snapshot(self) -> Snapshot:
        """A machine with up to nine GPUs, some with MIG instances, with up to three processes."""
        cards = [self._gpu(index) for index in range(self._random.randrange(10))]
        names = ("nvidia", "host", "processes")[: self._random.randrange(4)]
        return snapshot(
            *cards,
            run_id="run-1",
            sequence=self._random.randrange(1, 1000),
            host=Host(addresses=("10.0.0.7",), cpu_count=96, memory_total_bytes=GIB),
            runs=tuple(CollectorRun(name=name, outcome="ok", seconds=0.1) for name in names),
        )

    def move(self, base: Snapshot) -> Snapshot:
        """The next snapshot of the same machine."""
        return replace(
            base,
            sequence=base.sequence + self._random.randrange(1, 3),
            taken_at=base.taken_at + 1000.0 * self._random.random(),
            host=self._moved(base.host, HOST) if self._often() else base.host,
            gpus=tuple(self._moved_gpu(card) for card in base.gpus),
            runs=tuple(replace(run, seconds=self._seconds()) for run in base.runs),
        )

    def _often(self) -> bool:
        return self._random.random() < 0.7

    def _seconds(self) -> float:
        return self._random.choice((0.0, 0.000748, round(self._random.random(), 6), 1 / 3))

    def _gpu(self, index: int) -> Gpu:
        instances = [instance(index * 10 + number) for number in range(self._random.randrange(3))]
        listed = None if self._random.random() < 0.2 else self._processes(index)
        return gpu(
            index,
            processes=listed,
            mig_mode=bool(instances),
            instances=tuple(replace(each, processes=self._processes(index)) for each in instances),
        )

    def _processes(self, index: int) -> tuple[Process, ...]:
        return tuple(process(1000 * index + each) for each in range(self._random.randrange(4)))

    def _moved_gpu(self, card: Gpu) -> Gpu:
        if not self._often():
            return card
        reasons = tuple([each for each in THROTTLE_REASONS if self._random.random() < 0.2])
        return replace(
            self._moved(card, GPU),
            throttle_reasons=None if self._random.random() < 0.3 else reasons,
            processes=self._moved_processes(card),
            instances=tuple(
                replace(self._moved(each, DEVICE), processes=self._moved_processes(each))
                for each in card.instances
            ),
        )

    def _moved_processes(self, device: Gpu | Instance) -> tuple[Process, ...] | None:
        listed = device.processes
        return listed and tuple(self._moved(each, PROCESS) for each in listed)

    def _moved(self, part: _Part, fields: tuple[str, ...]) -> _Part:
        chosen = [field for field in fields if self._random.random() < 0.4]
        return replace(
            part, **{name: self._random.choice(NUMBERS.get(name, PERCENT)) for name in chosen}
        )


def busy_machine(second: int) -> Snapshot:
    """Eight GPUs under load with five processes, in one second of a steady run."""
    random = Random(second)

    def running(index: int) -> tuple[Process, ...]:
        if index >= 5:
            return ()
        worker = process(
            4711 + index,
            busy_percent=random.randrange(80, 100),
            cpu_percent=random.randrange(900, 1100) / 10,
            host_memory_bytes=10 * GIB + 4096 * random.randrange(1000),
        )
        return (worker,)

    cards = [
        gpu(
            index,
            busy_percent=random.randrange(80, 100),
            memory_busy_percent=random.randrange(20, 50),
            memory_used_bytes=61 * GIB,
            temperature_celsius=random.randrange(60, 70),
            power_watts=random.randrange(400_000, 700_000) / 1000,
            energy_joules=1e6 + 600 * second + random.randrange(1000) / 1000,
            sm_clock_mhz=random.choice((1755, 1740, 1725)),
            processes=running(index),
        )
        for index in range(8)
    ]
    names = ("nvidia", "host", "network", "processes")
    return snapshot(
        *cards,
        run_id="0123456789abcdef",
        sequence=1000 + second,
        taken_at=NOON + second + 0.0123,
        host=Host(
            cpu_percent=random.randrange(1000) / 10,
            load_1_minute=random.randrange(1000) / 100,
            memory_used_bytes=100 * GIB + 4096 * random.randrange(10**6),
        ),
        runs=tuple(
            CollectorRun(name=name, outcome="ok", seconds=random.randrange(1000) / 1e6)
            for name in names
        ),
    )
