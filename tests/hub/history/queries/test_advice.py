"""Advice on jobs that could have used less, and jobs without advice."""

import pytest
from msgspec.structs import replace

from fleet_smi.hub.history.queries.jobs import group_jobs
from fleet_smi.model.history import GpuOccupancies, GpuOfNode, Occupancy
from tests.hub.history.occupancies import gpu, gpu_occupancies, occupancy


def said(*found: GpuOccupancies) -> tuple[str, ...]:
    (job,) = group_jobs(found)
    return job.advice


def held(*loads: float | None, hours: float = 9.0) -> tuple[str, ...]:
    return said(
        *(
            gpu_occupancies(gpu(at), occupancy(hours=hours, load=load))
            for at, load in enumerate(loads)
        )
    )


def test_gpus_that_were_never_used_are_counted() -> None:
    assert held(0.93, 0.0, 0.0, 0.001) == ("held 4 GPUs, used 1",)


@pytest.mark.parametrize(
    "loads",
    [(0.9, 0.9), (0.9, 0.02), (0.9, None), (0.9,), (None,)],
    ids=["all used", "hardly used", "not measured", "one", "one not measured"],
)
def test_no_advice_is_given_on_uncertain_loads(loads: tuple[float | None, ...]) -> None:
    assert held(*loads) == ()


def test_an_unused_job_gets_one_sentence() -> None:
    assert held(0.0) == ("never used the GPU",)
    assert held(0.0, 0.004) == ("never used its 2 GPUs",)


def test_an_unused_job_was_idle_all_the_time() -> None:
    unused = occupancy(hours=9.0, idle=8.8, load=0.0)
    (job,) = group_jobs([gpu_occupancies(gpu(0), unused)])
    assert job.sums.idle_seconds == job.sums.gpu_seconds == 9 * 3600
    (used,) = group_jobs([gpu_occupancies(gpu(0), occupancy(hours=9.0, idle=2.0, load=0.3))])
    assert used.sums.idle_seconds == 2 * 3600


def test_a_short_job_gets_no_advice() -> None:
    assert held(0.0, hours=0.4) == ()


@pytest.mark.parametrize(
    "hours, idle, expected",
    [
        (9.0, 7.2, ("idle for 7 h 12 of 9 h",)),
        (9.0, 2.0, ()),
        (2.0, 0.9, ()),
        (1.5, 1.0, ("idle for 1 h of 1 h 30",)),
        (4.5, 4.49, ("idle all of its 4 h 30",)),
    ],
)
def test_many_idle_hours_are_reported(hours: float, idle: float, expected: tuple[str, ...]) -> None:
    assert said(gpu_occupancies(gpu(0), occupancy(hours=hours, idle=idle, load=0.2))) == expected


def test_idle_hours_of_several_gpus_are_added() -> None:
    found = [gpu_occupancies(gpu(at), occupancy(hours=9, idle=7, load=0.2)) for at in range(4)]
    assert said(*found) == ("idle for 28 of 36 GPU-hours",)


def test_an_unused_gpu_is_not_reported_as_idle_too() -> None:
    used = gpu_occupancies(gpu(0), occupancy(hours=9, load=0.9))
    unused = gpu_occupancies(gpu(1), occupancy(hours=9, load=0.0, idle=8.9))
    assert said(used, unused) == ("held 2 GPUs, used 1",)


def test_a_small_job_on_a_large_gpu_is_advised_a_smaller_one() -> None:
    small = occupancy(peak_gib=8.6, load=0.3)
    assert said(gpu_occupancies(gpu(0), small)) == (
        "used at most 9 of 80 GiB: a smaller GPU would do",
    )


@pytest.mark.parametrize(
    "where, had",
    [
        (gpu(0), occupancy(peak_gib=8.6, load=0.95)),
        (gpu(0), occupancy(peak_gib=30, load=0.3)),
        (gpu(0), occupancy(peak_gib=None, load=0.3)),
        (gpu(0), occupancy(peak_gib=8.6, load=None)),
        (gpu(0, gib=None), occupancy(peak_gib=1, load=0.3)),
        (gpu(0, gib=8), occupancy(peak_gib=1, load=0.3)),
        (replace(gpu(0), parent="GPU-1"), occupancy(peak_gib=1, load=0.3)),
    ],
    ids=["needs its speed", "needs its memory", "memory unknown", "load unknown", "size unknown",
         "small already", "a slice"],
)  # fmt: skip
def test_a_smaller_gpu_is_advised_only_where_it_suffices(where: GpuOfNode, had: Occupancy) -> None:
    assert said(gpu_occupancies(where, had)) == ()


def test_processes_on_one_gpu_need_their_memory_together() -> None:
    workers = [occupancy(peak_gib=15, load=0.3, pid=pid) for pid in range(2)]
    assert said(gpu_occupancies(gpu(0), *workers)) == ()
