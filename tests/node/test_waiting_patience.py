"""Who waits and never takes what is free for them keeps nobody out for long."""

from fleet_smi.node.bindings.lease_queue import Waiter
from fleet_smi.node.waiting_patience import READY_SECONDS, SAVING_SECONDS, WaitingPatience

ONE, TWO = frozenset({"GPU-1"}), frozenset({"GPU-1", "GPU-2"})


class _Clock:
    now = 1000.0

    def __call__(self) -> float:
        return self.now


def _waiter(user: str, wanted: int = 1, uuids: frozenset[str] | None = TWO) -> Waiter:
    return Waiter(user, 1, wanted, uuids)


def test_whoever_does_not_take_what_is_free_is_passed_by_the_next_one_not_at_once() -> None:
    clock = _Clock()
    patience = WaitingPatience(clock)
    hostile, honest = _waiter("mallory"), _waiter("bob")
    assert patience.still_ahead([hostile, honest], ONE) == [hostile, honest]
    clock.now += READY_SECONDS - 1
    assert patience.still_ahead([hostile, honest], ONE) == [hostile, honest]
    # A place of the same user, made anew, is no other.
    again = _waiter("mallory", uuids=None)
    clock.now += 2
    assert patience.still_ahead([again, honest], ONE) == [honest]
    clock.now += READY_SECONDS - 1
    assert patience.still_ahead([again, honest], ONE) == [honest]


def test_who_takes_a_gpu_when_one_is_free_keeps_their_place() -> None:
    clock = _Clock()
    patience = WaitingPatience(clock)
    first, second = _waiter("alice"), _waiter("alice")
    for _ in range(10):
        assert patience.still_ahead([first, second], ONE) == [first, second]
        clock.now += 5
        assert patience.still_ahead([second], frozenset()) == [second]  # taken
        clock.now += 600


def test_a_large_request_saves_gpus_for_an_hour_and_no_longer() -> None:
    clock = _Clock()
    patience = WaitingPatience(clock)
    large = _waiter("mallory", wanted=8, uuids=None)
    assert patience.still_ahead([large], ONE) == [large]
    clock.now += SAVING_SECONDS - 1
    assert patience.still_ahead([large], ONE) == [large]
    clock.now += 2
    assert patience.still_ahead([large], ONE) == []


def test_users_without_a_name_count_as_one() -> None:
    clock = _Clock()
    patience = WaitingPatience(clock)
    patience.still_ahead([_waiter("100000")], ONE)
    clock.now += READY_SECONDS + 1
    assert patience.still_ahead([_waiter("100001"), _waiter("100002")], ONE) == []
