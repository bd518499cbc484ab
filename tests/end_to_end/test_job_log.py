"""The check of the queue's order itself: what was certain is a violation, what was not is none."""

from tests.end_to_end.job_log import (
    Delays,
    FleetLook,
    JobRun,
    Offer,
    OrderCheck,
    Request,
    measure_delays,
)

GPUS = {"gpu1": ["GPU-gpu1-0"]}
ENDED = JobRun("first", "alice", "gpu1", ("GPU-gpu1-0",), began=1.0, ended=10.0)


def violations(*, heard_after: float, offered_at: float, tries: int = 0) -> list[str]:
    """Alice's job has ended, and bob is given the GPU before her second one, which came first."""
    requests = [
        Request("first", "alice", 1, 0.0),
        Request("second", "alice", 1, 2.0, 99.0),
        Request("third", "bob", 1, 3.0, offered_at),
    ]
    offers = [
        Offer("first", "gpu1", ("GPU-gpu1-0",), 0.5),
        Offer("third", "gpu1", ("GPU-gpu1-0",), offered_at),
    ]
    looks = [
        FleetLook(10.5, {"GPU-gpu1-0": frozenset({"alice"})}, frozenset()),
        FleetLook(10.0 + heard_after, {"GPU-gpu1-0": frozenset()}, frozenset()),
    ]
    delays = measure_delays(looks, [ENDED])
    return OrderCheck(requests, offers, [ENDED], GPUS, None, delays, {"second": tries}).violations


def test_it_counts_only_where_the_hub_had_heard_that_the_job_before_had_ended() -> None:
    assert violations(heard_after=1.0, offered_at=12.0) == []
    assert len(violations(heard_after=1.0, offered_at=13.5)) == 1
    # On a busy machine it hears of it later.
    assert violations(heard_after=6.0, offered_at=13.5) == []
    assert len(violations(heard_after=6.0, offered_at=17.0)) == 1


def test_one_that_tried_a_node_without_an_offer_that_was_seen_says_nothing() -> None:
    assert violations(heard_after=1.0, offered_at=13.5, tries=1) == []


def test_after_a_restart_the_hub_is_given_until_all_nodes_have_reported() -> None:
    looks = [FleetLook(12.0, {}, frozenset({"gpu1"})), FleetLook(40.0, {}, frozenset(GPUS))]
    assert measure_delays(looks, [], GPUS, 11.0) == Delays(return_seconds=10.0)
    assert measure_delays(looks[1:], [], GPUS, 11.0) == Delays(return_seconds=29.0)
