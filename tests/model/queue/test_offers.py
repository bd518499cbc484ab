"""Offers: taken up, lapsed, or withdrawn with their node; and where requests could be met."""

from collections.abc import Mapping, Sequence
from typing import Any

import pytest
from msgspec.structs import replace

from fleet_smi.hub.queue.planning import Situation, expect_behind, plan_round
from fleet_smi.model.fleet import NodeView, Verdict
from fleet_smi.model.queue.bookings import booking_entries
from fleet_smi.model.queue.entries import QueueEntry, QueueRequest
from fleet_smi.model.queue.estimate import PastJobs
from fleet_smi.model.queue.limits import QueueLimits, refusal
from fleet_smi.model.queue.occupants import GpuOccupant, held_gpus, node_occupants
from fleet_smi.model.queue.offers import avoided_nodes, decline, is_paused, settle_offers
from fleet_smi.model.queue.places import Place, Survey
from fleet_smi.model.queue.plan import plan_queue
from fleet_smi.model.queue.reasons import describe_wait
from fleet_smi.model.reservation import NodeBooking
from fleet_smi.model.snapshot import Gpu, Lease
from fleet_smi.model.units import GIB
from fleet_smi.model.verdict.thresholds import DEFAULT_THRESHOLDS
from fleet_smi.model.views import NodeParts
from tests.builders import NOON, gpu, instance, process
from tests.model.queue.entries import entry, offer

FREE = Verdict(state="free", reason="", since=NOON)
BUSY = Verdict(state="busy", reason="", since=NOON)


def node(name: str, *gpus: Gpu, silent: bool = False, **labels: str) -> NodeParts:
    """A node; a GPU with processes or a lease is busy."""
    view = NodeView(
        node_id=name, name=name, taken_at=NOON, age_seconds=0.0, silent=silent, labels=labels
    )
    judged = [(one, BUSY if one.processes or one.lease else FREE) for one in gpus]
    verdicts = {part.uuid: FREE for one in gpus for part in one.instances}
    return NodeParts(node=view, gpus=tuple(judged), verdicts=verdicts)


def settle(
    waiting: QueueEntry,
    *nodes: NodeParts,
    occupants: Mapping[str, Mapping[str, GpuOccupant]] | None = None,
    **times: bool,
) -> QueueEntry | None:
    """Settle one request; `None` if it has ended."""
    settled = settle_offers(
        [waiting],
        Survey(nodes).rooms,
        occupants or {},
        lambda _: times.get("gone", False),
        lambda _: times.get("expired", False),
        NOON,
    )
    return settled.entries[0] if settled.entries else None


ROOM = node("gpu01", gpu(0))
OFFERED = entry(1, "alice", offer=offer("GPU-00000000"))


def test_an_offer_is_kept_until_its_time_is_over_and_then_goes_on() -> None:
    assert settle(OFFERED, ROOM) == OFFERED
    lapsed = settle(OFFERED, ROOM, expired=True)
    assert lapsed is not None
    assert (lapsed.offer, lapsed.lapses, lapsed.not_before) == (None, 1, NOON + 30)


def test_who_never_takes_up_an_offer_leaves_the_queue_but_a_running_command_tries_on() -> None:
    waits = entry(1, offer=offer("GPU-00000000"), lapses=2)
    assert settle(waits, ROOM, expired=True) is None
    runs = entry(1, kind="run", offer=offer("GPU-00000000"), lapses=20)
    again = settle(runs, ROOM, expired=True)
    assert again is not None
    assert again.not_before == NOON + 300
    bound = replace(runs, request=QueueRequest(kind="run", uuids=("GPU-00000000",)))
    assert decline(bound, NOON).not_before == NOON + 105


def test_a_request_whose_node_could_not_be_used_gets_another_one_at_once_in_its_place() -> None:
    nodes = (node("gpu01", gpu(0)), node("gpu02", gpu(1)))
    taken = entry(1, "alice", kind="run", offer=offer("GPU-00000000"), taken_at=NOON)
    again = decline(taken, NOON, unreachable=True)
    assert (again.arrived_at, again.taken_at, again.lapses) == (taken.arrived_at, None, 0)

    def planned(one: QueueEntry, now: float) -> str:
        situation = Situation(nodes, DEFAULT_THRESHOLDS, None, PastJobs(()), now)
        never = plan_round(
            [one, entry(2, "bob")], situation, {}, _never, _never, with_estimates=False
        )
        (decision,) = [each for each in never.decisions if each.entry.id == one.id]
        return describe_wait(decision) if decision.place is None else decision.place.node

    assert planned(again, NOON) == "gpu02"
    both = decline(replace(again, offer=offer("GPU-00000001", node="gpu02")), NOON)
    assert planned(both, NOON).startswith("no other node that reports now has such a GPU")
    # Somebody was faster there: that is over soon. One that ssh cannot reach is left out longer.
    assert planned(both, NOON + 60) == "gpu02"
    assert planned(both, NOON + 7200) == "gpu01"


