"""The plan of the queue: its order, who may pass whom, and that nothing is given twice."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fleet_smi.model.queue.entries import QueueEntry
from fleet_smi.model.queue.places import Place
from fleet_smi.model.queue.plan import Decision, order_key
from fleet_smi.model.queue.reasons import describe_offer, describe_wait
from tests.builders import NOON
from tests.model.queue.entries import entry, granted, offer, place, plan


def order(decisions: list[Decision]) -> list[str]:
    return [each.entry.id for each in decisions]


def why(decisions: list[Decision]) -> list[str]:
    return [describe_wait(each) for each in decisions if not each.uuids]


def test_an_empty_queue_has_an_empty_plan() -> None:
    assert plan([], [place("gpu01", 4)]) == []
    assert plan([], []) == []


def test_the_order_is_band_then_use_then_arrival() -> None:
    entries = [
        entry(1, "alice"),
        entry(2, "bob"),
        entry(3, "carol"),
        entry(4, "dave", band="high"),
        entry(5, "erin", band="low"),
    ]
    use = {"alice": 40.0, "bob": 2.6, "carol": 2.2, "dave": 500.0}
    assert order(plan(entries, [place("gpu01", 0, 4)], use)) == [
        *("0004", "0002", "0003", "0001", "0005")
    ]


def test_why_each_waits_is_said() -> None:
    entries = [
        entry(1, "alice", 4),
        entry(2, "bob", 4),
        entry(3, "carol", 4),
        entry(4, "carol", 4),
        entry(5, "dave", 4, band="low"),
        entry(6, "zoe", 16),
    ]
    decisions = plan(entries, [place("gpu03", 2, 4)], {"bob": 18.0, "carol": 212.0, "zoe": 300.0})
    assert why(decisions) == [
        "2 of 4 free on gpu03",
        "behind alice: fewer GPU-hours this week (0 to 18); 2 kept for alice on gpu03",
        "behind bob: fewer GPU-hours this week (18 to 212); 2 kept for alice on gpu03",
        "behind an earlier request of the same person; 2 kept for alice on gpu03",
        (
            "behind carol: fewer GPU-hours this week (212 to 300); "
            "no node that reports now has 16 such GPUs"
        ),
        "behind zoe: higher priority; 2 kept for alice on gpu03",
    ]
    early = plan([entry(1, "alice", 2), entry(2, "bob", 2)], [place("gpu03", 0, 4)])
    assert why(early) == ["none free", "behind alice: asked earlier; none free"]


def test_a_small_request_passes_the_first_where_that_is_not_delayed() -> None:
    large, small = entry(1, "alice", 4), entry(2, "bob", 1)
    decisions = plan([large, small], [place("gpu01", 3, 4), place("gpu02", 1, 4)])
    assert granted(decisions) == {"0002": ("gpu02:0",)}
    assert granted(plan([large, small], [place("gpu01", 3, 4)])) == {}


def test_ones_own_small_request_passes_ones_own_large_one() -> None:
    decisions = plan([entry(1, "alice", 4), entry(2, "alice", 1)], [place("gpu01", 3, 4)])
    assert list(granted(decisions)) == ["0002"]
    behind = [entry(1, "bob", 4), entry(2, "alice", 4), entry(3, "alice", 1)]
    assert granted(plan(behind, [place("gpu01", 3, 4)])) == {}


def test_a_declared_short_job_passes_where_the_first_cannot_begin_before_its_end() -> None:
    entries = [entry(1, "alice", 4), entry(2, "bob", 1, max_hours=2.0)]
    places, now = [place("gpu01", 3, 4)], NOON + 3600
    assert granted(plan(entries, places, find_start=lambda _: now + 3 * 3600))
    assert not granted(plan(entries, places, find_start=lambda _: now + 3600))
    assert not granted(plan(entries, places, find_start=lambda _: None))


def test_requests_for_other_gpus_stand_in_another_line() -> None:
    entries = [entry(1, "alice", 4, model="A100"), entry(2, "bob", 4, model="H100")]
    entries.append(entry(3, "carol", 1, model="H100"))
    nodes = {"A100": [place("a1", 3, 4)], "H100": [place("h1", 3, 4)]}

    def find(waiting: QueueEntry) -> list[Place]:
        return nodes[waiting.request.model or ""]

    from fleet_smi.model.queue.plan import plan_queue

    decisions = plan_queue(entries, {}, find, NOON)
    assert granted(decisions) == {}
    assert [each.behind and each.behind.person for each in decisions] == [None, None, "bob"]


def test_what_is_offered_is_not_offered_again_but_to_a_job_of_the_same_person() -> None:
    waits = entry(1, "alice", 1, kind="wait", offer=offer("gpu01:0"))
    assert granted(plan([waits, entry(2, "bob", kind="run")], [place("gpu01", 1)])) == {}
    assert granted(plan([waits, entry(2, "alice", kind="run")], [place("gpu01", 1)])) == {
        "0002": ("gpu01:0",)
    }
    runs = entry(1, "alice", 1, kind="run", offer=offer("gpu01:0"))
    assert granted(plan([runs, entry(2, "alice", kind="run")], [place("gpu01", 1)])) == {}
    assert describe_offer(waits, NOON + 10) == "offered gpu01:0: 20 s left to take it"


def test_a_request_whose_offer_lapsed_waits_a_moment_and_keeps_nothing_meanwhile() -> None:
    lapsed = entry(1, "alice", 1, lapses=1, not_before=NOON + 3630)
    decisions = plan([lapsed, entry(2, "bob")], [place("gpu01", 1)])
    assert list(granted(decisions)) == ["0002"]
    assert "offered once and not taken up" in why(decisions)[0]


def test_free_gpus_are_divided_among_people_in_one_moment() -> None:
    entries = [entry(number, "alice") for number in range(6)]
    entries += [entry(10 + number, "bob") for number in range(6)]
    given = [each.entry.person for each in plan(entries, [place("gpu01", 6)]) if each.uuids]
    assert sorted(given) == ["alice"] * 3 + ["bob"] * 3


def test_small_requests_fill_the_fullest_node_first() -> None:
    places = [place("gpu01", 4), place("gpu02", 1, 4), place("gpu03", 2, 4)]
    assert granted(plan([entry(1)], places)) == {"0001": ("gpu02:0",)}


def test_ten_thousand_requests_are_planned_and_each_is_told_why() -> None:
    entries = [entry(number, f"person{number % 997}", 1 + number % 8) for number in range(10_000)]
    places = [place(f"gpu{number:03d}", number % 9, 8) for number in range(200)]
    decisions = plan(entries, places)
    assert len(decisions) == 10_000
    taken = [uuid for uuids in granted(decisions).values() for uuid in uuids]
    assert len(taken) == len(set(taken))
    assert all(describe_wait(each) for each in decisions if not each.uuids)


PEOPLE = st.sampled_from(["alice", "bob", "carol", "../../etc/passwd"])


@st.composite
def queues(draw: st.DrawFn) -> tuple[list[QueueEntry], list[Place], dict[str, float]]:
    """A queue of any people, before nodes of up to 8 GPUs."""
    size = draw(st.integers(0, 12))
    entries = []
    for number in range(size):
        fields: dict[str, Any] = {"band": draw(st.sampled_from(["high", "normal", "low"]))}
        if draw(st.booleans()):
            fields["max_hours"] = draw(st.floats(0.1, 100))
        entries.append(entry(number, draw(PEOPLE), draw(st.integers(1, 9)), **fields))
    places = []
    for number in range(draw(st.integers(0, 4))):
        total = draw(st.integers(1, 8))
        places.append(place(f"gpu{number}", draw(st.integers(0, total)), total))
    use = draw(st.dictionaries(PEOPLE, st.floats(0, 1e6)))
    return entries, places, use


@given(queues())
def test_nothing_is_given_twice_and_all_gpus_of_a_request_are_on_one_node(
    queue: tuple[list[QueueEntry], list[Place], dict[str, float]],
) -> None:
    entries, places, use = queue
    decisions = plan(entries, places, use)
    assert sorted(order(decisions)) == sorted(each.id for each in entries)
    taken = [uuid for each in decisions for uuid in each.uuids]
    assert len(taken) == len(set(taken))
    for each in decisions:
        if each.uuids:
            assert each.place is not None
            assert len(each.uuids) == each.entry.request.count
            assert set(each.uuids) <= set(each.place.free)


@given(queues())
def test_who_comes_first_in_the_order_is_never_passed_at_their_cost(
    queue: tuple[list[QueueEntry], list[Place], dict[str, float]],
) -> None:
    entries, places, use = queue
    waiting = sorted(entries, key=lambda each: order_key(each, use.get(each.person, 0.0)))
    if not waiting:
        return
    first, alone = waiting[0], plan(waiting[:1], places, use)
    # Without an estimate of when it could begin, the others change nothing for the first one.
    with_others = plan(entries, places, use)
    assert with_others[0].entry == first
    assert with_others[0].uuids == alone[0].uuids
    if first.request.count <= max((each.total for each in places), default=0):
        kept = alone[0].place
        assert kept is not None
        lost = {
            uuid
            for each in with_others[1:]
            if each.entry.person != first.person
            for uuid in each.uuids
        }
        if not alone[0].uuids:
            assert not lost & set(kept.free)


@given(queues())
def test_a_request_that_fits_beside_all_others_is_never_left_waiting(
    queue: tuple[list[QueueEntry], list[Place], dict[str, float]],
) -> None:
    entries, places, use = queue
    wanted = sum(each.request.count for each in entries)
    roomy = [*places, place("big", wanted + 16)]
    assert len(granted(plan(entries, roomy, use))) == len(entries)


@pytest.mark.parametrize("now", [NOON - 86_400, NOON])
def test_a_clock_that_was_set_back_changes_no_order(now: float) -> None:
    from fleet_smi.model.queue.plan import plan_queue

    entries = [entry(1, "alice"), entry(2, "bob")]
    decisions = plan_queue(entries, {}, lambda _: [place("gpu01", 1)], now)
    assert list(granted(decisions)) == ["0001"]
