"""A machine that does not exist: eight GPUs in most states there are, with an hour of past.

Its snapshots go through the same judgement as real ones, so the demo shows what
fleet-smi says and not what somebody typed.
"""

from collections.abc import Iterator

from fleet_smi.model.snapshot import (
    CollectorRun,
    Fault,
    Gpu,
    Host,
    Instance,
    Process,
    Snapshot,
)
from fleet_smi.model.units import GIB, MIB

NAME = "demo01"
_TOTAL = 85_520_809_984
_HOUR = 3600.0
_STEP = 60.0


def past_and_present(now: float) -> Iterator[Snapshot]:
    """The last hour, a snapshot a minute, the last one now."""
    steps = int(_HOUR / _STEP)
    for step in range(steps + 1):
        yield snapshot(now - (steps - step) * _STEP, now, step + 1)


def snapshot(at: float, now: float, sequence: int) -> Snapshot:
    """The machine at one moment of its story, which ends `now`."""
    return Snapshot(
        node_id="demo",
        name=NAME,
        taken_at=at,
        sequence=sequence,
        boot_id="demo",
        host=Host(
            addresses=("192.0.2.1",),
            kernel="6.8.0",
            driver_version="590.48.01",
            cuda_version="13.1",
            booted_at=now - 40 * 86400,
            cpu_count=128,
            cpu_percent=22.5,
            load_1_minute=28.9,
            load_5_minutes=28.1,
            load_15_minutes=27.7,
            memory_used_bytes=312 * GIB,
            memory_total_bytes=2016 * GIB,
        ),
        gpus=tuple(_gpus(at, now)),
        runs=(CollectorRun(name="demo", outcome="ok", seconds=0.0),),
    )


def _gpus(at: float, now: float) -> Iterator[Gpu]:
    wave = int(at // _STEP) % 5
    training = _process(19028, "alice", 60 * GIB, now - 52 * _HOUR, "python train.py --fsdp big")
    for index in (0, 1):
        yield _gpu(index, used=60 * GIB, busy=94 + wave, watts=612 + 9 * wave, on=(training,))
    notebook = _process(4111, "bob", 16 * GIB, now - 26 * _HOUR, "python -m ipykernel_launcher")
    yield _gpu(2, used=16 * GIB + 300 * MIB, busy=0, watts=98, on=(notebook,))
    yield _gpu(3, used=4 * MIB, busy=0, watts=71)
    yield _gpu(4, used=71 * GIB, busy=0, watts=74)
    yield _shared(at, now)
    yield _lost(now)
    yield _sliced(now)


def _shared(at: float, now: float) -> Gpu:
    on = (
        _process(23901, "carol", 18 * GIB, now - 5 * _HOUR, "python sweep.py --lr 3e-4"),
        _process(24777, "dave", 11 * GIB, now - 0.4 * _HOUR, "julia --project fit.jl"),
    )
    return _gpu(5, used=29 * GIB + 500 * MIB, busy=48 + int(at // _STEP) % 7, watts=402, on=on)


def _lost(now: float) -> Gpu:
    return Gpu(
        uuid=_uuid(6),
        index=6,
        vendor="nvidia",
        name="NVIDIA H100 80GB HBM3",
        pci_bus_id="00000000:AB:00.0",
        fault=Fault(
            kind="lost",
            detail="lost: fell off the bus",
            remedy="reboot; if it returns, have the hardware looked at",
            since=now - 0.7 * _HOUR,
        ),
    )


def _sliced(now: float) -> Gpu:
    tenant = _process(31007, "erin", 9 * GIB, now - 2 * _HOUR, "python serve.py --port 8000")
    slices = tuple(
        Instance(
            uuid=f"MIG-00000000-0000-0000-0000-0000000007{number:02d}",
            gpu_instance_id=number + 1,
            compute_instance_id=0,
            profile="3g.40gb",
            memory_used_bytes=9 * GIB + 200 * MIB if number == 0 else 40 * MIB,
            memory_total_bytes=40 * GIB,
            processes=(tenant,) if number == 0 else (),
        )
        for number in range(2)
    )
    whole = _gpu(7, used=9 * GIB + 300 * MIB, busy=None, watts=240, on=(tenant,))
    return _with_slices(whole, slices)


def _with_slices(gpu: Gpu, slices: tuple[Instance, ...]) -> Gpu:
    from msgspec.structs import replace

    return replace(gpu, mig_mode=True, instances=slices, memory_busy_percent=None)


def _gpu(
    index: int, *, used: int, busy: int | None, watts: float, on: tuple[Process, ...] = ()
) -> Gpu:
    works = bool(busy)
    return Gpu(
        uuid=_uuid(index),
        index=index,
        vendor="nvidia",
        name="NVIDIA H100 80GB HBM3",
        pci_bus_id=f"00000000:{0x1B + 0x18 * index:02X}:00.0",
        memory_used_bytes=used,
        memory_total_bytes=_TOTAL,
        busy_percent=busy,
        memory_busy_percent=busy // 2 if busy is not None else None,
        temperature_celsius=32 + watts // 18,
        power_watts=watts,
        power_limit_watts=700.0,
        sm_clock_mhz=1980 if works else 345,
        sm_clock_max_mhz=1980,
        memory_clock_mhz=2619,
        memory_clock_max_mhz=2619,
        performance_state="P0",
        throttle_reasons=() if works else ("gpu_idle",),
        ecc_corrected=0,
        ecc_uncorrected=0,
        pcie_generation=5,
        pcie_generation_max=5,
        pcie_width=16,
        pcie_width_max=16,
        persistence=True,
        compute_mode="default",
        mig_mode=False,
        processes=on,
    )


def _process(pid: int, user: str, memory: int, started_at: float, command: str) -> Process:
    return Process(
        pid=pid,
        kind="compute",
        gpu_memory_bytes=memory,
        user=user,
        uid=1000 + sum(map(ord, user)) % 100,
        name=command.split(maxsplit=1)[0],
        command=command,
        started_at=started_at,
        cpu_percent=99.0,
        host_memory_bytes=6 * GIB,
    )


def _uuid(index: int) -> str:
    return f"GPU-00000000-0000-0000-0000-00000000000{index}"