def test_what_was_offered_counts_as_use_before_the_node_reports_it() -> None:
    nodes = (node("gpu01", gpu(0), gpu(1)),)
    has = entry(1, "alice", kind="run", offer=offer("GPU-00000000"), taken_at=NOON)
    situation = Situation(nodes, DEFAULT_THRESHOLDS, None, PastJobs(()), NOON)
    entries = [has, entry(2, "alice"), entry(3, "bob")]
    planned = plan_round(entries, situation, {}, _never, _never, with_estimates=False)
    assert [each.entry.person for each in planned.decisions] == ["bob", "alice"]


def _never(_: QueueEntry) -> bool:
    return False


def test_an_offer_of_a_node_that_vanished_is_withdrawn_and_the_request_waits_on() -> None:
    for nodes in ((), (node("gpu01", gpu(0), silent=True),)):
        after = settle(OFFERED, *nodes)
        assert after is not None
        assert (after.offer, after.lapses) == (None, 0)


def test_a_request_ends_when_its_person_is_on_the_gpu() -> None:
    taken = node("gpu01", gpu(0, lease=Lease(holder="alice", taken_at=NOON)))
    occupants = {"gpu01": node_occupants(taken, NOON)}
    assert settle(OFFERED, taken, occupants=occupants) is None
    runs = entry(1, "alice", kind="run", offer=offer("GPU-00000000"))
    still = settle(runs, taken, occupants=occupants)
    assert still is not None
    assert still.offer is None
    other = node("gpu01", gpu(0, processes=(process(user="bob"),)))
    after = settle(OFFERED, other, occupants={"gpu01": node_occupants(other, NOON)})
    assert after is not None
    assert after.offer is None


def test_a_request_that_was_taken_up_keeps_its_gpus_until_they_are_seen_in_use() -> None:
    taken = entry(1, "alice", offer=offer("GPU-00000000"), taken_at=NOON)
    assert settle(taken, ROOM, gone=True) == taken
    assert settle(taken, ROOM, expired=True) is None


def test_a_request_that_nobody_asks_for_any_more_ends() -> None:
    assert settle(entry(1), ROOM, gone=True) is None
    assert settle(OFFERED, ROOM, gone=True) is None


def test_a_person_has_a_limited_number_of_requests_and_so_has_the_queue() -> None:
    waiting = [entry(number) for number in range(3)]
    assert refusal(waiting, "alice", QueueLimits(4, 10)) is None
    assert "3 requests of yours wait" in (refusal(waiting, "alice", QueueLimits(3, 10)) or "")
    assert refusal(waiting, "bob", QueueLimits(3, 10)) is None
    assert "the queue is full" in (refusal(waiting, "bob", QueueLimits(3, 3)) or "")
    assert refusal([entry(1, taken_at=NOON)], "alice", QueueLimits(1, 1)) is None


def test_a_clock_that_is_set_back_makes_no_pause_longer() -> None:
    lapsed = settle(OFFERED, ROOM, expired=True)
    assert lapsed is not None
    assert is_paused(lapsed, NOON) and not is_paused(lapsed, NOON + 31)
    assert not is_paused(lapsed, NOON - 86_400)
    declined = decline(OFFERED, NOON, unreachable=True)
    assert avoided_nodes(declined, NOON + 60) == {"gpu01"}
    assert avoided_nodes(declined, NOON - 86_400) == set()


def test_an_offer_counts_as_unused_unless_its_person_came_or_could_not() -> None:
    def excused(*nodes: NodeParts, taken_at: float | None = None, **times: bool) -> bool:
        waiting = replace(OFFERED, taken_at=taken_at)
        occupants = {each.node.node_id: node_occupants(each, NOON) for each in nodes}
        settled = settle_offers(
            [waiting],
            Survey(nodes).rooms,
            occupants,
            lambda _: times.get("gone", False),
            lambda _: times.get("expired", False),
            NOON,
        )
        return OFFERED.id in settled.excused

    used = node("gpu01", gpu(0, lease=Lease(holder="alice", taken_at=NOON)))
    assert excused(used, expired=True) and excused(used, taken_at=NOON, expired=True)
    as_another = node("gpu01", gpu(0, processes=(process(user="as123"),)))
    assert excused(as_another, taken_at=NOON, expired=True), "alice may have another name there"
    assert excused(), "its node is silent"
    for times in ({"expired": True}, {"gone": True}):
        assert not excused(ROOM, **times)
    assert not excused(ROOM, taken_at=NOON, expired=True)


