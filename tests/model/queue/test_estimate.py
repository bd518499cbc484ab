"""The estimate: jobs end as they used to, unknown is unknown, and its chances come true."""

from hypothesis import given
from hypothesis import strategies as st

from bench.estimate_calibration import calibrate
from fleet_smi.model.queue.estimate import (
    UNKNOWN,
    NodeOutlook,
    PastJobs,
    RunningJob,
    Upcoming,
    chance_of_at_least,
    estimate,
)
from tests.builders import HOUR, NOON

REGULAR = PastJobs([("alice", hours * HOUR) for hours in (4, 4.5, 5, 5, 5, 5.5, 6, 6, 6.5, 7)])


def job(
    hours: float = 1.0, gpus: int = 4, declared: float | None = None, person: str = "alice"
) -> RunningJob:
    left = None if declared is None else declared * HOUR
    return RunningJob(person, gpus, hours * HOUR, left)


def test_a_job_ends_as_those_before_it_did() -> None:
    found = estimate(4, 0, [NodeOutlook(0, [job(hours=1)])], REGULAR, NOON)
    assert found.by is not None
    assert 4.5 <= (found.by - NOON) / HOUR <= 5.0
    assert found.of_ten in (7, 8)
    assert found.not_before is not None
    assert NOON + 2 * HOUR <= found.not_before < found.by


def test_with_every_hour_that_it_runs_longer_the_estimate_moves() -> None:
    at_start = estimate(1, 0, [NodeOutlook(0, [job(hours=0, gpus=1)])], REGULAR, NOON)
    assert at_start.by is not None
    assert at_start.by > NOON + 5 * HOUR
    after_all = estimate(1, 0, [NodeOutlook(0, [job(hours=20, gpus=1)])], REGULAR, NOON)
    assert after_all.by is None


def test_a_declared_end_counts_where_the_past_says_nothing() -> None:
    found = estimate(1, 0, [NodeOutlook(0, [job(declared=2.0, person="new")])], PastJobs([]), NOON)
    assert found.by == NOON + 2 * HOUR
    assert found.of_ten == 8
    overdue = estimate(
        1, 0, [NodeOutlook(0, [job(declared=-1.0, person="new")])], PastJobs([]), NOON
    )
    assert (overdue.by, overdue.of_ten) == (None, None)


def test_without_a_past_it_is_unknown() -> None:
    assert estimate(1, 0, [NodeOutlook(0, [job()])], PastJobs([]), NOON).by is None
    assert estimate(1, 0, [], REGULAR, NOON) == UNKNOWN
    assert estimate(9, 0, [NodeOutlook(0, [job()])], REGULAR, NOON) == UNKNOWN


def test_who_stands_behind_others_waits_longer() -> None:
    nodes = [NodeOutlook(0, [job(hours=hours, gpus=2)]) for hours in (0, 1, 2, 3)]
    first = estimate(2, 0, nodes, REGULAR, NOON)
    second = estimate(2, 4, nodes, REGULAR, NOON)
    assert first.by is not None
    assert second.by is not None
    assert first.by < second.by
    assert estimate(2, 100, nodes, REGULAR, NOON).by is None


@given(st.lists(st.tuples(st.integers(1, 4), st.floats(0, 1)), max_size=8), st.integers(-1, 12))
def test_a_chance_is_a_chance_and_more_jobs_make_it_larger(
    jobs: list[tuple[int, float]], needed: int
) -> None:
    chance = chance_of_at_least(needed, jobs)
    assert 0.0 <= chance <= 1.0
    assert chance_of_at_least(needed, [*jobs, (1, 0.5)]) >= chance - 1e-9
    assert chance_of_at_least(needed + 1, jobs) <= chance + 1e-9


def test_chances_are_exact() -> None:
    assert chance_of_at_least(2, [(1, 0.5), (1, 0.5)]) == 0.25
    assert chance_of_at_least(1, [(1, 0.5), (1, 0.5)]) == 0.75
    assert chance_of_at_least(2, [(2, 0.5), (1, 0.9)]) == 0.5


def test_over_a_simulated_month_what_is_said_comes_true_as_often_as_said() -> None:
    found = calibrate(every_hours=4.0)
    asked = sum(found.said.values()) + found.unknown
    assert asked > 100
    assert found.unknown < asked // 2
    for of_ten, times in found.said.items():
        if times >= 50:
            # A chance is rounded down: "7 of 10" is between 0.7 and 0.8.
            assert of_ten / 10 - 0.1 <= found.share(of_ten) <= of_ten / 10 + 0.2, of_ten


def test_what_is_booked_later_is_not_there_then() -> None:
    ends_in = 2 * HOUR
    jobs = [RunningJob("alice", 1, 0.0, declared_seconds=ends_in)]
    plain = estimate(1, 0, [NodeOutlook(0, jobs)], PastJobs(()), NOON)
    assert plain.by == NOON + ends_in
    booking = Upcoming(HOUR, 9 * HOUR, 1)
    booked = estimate(1, 0, [NodeOutlook(0, jobs, [booking])], PastJobs(()), NOON)
    assert booked.by is not None
    assert booked.by >= NOON + 9 * HOUR
