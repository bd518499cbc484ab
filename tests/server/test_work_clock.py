"""Work time of reports: elapsed time, as far as the thread has used CPU time."""

import pytest

from fleet_smi.server.work_clock import WorkClock


class Clocks:
    """Two clocks that are set by hand."""

    elapsed = 100.0
    cpu = 7.0


@pytest.mark.parametrize(
    "elapsed, cpu, expected",
    [(0.5, 0.5, 0.5), (3.0, 0.002, 0.002), (0.0005, 0.0, 0.0005), (0.2, 0.4, 0.2)],
    ids=["busy", "preempted", "too short to doubt", "with other work"],
)
def test_work_takes_no_longer_than_elapsed_or_cpu_time(
    elapsed: float, cpu: float, expected: float
) -> None:
    clocks = Clocks()
    clock = WorkClock(lambda: clocks.elapsed, lambda: clocks.cpu)
    started = clock.start()
    clocks.elapsed += elapsed
    clocks.cpu += cpu
    assert clock.seconds_since(started) == pytest.approx(expected)


def test_one_long_report_is_not_charged_for_the_work_of_those_before() -> None:
    clocks = Clocks()
    clock = WorkClock(lambda: clocks.elapsed, lambda: clocks.cpu)
    for _ in range(100):
        clock.start()
        clocks.cpu += 1.0
    started = clock.start()
    clocks.elapsed += 1000.0
    clocks.cpu += 1.0
    assert clock.seconds_since(started) <= 17.0
