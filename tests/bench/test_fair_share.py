"""The simulation of the queue: everybody gets their share, and who asks for little waits little."""

from bench.fair_share import PEOPLE, entitled_hours, make_jobs, results, run_policy
from bench.queue_simulation import fair_share, first_come
from tests.builders import HOUR


def test_fair_shares_divide_what_is_left_by_those_who_want_less() -> None:
    assert entitled_hours({"a": 10.0, "b": 100.0, "c": 200.0}, 110.0) == {
        "a": 10.0,
        "b": 50.0,
        "c": 50.0,
    }


def test_the_queue_gives_fair_shares_where_first_come_does_not() -> None:
    jobs = make_jobs()
    fair, plain = (results(run_policy(each, jobs), jobs) for each in (fair_share, first_come))
    shares = entitled_hours({who: fair[who].wanted_hours for who in PEOPLE}, 16 * 7 * 24.0)
    for person in PEOPLE:
        assert fair[person].got_hours >= 0.75 * shares[person], person
    assert fair["tests"].median_wait <= 2 * HOUR
    assert fair["tests"].median_wait < 0.2 * plain["tests"].median_wait
    used = [sum(found[who].got_hours for who in PEOPLE) for found in (fair, plain)]
    assert used[0] > 0.95 * used[1]
