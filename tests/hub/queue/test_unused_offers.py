"""Unused offers: counted by person and by vouching node, and forgiven in time."""

from msgspec.structs import replace

from fleet_smi.hub.queue.unused_offers import UnusedOffers
from fleet_smi.model.queue.entries import QueueEntry
from tests.model.queue.entries import entry, offer


class _Clock:
    seconds = 1000.0

    def __call__(self) -> float:
        return self.seconds


def _keep(unused: UnusedOffers, clock: _Clock, one: QueueEntry, seconds: float) -> None:
    """Let somebody have an offer for some time, without using it."""
    unused.observe([replace(one, offer=offer("GPU-0"))])
    clock.seconds += seconds
    unused.observe([])


def test_who_keeps_gpus_from_others_is_late_until_that_is_forgiven() -> None:
    clock = _Clock()
    unused, eve, bob = UnusedOffers(clock), entry(1, "eve"), entry(2, "bob")
    for number in range(3):
        _keep(unused, clock, entry(10 + number, "eve"), 40)
        assert unused.late_requests([eve, bob]) == frozenset()
    _keep(unused, clock, entry(20, "eve"), 40)
    assert unused.late_requests([eve, bob]) == {eve.id}
    clock.seconds += 3600
    assert unused.late_requests([eve, bob]) == frozenset()


def test_an_offer_that_is_excused_or_still_open_counts_for_nothing() -> None:
    clock = _Clock()
    unused, eve = UnusedOffers(clock), entry(1, "eve", offer=offer("GPU-0"))
    unused.observe([eve])
    clock.seconds += 1000
    unused.observe([replace(eve, taken_at=1.0)])
    assert unused.late_requests([eve]) == frozenset()
    unused.observe([], excused=[eve.id])
    assert unused.late_requests([eve]) == frozenset()
    unused.observe([eve])
    clock.seconds += 1000
    unused.forget_open()
    unused.observe([])
    assert unused.late_requests([eve]) == frozenset()


def test_a_node_that_makes_up_a_person_for_each_request_is_late_as_a_whole() -> None:
    clock = _Clock()
    unused = UnusedOffers(clock)
    for number in range(40):
        _keep(unused, clock, entry(number, f"invented{number}", via="bad"), 60)
    waiting = [
        entry(100, "new", via="bad"),
        entry(101, "alice", via="good"),
        entry(102, "invented1"),
    ]
    assert unused.late_requests(waiting) == {waiting[0].id}


def test_one_hostile_user_does_not_make_the_others_of_the_node_late() -> None:
    clock = _Clock()
    unused = UnusedOffers(clock)
    for number in range(200):
        _keep(unused, clock, entry(number, "mallory", via="gpu01"), 60)
    bob, mallory = entry(900, "bob", via="gpu01"), entry(901, "mallory", via="gpu01")
    assert unused.late_requests([bob, mallory]) == {mallory.id}
