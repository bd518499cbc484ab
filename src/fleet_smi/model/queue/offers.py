"""The life of an offer: taken up, lapsed, or withdrawn because its GPUs are gone. Pure."""

from collections.abc import Callable, Iterable, Mapping
from typing import NamedTuple

from msgspec.structs import replace

from fleet_smi.model.queue.entries import NODE_PREFIX, QueueEntry
from fleet_smi.model.queue.occupants import GpuOccupant
from fleet_smi.model.queue.places import Room

OFFER_SECONDS = 30.0
"""How long an offer is kept; then it lapses and goes on."""
_LAPSE_PAUSE_SECONDS = 30.0
_DECLINED_PAUSE_SECONDS = 5.0
_MAX_PAUSE_SECONDS = 300.0
_MAX_LAPSES = 3
_FULL_SECONDS, _UNREACHABLE_SECONDS = 30.0, 3600.0
_MAX_AVOIDED = 64


class Settled(NamedTuple):
    """The requests as they are now, those that have changed, and the ids of those that ended.

    `excused` are the ids of those whose offer was used, or could not be.
    """

    entries: list[QueueEntry]
    changed: list[QueueEntry]
    ended: list[str]
    excused: list[str]


def settle_offers(
    entries: Iterable[QueueEntry],
    rooms: Mapping[str, Room],
    occupants: Mapping[str, Mapping[str, GpuOccupant]],
    is_gone: Callable[[QueueEntry], bool],
    is_expired: Callable[[QueueEntry], bool],
    now: float,
) -> Settled:
    """Look at every offer: has it been taken up, has it lapsed?

    `is_gone` says whether nobody asks for a request any more, `is_expired` whether the time of its
    offer is over.
    """
    found = Settled([], [], [], [])
    for entry in entries:
        after = _settle(entry, rooms, occupants, is_gone, is_expired, now)
        is_over = after is None or after.offer is None
        is_late = is_gone(entry) or is_expired(entry)
        if is_over and (not is_late or _is_used(entry, occupants)):
            found.excused.append(entry.id)
        if after is None:
            found.ended.append(entry.id)
            continue
        found.entries.append(after)
        if after is not entry:
            found.changed.append(after)
    return found


def _settle(
    entry: QueueEntry,
    rooms: Mapping[str, Room],
    occupants: Mapping[str, Mapping[str, GpuOccupant]],
    is_gone: Callable[[QueueEntry], bool],
    is_expired: Callable[[QueueEntry], bool],
    now: float,
) -> QueueEntry | None:
    """Return the request as it is now; `None` if it has ended."""
    offer = entry.offer
    if entry.taken_at is None and is_gone(entry):
        return None
    if offer is None:
        return None if entry.taken_at is not None else entry
    on_node = occupants.get(offer.node_id, {})
    people = [on_node[uuid].people for uuid in offer.uuids if uuid in on_node]
    # Its person is there. A command says itself that it has taken what it was offered.
    is_settled = entry.taken_at is not None or entry.request.kind != "run"
    if is_settled and any(entry.person in each for each in people):
        return None
    if entry.taken_at is not None:
        return None if is_expired(entry) or len(people) == len(offer.uuids) else entry
    room = rooms.get(offer.node_id)
    free = {slot.uuid for slot in room.slots if slot.free} if room is not None else set()
    if not free.issuperset(offer.uuids):
        return replace(entry, offer=None)  # the node is silent, or somebody else was faster
    return lapse(entry, now) if is_expired(entry) else entry


def _is_used(entry: QueueEntry, occupants: Mapping[str, Mapping[str, GpuOccupant]]) -> bool:
    """Whether the person of a request is on a GPU that it is offered, or all of them are in use.

    On a node, people may have another name than at the hub.
    """
    if entry.offer is None:
        return False
    on_node = occupants.get(entry.offer.node_id, {})
    there = [on_node[uuid].people for uuid in entry.offer.uuids if uuid in on_node]
    return len(there) == len(entry.offer.uuids) or any(entry.person in each for each in there)


def is_paused(entry: QueueEntry, now: float) -> bool:
    """Whether a request gets no offer yet, after one that lapsed."""
    # A clock that was set back makes no pause longer.
    return now < entry.not_before <= now + _MAX_PAUSE_SECONDS


def avoided_nodes(entry: QueueEntry, now: float) -> set[str]:
    """Return the nodes that the asker of a request could not use."""
    return {node_id for node_id, until in entry.avoid if now < until <= now + _UNREACHABLE_SECONDS}


def lapse(entry: QueueEntry, now: float) -> QueueEntry | None:
    """Return the request after an offer that was not taken up; `None` after too many of them."""
    lapses = entry.lapses + 1
    # A running command tries again: it may be the node's lock that keeps it waiting.
    if entry.request.kind != "run" and lapses >= _MAX_LAPSES:
        return None
    pause = min(_LAPSE_PAUSE_SECONDS * lapses, _MAX_PAUSE_SECONDS)
    return replace(entry, offer=None, lapses=lapses, not_before=now + pause)


def decline(entry: QueueEntry, now: float, *, unreachable: bool = False) -> QueueEntry:
    """Return the request after its asker could not take what was offered.

    A request that may be met on several nodes gets another one at once, where there is room. One
    without an offer, which was withdrawn meanwhile, stays as it is.
    """
    if entry.offer is None:
        return entry
    request = entry.request
    is_bound = bool(request.uuids) or request.where.startswith(NODE_PREFIX)
    if not is_bound:
        pause = _UNREACHABLE_SECONDS if unreachable else _FULL_SECONDS
        known = [each for each in entry.avoid if each[1] > now and each[0] != entry.offer.node_id]
        avoid = (*known[-_MAX_AVOIDED:], (entry.offer.node_id, now + pause))
        return replace(entry, offer=None, taken_at=None, avoid=avoid)
    lapses = entry.lapses + 1
    pause = min(_DECLINED_PAUSE_SECONDS * lapses, _MAX_PAUSE_SECONDS)
    return replace(entry, offer=None, taken_at=None, lapses=lapses, not_before=now + pause)
