"""The cost of one report: a hub of 2,000 nodes applies as many of them per second."""

from fleet_smi.fleet.fleet import FleetState
from fleet_smi.model.snapshot import Gpu, Process, Snapshot
from fleet_smi.model.units import GIB
from tests.call_count import count_calls

_GPUS = 8
# 3 with one process at work, and about 32 for the report: it is the long functions that cost.
_MAX_CALLS_PER_GPU = 9


def test_a_report_in_which_nothing_changed_makes_few_calls_per_gpu() -> None:
    fleet = FleetState()
    for number in range(1, 10):
        fleet.apply(_snapshot(number), float(number))

    latest = _snapshot(10)
    calls = count_calls(lambda: fleet.apply(latest, 10.0))

    assert calls / _GPUS <= _MAX_CALLS_PER_GPU


def _snapshot(number: int) -> Snapshot:
    gpus = tuple([_gpu(index, 80.0 + number % 7) for index in range(_GPUS)])
    return Snapshot(
        node_id="a", name="a", taken_at=float(number), run_id="r", sequence=number, gpus=gpus
    )


def _gpu(index: int, busy_percent: float) -> Gpu:
    process = Process(
        pid=100 + index, kind="compute", user="alice", name="python", gpu_memory_bytes=60 * GIB
    )
    return Gpu(
        uuid=f"GPU-{index}",
        index=index,
        vendor="nvidia",
        memory_used_bytes=61 * GIB,
        memory_total_bytes=80 * GIB,
        busy_percent=busy_percent,
        power_watts=512.0,
        power_limit_watts=700.0,
        throttle_reasons=("sw_power_cap",),
        compute_mode="default",
        mig_mode=False,
        processes=(process,),
    )
