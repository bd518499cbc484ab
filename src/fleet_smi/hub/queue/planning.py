"""One round of the queue, off the event loop: settle offers, make new ones, estimate the rest."""

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import NamedTuple

from msgspec.structs import replace

from fleet_smi.errors import UsageError
from fleet_smi.model.node_choice import nodes_on
from fleet_smi.model.queue.bookings import (
    booked_occupants,
    booking_entries,
    is_booking,
    upcoming_bookings,
)
from fleet_smi.model.queue.entries import QueueEntry, QueueOffer, QueueRequest
from fleet_smi.model.queue.estimate import UNKNOWN, Expected, PastJobs, estimate
from fleet_smi.model.queue.occupants import (
    GpuOccupant,
    held_gpus,
    held_hours,
    node_occupants,
    node_outlook,
)
from fleet_smi.model.queue.offers import OFFER_SECONDS, avoided_nodes, settle_offers
from fleet_smi.model.queue.places import Place, Survey
from fleet_smi.model.queue.plan import Decision, order_key, plan_queue
from fleet_smi.model.queue.reasons import describe_offer, describe_request
from fleet_smi.model.queue.use import PastUse
from fleet_smi.model.verdict.thresholds import Thresholds
from fleet_smi.model.views import NodeParts

_MAX_ESTIMATES = 50
_MAX_OUTLOOKS = 64
IsEntry = Callable[[QueueEntry], bool]
Occupants = Mapping[str, Mapping[str, GpuOccupant]]


class Situation(NamedTuple):
    """What a round is decided by: the fleet at one moment, and what is known of the past."""

    nodes: Sequence[NodeParts]
    thresholds: Thresholds
    use: PastUse | None
    jobs: PastJobs
    now: float
    late: Collection[str] = ()
    """The ids of requests of those who have left too many offers unused: others go first."""


class Round(NamedTuple):
    """The result of a round.

    `entries` are all requests as they are now, `changed` and `ended` what is to be saved, and
    `decisions` those on all that had no offer before, in order. `excused` are those whose offer
    has ended and was used, or could not be.
    """

    entries: list[QueueEntry]
    changed: list[QueueEntry]
    ended: list[str]
    decisions: list[Decision]
    expected: dict[str, Expected]
    excused: Collection[str]


def plan_round(
    entries: Sequence[QueueEntry],
    situation: Situation,
    expected: Mapping[str, Expected],
    is_gone: IsEntry,
    is_expired: IsEntry,
    *,
    with_estimates: bool,
) -> Round:
    """Decide what happens now; `expected` are the estimates of the last round."""
    now = situation.now
    survey = Survey(situation.nodes, situation.thresholds)
    occupants = {each.node.node_id: node_occupants(each, now) for each in situation.nodes}
    settled = settle_offers(entries, survey.rooms, occupants, is_gone, is_expired, now)
    hours = _use_hours(situation, occupants, settled.entries)

    def find_start(entry: QueueEntry) -> float | None:
        return expected.get(entry.id, UNKNOWN).not_before

    bookings = booking_entries(situation.nodes, now)
    decisions = plan_queue(
        [*bookings, *settled.entries],  # an offer counts more than the booking behind it
        hours,
        lambda each: _places(each, survey, now),
        now,
        find_start,
        situation.late,
    )
    offered = {each.entry.id: _offered(each, survey, now) for each in decisions if each.uuids}
    after, replaced = _apply(settled.entries, offered)
    ended = {*settled.ended, *replaced}
    changed = {each.id: each for each in (*settled.changed, *offered.values())}
    waiting = [each for each in decisions if not each.uuids]
    estimates = {each.entry.id: expected.get(each.entry.id, UNKNOWN) for each in decisions}
    if with_estimates:
        estimates |= _estimates(waiting, [*after, *bookings], survey, occupants, situation)
    return Round(
        entries=after,
        changed=[each for each in changed.values() if each.id not in ended],
        ended=sorted(ended),
        decisions=decisions,
        expected=estimates,
        excused={*settled.excused, *replaced},
    )


def _use_hours(
    situation: Situation, occupants: Occupants, entries: Sequence[QueueEntry]
) -> dict[str, float]:
    maps = list(occupants.values())
    use = situation.use
    if use is None:  # without a history, what people hold now is all that is known
        use = PastUse(held_hours(maps, situation.now), situation.now)
    held = held_gpus(maps)
    for entry in entries:
        if entry.offer is not None:
            # Theirs, although the node does not report it yet.
            there = occupants.get(entry.offer.node_id, {})
            unseen = sum([uuid not in there for uuid in entry.offer.uuids])
            held[entry.person] = held.get(entry.person, 0.0) + unseen
    return use.hours(situation.now, held)


def _places(entry: QueueEntry, survey: Survey, now: float) -> Sequence[Place]:
    """Return where a request could be met, without the nodes that its asker could not use."""
    places = survey.places(entry.request)
    if not entry.avoid:
        return places
    avoided = avoided_nodes(entry, now)
    return [place for place in places if place.node_id not in avoided]


