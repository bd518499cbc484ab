"""Reservations: where they overlap, what would fit, which free GPUs they keep and for whom."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fleet_smi.errors import UsageError
from fleet_smi.fleet.fleet import FleetState
from fleet_smi.model.booked_gpus import apply_bookings, is_used_by
from fleet_smi.model.booking_rules import (
    MAX_OPEN_PER_NODE,
    MAX_OPEN_PER_PERSON,
    Change,
    apply_change,
    check_limits,
    check_reservation,
    end_reservation,
    is_to_be_released,
)
from fleet_smi.model.candidates import GpuRequest
from fleet_smi.model.queue.bookings import booking_entries
from fleet_smi.model.queue.places import Survey
from fleet_smi.model.queue.plan import plan_queue
from fleet_smi.model.reservation import (
    Reservation,
    check_booking,
    find_conflicts,
    find_overbooked,
)
from fleet_smi.model.select import choose_devices
from fleet_smi.model.snapshot import Gpu, Lease
from fleet_smi.model.views import NodeParts
from tests.builders import HOUR, MINUTE, NOON, gpu, instance, process, snapshot
from tests.model.queue.entries import entry

DAY = 24 * HOUR


def booking(
    owner: str = "maria", gpus: int = 4, start: float = 0.0, hours: float = 12, **fields: Any
) -> Reservation:
    """A booking of gpu01 that starts `start` seconds after noon."""
    starts_at = NOON + start
    values = {"id": f"{owner}-{start:.0f}", "node_id": "id-of-gpu01", "node": "gpu01"} | fields
    return Reservation(
        owner=owner, gpus=gpus, starts_at=starts_at, ends_at=starts_at + hours * HOUR, **values
    )


def parts(*gpus: Gpu) -> NodeParts:
    fleet = FleetState()
    fleet.apply(snapshot(*gpus), NOON)
    found = fleet.node_parts("id-of-gpu01", NOON)
    assert found is not None
    return found


def offered(node: NodeParts, person: str | None = None, count: int = 0) -> list[int]:
    choice = choose_devices([node], GpuRequest(count=count, person=person))
    return sorted(one.gpu.index for one in choice.offered)


def test_bookings_that_fit_beside_each_other_are_no_conflict() -> None:
    others = [booking("maria", 4), booking("omar", 4, start=12 * HOUR)]
    check = check_booking(4, NOON, NOON + DAY, others, 8)
    assert (check.conflicts, check.free_gpus, check.fits_at) == ((), 4, None)


def test_a_conflict_says_when_with_whom_and_what_would_fit() -> None:
    others = [booking("maria", 6, hours=2), booking("omar", 4, start=2 * HOUR, hours=2)]
    check = check_booking(4, NOON + HOUR, NOON + 5 * HOUR, others, 8)
    (conflict,) = check.conflicts
    assert (conflict.starts_at, conflict.ends_at) == (NOON + HOUR, NOON + 2 * HOUR)
    assert (conflict.booked, conflict.gpus, conflict.owners) == (6, 8, ("maria",))
    assert (check.free_gpus, check.fits_at) == (2, NOON + 2 * HOUR)


def test_touching_bookings_do_not_overlap_and_closed_ones_do_not_count() -> None:
    others = [
        booking(gpus=8, hours=1),
        booking(gpus=8, cancelled_at=NOON),
        booking(gpus=8, released_at=NOON),
    ]
    assert not find_conflicts(8, NOON + HOUR, NOON + 2 * HOUR, others, 8)


_bookings = st.lists(
    st.tuples(st.integers(0, 20), st.integers(1, 10), st.integers(1, 8)), max_size=8
)


@given(_bookings, st.integers(0, 20), st.integers(1, 10), st.integers(1, 8))
def test_conflicts_are_exactly_the_moments_that_are_overbooked(
    rows: list[tuple[int, int, int]], start: int, length: int, wanted: int
) -> None:
    others = [
        booking(f"p{at}", gpus, begin * HOUR, hours, id=f"b{at}")
        for at, (begin, hours, gpus) in enumerate(rows)
    ]
    begin, end = NOON + start * HOUR, NOON + (start + length) * HOUR
    conflicts = find_conflicts(wanted, begin, end, others, 8)
    for half_hour in range(2 * length):
        at = begin + half_hour * HOUR / 2
        booked = sum(other.gpus for other in others if other.starts_at <= at < other.ends_at)
        is_told = any(one.starts_at <= at < one.ends_at for one in conflicts)
        assert is_told == (booked + wanted > 8)
    check = check_booking(wanted, begin, end, others, 8)
    if check.conflicts:
        assert check.fits_at is not None
        length_seconds = end - begin
        assert not find_conflicts(wanted, check.fits_at, check.fits_at + length_seconds, others, 8)
    if check.free_gpus:
        assert not find_conflicts(check.free_gpus, begin, end, others, 8)


def test_what_is_overbooked_is_listed() -> None:
    both = [booking("maria", 6), booking("omar", 6, start=6 * HOUR)]
    (found,) = find_overbooked("id-of-gpu01", both, 8)
    assert (found.booked, found.starts_at, found.ends_at) == (
        12,
        NOON + 6 * HOUR,
        NOON + 12 * HOUR,
    )
    assert not find_overbooked("id-of-gpu01", both, 12)


def test_a_booking_keeps_the_last_free_gpus_for_its_owner() -> None:
    node = apply_bookings(parts(*[gpu(index) for index in range(8)]), [booking(gpus=4)], NOON)
    assert offered(node, "bob") == offered(node) == [0, 1, 2, 3]
    assert offered(node, "maria") == list(range(8))
    choice = choose_devices([node], GpuRequest(count=6, person="bob"), explain=True)
    assert {row.index for row in choice.refused} == {4, 5, 6, 7}
    assert "free, but booked by maria until" in choice.refused[0].words
    assert choice.unmet is not None
    assert "4 are booked by maria until" in choice.unmet


def test_gpus_on_which_the_owner_is_already_count_and_used_ones_are_only_noted() -> None:
    own, other = gpu(0, processes=(process(1, "maria"),)), process(2, "lucas")
    busy = [gpu(index, uuid=f"b{index}", processes=(other,)) for index in (2, 3)]
    node = apply_bookings(parts(own, gpu(1), *busy), [booking(gpus=3)], NOON)
    (shown,) = node.node.bookings
    assert (shown.kept, shown.missing, shown.in_the_way) == (("GPU-00000001",), 1, ("lucas",))
    notes = [[note.words for note in verdict.notes] for _, verdict in node.gpus]
    assert notes[0] == []
    assert "booked by maria" in notes[1][0]
    assert "maria has booked 3 GPUs here" in notes[2][0] and "1 in use by others" in notes[2][0]
    states = [verdict.state for _, verdict in node.gpus]
    assert states == ["busy", "free", "busy", "busy"]


def test_who_has_booked_too_is_not_in_the_way() -> None:
    busy = [
        gpu(index, uuid=f"b{index}", processes=(process(index, user),))
        for index, user in enumerate(("omar", "lucas"))
    ]
    bookings = [booking("omar", 1), booking("maria", 1, start=1)]
    node = apply_bookings(parts(*busy), bookings, NOON + 2)
    assert [shown.in_the_way for shown in node.node.bookings] == [(), ("lucas",)]


def test_two_bookings_of_one_person_keep_both() -> None:
    cards = [gpu(0, processes=(process(1, "maria"),)), gpu(1), gpu(2), gpu(3)]
    twice = [booking(gpus=1, id="a"), booking(gpus=2, id="b")]
    node = apply_bookings(parts(*cards), twice, NOON)
    assert offered(node, "bob") == [1]


def test_a_booking_to_come_is_shown_and_keeps_nothing() -> None:
    node = apply_bookings(parts(gpu(0)), [booking(gpus=1, start=2 * HOUR)], NOON)
    assert not node.node.bookings[0].is_active
    assert offered(node, "bob") == [0]
    far = apply_bookings(parts(gpu(0)), [booking(gpus=1, start=3 * DAY)], NOON)
    assert far.node.bookings == ()


def test_all_instances_of_a_kept_gpu_are_kept() -> None:
    mig = gpu(1, mig_mode=True, instances=(instance(1), instance(2)))
    node = apply_bookings(parts(gpu(0, processes=(process(),)), mig), [booking(gpus=1)], NOON)
    assert offered(node, "bob") == []
    assert offered(node, "maria") == [1, 1]


def test_a_lease_or_a_process_of_the_owner_is_use() -> None:
    leased = gpu(0, lease=Lease(holder="maria", taken_at=NOON))
    assert is_used_by(parts(leased), "maria")
    assert is_used_by(parts(gpu(0, processes=(process(1, "maria"),))), "maria")
    assert not is_used_by(parts(gpu(0), gpu(1, processes=(process(),))), "maria")


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"gpus": 9}, "gpu01 has 8 GPUs"),
        ({"gpus": 0}, "0 GPUs cannot be booked"),
        ({"hours": 0}, "ends after it starts"),
        ({"hours": 0.01}, "at least 5 min"),
        ({"hours": 24 * 29}, "at most 28 d"),
        ({"start": -2 * HOUR}, "start is in the past"),
        ({"start": 181 * DAY}, "180 d ahead"),
    ],
)
def test_nonsense_is_refused_in_one_line(fields: dict[str, Any], message: str) -> None:
    with pytest.raises(UsageError, match=message):
        check_reservation(booking(**fields), NOON, 8)


def test_a_person_has_a_limit_that_past_bookings_do_not_count_for() -> None:
    many = [booking(id=str(each)) for each in range(MAX_OPEN_PER_PERSON)]
    with pytest.raises(UsageError, match="cancel one first"):
        check_limits(booking(), many, NOON)
    check_limits(booking(owner="bob"), many, NOON)
    check_limits(booking(), many, NOON + 13 * HOUR)


def test_a_node_that_makes_people_up_cannot_fill_the_calendar() -> None:
    made = [
        booking(id=str(each), owner=f"invented{each}", via="bad")
        for each in range(MAX_OPEN_PER_NODE)
    ]
    with pytest.raises(UsageError, match="500 bookings were made from this node"):
        check_limits(booking(via="bad"), made, NOON)
    check_limits(booking(via="good"), made, NOON)
    check_limits(booking(), made, NOON)


def test_who_books_and_does_not_come_again_and_again_books_no_more_for_a_week() -> None:
    def ended(one: Reservation) -> Reservation:
        return end_reservation(one, NOON + 29 * MINUTE)

    released = [booking(id=f"r{each}", released_at=NOON + HOUR) for each in range(5)]
    left = [ended(booking(id=f"c{each}")) for each in range(5)]
    for known in (released + left, released * 2, left * 2):
        with pytest.raises(UsageError, match="10 bookings of maria were not used"):
            check_limits(booking(), known, NOON + HOUR)
        check_limits(booking(), known, NOON + HOUR, by_admin=True)
        check_limits(booking(owner="bob"), known, NOON + HOUR)
        check_limits(booking(), known, NOON + 8 * 24 * HOUR)
    used = [ended(booking(used_at=NOON + MINUTE))] * 20
    at_once = [end_reservation(booking(), NOON + MINUTE)] * 20
    check_limits(booking(), [*used, *at_once], NOON + HOUR)


def test_a_booking_that_nobody_uses_is_not_moved_on_and_on() -> None:
    later = Change(starts_at=NOON + 29 * MINUTE)
    with pytest.raises(UsageError, match="has begun: cancel it"):
        apply_change(booking(), later, NOON + 29 * MINUTE)
    assert apply_change(booking(), later, NOON + MINUTE).starts_at == NOON + 29 * MINUTE
    assert apply_change(booking(used_at=NOON + 1), later, NOON + 29 * MINUTE).used_at is None


def test_who_booked_first_has_the_gpus_and_not_who_forces_one_that_begins_first() -> None:
    first = booking("alice", 2, created_at=NOON - 2 * DAY)
    forced = booking("mallory", 2, start=-5 * MINUTE, created_at=NOON - DAY)
    now = NOON + MINUTE

    def kept(*both: Reservation) -> dict[str, int]:
        shown = apply_bookings(parts(gpu(0), gpu(1), gpu(2)), both, now).node.bookings
        return {one.owner: len(one.kept) for one in shown}

    assert kept(forced, first) == {"mallory": 1, "alice": 2}
    # Nor who made a small one early, and has it grow later.
    small = booking("mallory", 1, start=-5 * MINUTE, created_at=NOON - 9 * DAY)
    assert kept(small, first) == {"mallory": 1, "alice": 2}
    grown = apply_change(small, Change(gpus=3), NOON - DAY)
    assert kept(grown, first) == {"mallory": 1, "alice": 2}
    for same in (Change(note="x"), Change(gpus=1), Change(ends_at=NOON + HOUR)):
        assert apply_change(first, same, NOON - DAY).created_at == NOON - 2 * DAY


def test_a_change_counts_and_what_is_over_cannot_be_changed() -> None:
    one = booking(used_at=NOON)
    changed = apply_change(one, Change(note="a\nb\x1b[31m"), NOON + 1)
    assert (changed.sequence, changed.note, changed.used_at) == (1, "a b [31m", NOON)
    assert apply_change(one, Change(gpus=4), NOON) == one
    assert apply_change(one, Change(starts_at=NOON + HOUR), NOON).used_at is None
    with pytest.raises(UsageError, match="is over"):
        apply_change(one, Change(gpus=1), NOON + 13 * HOUR)


def test_cancelling_ends_what_has_begun() -> None:
    assert end_reservation(booking(), NOON + HOUR).ends_at == NOON + HOUR
    assert end_reservation(booking(start=HOUR), NOON).state(NOON) == "cancelled"
    with pytest.raises(UsageError, match="is over already"):
        end_reservation(booking(cancelled_at=NOON), NOON)


def test_only_what_was_watched_unused_for_half_an_hour_is_released() -> None:
    one, later = booking(), NOON + 31 * MINUTE
    assert is_to_be_released(one, later, 31 * MINUTE)
    assert not is_to_be_released(one, NOON + 29 * MINUTE, 31 * MINUTE)
    assert not is_to_be_released(one, later, 5 * MINUTE)  # the hub has just started
    assert not is_to_be_released(booking(used_at=NOON), later, 31 * MINUTE)
    assert not is_to_be_released(booking(hours=0.4), later, 31 * MINUTE)


def test_the_queue_offers_kept_gpus_to_their_owner_only() -> None:
    node = apply_bookings(parts(*[gpu(index) for index in range(4)]), [booking(gpus=3)], NOON)
    survey, bookings = Survey([node]), booking_entries([node], NOON)
    # Who has used nothing comes first, and still gets what is not booked.
    waiting = [entry(1, "bob", 2), entry(2, "bob", 1), entry(3, "maria", 3)]
    decisions = plan_queue(
        [*waiting, *bookings], {"maria": 9.0}, lambda each: survey.places(each.request), NOON
    )
    assert {each.entry.id: len(each.uuids) for each in decisions} == {
        "0001": 0,
        "0002": 1,
        "0003": 3,
    }