def places(request: QueueRequest, *nodes: NodeParts) -> dict[str, tuple[int, int]]:
    """Return how many GPUs of each node are free and could be used."""
    found = Survey(nodes).places(request)
    return {place.node: (len(place.free), place.total) for place in found}


@pytest.mark.parametrize(
    "request_fields, expected",
    [
        ({}, {"a": (1, 2), "h": (2, 2)}),
        ({"model": "a100"}, {"a": (1, 2)}),
        ({"model": "H200"}, {}),
        ({"min_free_bytes": 80 * GIB}, {"h": (2, 2)}),
        ({"where": "node:h"}, {"h": (2, 2)}),
        ({"where": "label:rack=b"}, {"a": (1, 2)}),
        ({"where": "label:rack="}, {"a": (1, 2)}),
        ({"where": "label:rack=c"}, {}),
        ({"uuids": ("a1", "h0")}, {"a": (1, 1), "h": (1, 1)}),
        ({"vendor": "amd"}, {}),
    ],
)
def test_a_request_could_be_met_by_the_gpus_that_fit_it(
    request_fields: dict[str, Any], expected: dict[str, tuple[int, int]]
) -> None:
    small = {"name": "NVIDIA A100-PCIE-40GB", "memory_total_bytes": 40 * GIB}
    busy = gpu(0, uuid="a0", processes=(process(),), **small)
    nodes = [
        node("a", busy, gpu(1, uuid="a1", **small), rack="b"),
        node("h", gpu(0, uuid="h0"), gpu(1, uuid="h1")),
        node("s", gpu(0, uuid="s0"), silent=True),
    ]
    assert places(QueueRequest(**request_fields), *nodes) == expected


def test_instances_are_given_where_whole_gpus_are_not_enough_and_are_not_mixed() -> None:
    parts = tuple(instance(number) for number in range(1, 4))
    nodes = [node("m", gpu(0, uuid="m0", instances=parts, mig_mode=True), gpu(1, uuid="m1"))]
    assert places(QueueRequest(count=1), *nodes) == {"m": (1, 1)}
    assert places(QueueRequest(count=2), *nodes) == {"m": (3, 3)}


def test_what_is_booked_is_for_its_owner_alone_and_free_for_others_at_the_end() -> None:
    booking = NodeBooking(
        id="b1",
        owner="chen",
        gpus=1,
        starts_at=NOON - 60,
        ends_at=NOON + 7200,
        is_active=True,
        kept=("GPU-00000000",),
    )
    parts = node("gpu01", gpu(0))
    booked = [replace(parts, node=replace(parts.node, bookings=(booking,)))]
    bookings = booking_entries(booked, NOON)
    survey = Survey(booked)

    def find(waiting: QueueEntry) -> Sequence[Place]:
        return survey.places(waiting.request)

    decisions = plan_queue([entry(1, "bob"), entry(2, "chen"), *bookings], {}, find, NOON)
    assert {each.entry.person: each.uuids for each in decisions} == {
        "bob": (),
        "chen": ("GPU-00000000",),
    }
    assert describe_wait(decisions[0]) == "1 booked by chen on gpu01"
    situation = Situation(booked, DEFAULT_THRESHOLDS, None, PastJobs(()), NOON)
    for_bob = expect_behind(QueueRequest(), "bob", [], situation)
    assert (for_bob.by, for_bob.of_ten) == (NOON + 7200, 8)
    assert expect_behind(QueueRequest(), "chen", [], situation).by == NOON + 300


def test_people_who_share_a_gpu_hold_a_part_of_it_each() -> None:
    shared = gpu(0, processes=(process(1, "alice"), process(2, "bob")))
    leased = gpu(1, lease=Lease(holder="carol", taken_at=NOON, until=NOON + 60))
    found = node_occupants(node("gpu01", shared, leased, gpu(2)), NOON)
    assert held_gpus([found]) == {"alice": 0.5, "bob": 0.5, "carol": 1.0}
    assert found["GPU-00000001"].until == NOON + 60