def _offered(decision: Decision, survey: Survey, now: float) -> QueueEntry:
    place = decision.place
    if place is None:
        return decision.entry
    offer = QueueOffer(
        node_id=place.node_id,
        node=place.node,
        uuids=decision.uuids,
        labels=survey.labels(place.node_id, decision.uuids),
        made_at=now,
        until=now + OFFER_SECONDS,
        ssh_host=survey.rooms[place.node_id].node.ssh_host,
    )
    return replace(decision.entry, offer=offer)


def _apply(
    entries: Sequence[QueueEntry], offered: Mapping[str, QueueEntry]
) -> tuple[list[QueueEntry], set[str]]:
    """Return the requests with the new offers, and the ids of those whose offer was used."""
    given = {
        uuid: each.id
        for each in offered.values()
        if each.offer is not None
        for uuid in each.offer.uuids
    }
    used = {
        each.id
        for each in entries
        if each.offer is not None and any(uuid in given for uuid in each.offer.uuids)
    }
    after = [offered.get(each.id, each) for each in entries if each.id not in used]
    return after, used


def _estimates(
    waiting: Sequence[Decision],
    entries: Sequence[QueueEntry],
    survey: Survey,
    occupants: Occupants,
    situation: Situation,
) -> dict[str, Expected]:
    """Estimate when each of the first requests can be met, after those before it."""
    found = {decision.entry.id: UNKNOWN for decision in waiting}
    ahead: list[tuple[frozenset[str], int]] = []
    for decision in waiting[:_MAX_ESTIMATES]:
        request, person = decision.entry.request, decision.entry.person
        places = _places(decision.entry, survey, situation.now)
        nodes = frozenset([place.node_id for place in places])
        before = sum([count for others, count in ahead if not nodes.isdisjoint(others)])
        ahead.append((nodes, request.count))
        given = [each for each in entries if each.offer is not None and each.person != person]
        found[decision.entry.id] = _expect(
            request.count, before, person, places, occupants, given, situation
        )
    return found


def _expect(
    count: int,
    ahead: int,
    person: str | None,
    places: Sequence[Place],
    occupants: Occupants,
    given: Sequence[QueueEntry],
    situation: Situation,
) -> Expected:
    """Estimate when one of these nodes has enough free GPUs; `given` has what others are given."""
    taken = {uuid for each in given if each.offer is not None for uuid in each.offer.uuids}
    booked = booked_occupants([each for each in given if is_booking(each)])
    fitting = [each for each in places if each.total >= count]
    fitting.sort(key=lambda place: -len(place.free))
    upcoming = upcoming_bookings(situation.nodes, person, situation.now)
    outlooks = [
        node_outlook(
            place, {**occupants.get(place.node_id, {}), **booked}, taken, situation.now
        )._replace(bookings=upcoming.get(place.node_id, ()))
        for place in fitting[:_MAX_OUTLOOKS]
    ]
    return estimate(count, ahead, outlooks, situation.jobs, situation.now)


def expect_behind(
    wanted: QueueRequest,
    person: str | None,
    entries: Sequence[QueueEntry],
    situation: Situation,
) -> Expected:
    """Estimate when a request can be met that stands behind all that wait."""
    survey = Survey(situation.nodes, situation.thresholds)
    places = survey.places(wanted)
    ids = {place.node_id for place in places}
    ahead = sum(
        [
            each.request.count
            for each in entries
            if each.offer is None
            and any(place.node_id in ids for place in survey.places(each.request))
        ]
    )
    occupants = {
        parts.node.node_id: node_occupants(parts, situation.now) for parts in situation.nodes
    }
    everything = [*entries, *booking_entries(situation.nodes, situation.now)]
    given = [each for each in everything if each.offer is not None and each.person != person]
    return _expect(wanted.count, ahead, person, places, occupants, given, situation)


def require_possible(
    wanted: QueueRequest, nodes: Sequence[NodeParts], thresholds: Thresholds
) -> None:
    """Raise `UsageError` if no node could ever meet a request, silent ones included."""
    nodes_on(nodes, wanted.where)  # says so if there is no such node
    survey = Survey(nodes, thresholds, ignore_states=True)
    if not any(place.total >= wanted.count for place in survey.places(wanted)):
        raise UsageError(f"no node of this fleet could ever meet {describe_request(wanted)}")


def find_faulty(entries: Sequence[QueueEntry], situation: Situation) -> list[str]:
    """Return the ids of the requests that cannot be planned or described, because of a bug."""
    survey = Survey(situation.nodes, situation.thresholds)
    found = []
    for entry in entries:
        try:
            order_key(entry, 0.0)
            survey.places(entry.request)
            describe_request(entry.request)
            describe_offer(entry, situation.now)
        except Exception:  # noqa: BLE001  # whatever is wrong with one of them
            found.append(entry.id)
    return found
