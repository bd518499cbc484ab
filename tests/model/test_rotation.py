"""Round-robin work on a fleet: nobody is forgotten, and no step takes all of a large fleet."""

from fleet_smi.model.rotation import PeriodicTimer, Rotation, WorkQueue


def test_all_of_a_small_fleet_are_checked_each_time() -> None:
    rotation = Rotation[int](10)
    members = {str(number): number for number in range(100)}
    assert rotation.next(members) == rotation.next(members) == list(range(100))
    assert rotation.next({}) == []


def test_a_large_fleet_is_checked_in_parts_that_are_all_of_it() -> None:
    rotation = Rotation[int](10)
    members = {str(number): number for number in range(9_999)}
    parts = [rotation.next(members) for _ in range(10)]
    assert [number for part in parts for number in part] == list(range(9_999))
    assert max(map(len, parts)) == 1_000
    assert rotation.next(members) == parts[0]


def test_queued_work_is_done_a_few_at_a_time_and_each_once() -> None:
    queue = WorkQueue[str](2)
    queue.add(["a", "b", "c"])
    queue.add(["c", "d", "a"])
    assert [queue.take(), queue.take(), queue.take()] == [["a", "b"], ["c", "d"], []]


def test_a_timer_is_due_once_per_period_and_after_the_clock_was_set_back() -> None:
    timer = PeriodicTimer(2.0)
    times = [100.0, 101.9, 102.0, 103.0, 50.0, 51.0, 52.0]
    assert [timer.is_due(at) for at in times] == [True, False, True, False, True, False, True]
