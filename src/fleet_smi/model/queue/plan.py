"""The plan of a queue: who is given which GPUs now, and who has to wait behind whom.

The order is the priority band, then who has not left offers unused, then decayed use, then
arrival. The first request of a line that
cannot be met keeps the free GPUs of one node, where the fewest are missing; requests after it
may use everything else, or these too if they are declared to end before it could begin, or if
they are of the same person. Requests for other GPUs stand in another line.
"""

import heapq
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from itertools import islice
from math import floor, inf

from msgspec import Struct
from msgspec.structs import replace

from fleet_smi.model.queue.bookings import is_booking
from fleet_smi.model.queue.entries import BANDS, QueueEntry, Shape, shape_of
from fleet_smi.model.queue.offers import is_paused
from fleet_smi.model.queue.places import Place

_HOUR_SECONDS = 3600.0
_MAX_COMPARED_SHAPES = 64
_Nearest = tuple[Place | None, list[str]]
OrderKey = tuple[int, bool, int, float, str]
FindPlaces = Callable[[QueueEntry], Sequence[Place]]
FindStart = Callable[[QueueEntry], float | None]


class Decision(Struct, frozen=True, kw_only=True):
    """What the plan says about one request, in the order in which they were decided.

    With `uuids` it is offered these GPUs of `place`. Else `place` is the node where the fewest are
    missing, `None` if no node could ever meet it; `available` counts the GPUs there that it could
    have now, `kept` those that are free and kept for `kept_for`, `withheld` those that are offered
    to others, `booked` those that `booked_by` has booked, and `behind` is the last request before
    it that waits for the same GPUs. `late` says that its person has left offers unused.
    """

    entry: QueueEntry
    use_hours: float
    place: Place | None = None
    uuids: tuple[str, ...] = ()
    available: int = 0
    kept: int = 0
    kept_for: str | None = None
    withheld: int = 0
    booked: int = 0
    booked_by: str | None = None
    behind: QueueEntry | None = None
    behind_hours: float = 0.0
    late: bool = False


def order_key(entry: QueueEntry, use_hours: float, *, is_late: bool = False) -> OrderKey:
    """Return the sort key of a request: band, unused offers, use in whole GPU-hours, arrival."""
    # Whole hours: a minute more or less does not let somebody pass who came first.
    return BANDS.index(entry.band), is_late, floor(use_hours), entry.arrived_at, entry.id


class _Line:
    """What the plan has given away and keeps, while it goes through the queue."""

    def __init__(self, entries: Iterable[QueueEntry]) -> None:
        self.taken: dict[str, QueueEntry] = {}
        self.kept: dict[str, QueueEntry] = {}
        self.waiting_nodes: set[str] = set()
        self.nearest: dict[tuple[Shape, int], _Nearest] = {}
        """Where the fewest GPUs are missing, by shape and count, until something is given away."""
        self.special: set[str] = set()
        """The people for whom something is offered or kept, who may have more than others."""
        for entry in entries:
            if entry.offer is not None:
                self.give(entry, entry.offer.uuids)

    def give(self, entry: QueueEntry, uuids: Iterable[str]) -> None:
        """Note that these GPUs are offered."""
        self.taken.update(dict.fromkeys(uuids, entry))
        self.special.add(entry.person)
        self.nearest.clear()

    def keep(self, entry: QueueEntry, uuids: Iterable[str]) -> None:
        """Keep these free GPUs for the first of a line."""
        self.kept.update(dict.fromkeys(uuids, entry))
        self.special.add(entry.person)

    def can_have(self, uuid: str, entry: QueueEntry) -> bool:
        """Whether a free GPU is not given to somebody else already."""
        owner = self.taken.get(uuid)
        if owner is None:
            return True
        # Who waits for GPUs and then runs something there gets those that were offered.
        is_for_run = owner.request.kind != "run" and entry.request.kind == "run"
        if is_booking(owner):
            return owner.person == entry.person or entry.request.ignore_bookings
        return owner.person == entry.person and is_for_run


def plan_queue(
    entries: Sequence[QueueEntry],
    use_hours: Mapping[str, float],
    find_places: FindPlaces,
    now: float,
    find_start: FindStart = lambda _: None,
    late: Collection[str] = (),
) -> list[Decision]:
    """Decide on every waiting request, the first one first; those with an offer are left out.

    `find_places` returns where a request could be met, `find_start` before when it will hardly
    begin, `None` where that is not known. `late` has the ids of those that come after all others
    of their band.
    """

    def key_of(entry: QueueEntry) -> OrderKey:
        return order_key(entry, hours.get(entry.person, 0.0), is_late=entry.id in late)

    line, hours = _Line(entries), dict(use_hours)
    waiting = [each for each in entries if each.offer is None and each.taken_at is None]
    heap = [(key_of(each), each) for each in waiting]
    heapq.heapify(heap)
    decided: list[Decision] = []
    hopeless: dict[Shape, int] = {}
    last: dict[Shape, QueueEntry] = {}
    nodes: dict[Shape, frozenset[str]] = {}
    while heap:
        key, entry = heapq.heappop(heap)
        used = hours.get(entry.person, 0.0)
        if (current := key_of(entry)) > key:
            # The person was given something since: behind others who have used less.
            heapq.heappush(heap, (current, entry))
            continue
        shape = shape_of(entry.request)
        places = find_places(entry)
        if shape not in nodes:
            nodes[shape] = frozenset([place.node_id for place in places])
        decision = _decide(entry, used, places, line, hopeless, now, find_start)
        if decision.uuids:
            line.give(entry, decision.uuids)
            hours[entry.person] = used + len(decision.uuids)
        else:
            decision = _with_predecessor(decision, shape, last, nodes, hours)
            decision = replace(decision, late=entry.id in late)
            # The latest at the end.
            last.pop(shape, None)
            last[shape] = entry
        decided.append(decision)
    return decided


def _decide(
    entry: QueueEntry,
    used: float,
    places: Sequence[Place],
    line: _Line,
    hopeless: dict[Shape, int],
    now: float,
    find_start: FindStart,
) -> Decision:
    count, shape = entry.request.count, shape_of(entry.request)
    # What was not possible for another request of this shape is not possible for a larger one.
    is_plain = (
        entry.request.max_hours is None and entry.person not in line.special and not entry.avoid
    ) and not entry.request.ignore_bookings
    best: tuple[tuple[int, int], Place, list[str]] | None = None
    if not is_paused(entry, now) and not (is_plain and count >= hopeless.get(shape, count + 1)):
        for number, place in enumerate(places):
            free = [uuid for uuid in place.free if line.can_have(uuid, entry)]
            allowed = [uuid for uuid in free if _may_use(uuid, entry, line, now, find_start)]
            if len(allowed) >= count:
                # The fullest node first: whole nodes stay free for those who need one.
                rank = (len(allowed), number)
                if best is None or rank < best[0]:
                    best = rank, place, allowed
        if best is not None:
            # What is kept for somebody only where nothing else is left.
            chosen = sorted(best[2], key=lambda uuid: uuid in line.kept)[:count]
            return Decision(entry=entry, use_hours=used, place=best[1], uuids=tuple(chosen))
        if is_plain:
            hopeless[shape] = min(count, hopeless.get(shape, count))
    return _blocked(entry, used, places, line)


def _may_use(uuid: str, entry: QueueEntry, line: _Line, now: float, find_start: FindStart) -> bool:
    """Whether taking a GPU delays nobody who comes first."""
    head = line.kept.get(uuid)
    if head is None or head.person == entry.person:
        return True
    if entry.request.max_hours is None:
        return False
    start = find_start(head)
    return start is not None and now + entry.request.max_hours * _HOUR_SECONDS <= start


def _blocked(entry: QueueEntry, used: float, places: Sequence[Place], line: _Line) -> Decision:
    """Choose the node where the fewest GPUs are missing, and keep them for the first of a line."""
    best, free = _find_nearest(entry, places, line)
    if best is None:
        return Decision(entry=entry, use_hours=used)
    keepers = [line.kept[uuid].person for uuid in free if uuid in line.kept]
    others = [person for person in keepers if person != entry.person]
    # One that waits after a lapsed offer keeps nothing: others can have it meanwhile.
    if len(free) < entry.request.count and best.node_id not in line.waiting_nodes:
        nodes = {place.node_id for place in places}
        if not nodes & line.waiting_nodes:
            line.keep(entry, free)
        line.waiting_nodes |= nodes
    given = [line.taken[uuid] for uuid in best.free if uuid not in free]
    bookers = [owner.person for owner in given if is_booking(owner)]
    return Decision(
        entry=entry,
        use_hours=used,
        place=best,
        available=len(free) - len(others),
        kept=len(others),
        kept_for=others[0] if others else None,
        withheld=len(given) - len(bookers),
        booked=len(bookers),
        booked_by=bookers[0] if bookers else None,
    )


def _find_nearest(entry: QueueEntry, places: Sequence[Place], line: _Line) -> _Nearest:
    """Return the node where the fewest GPUs are missing, and those that are free there."""
    count = entry.request.count
    is_plain = entry.person not in line.special and not entry.avoid
    is_plain = is_plain and not entry.request.ignore_bookings
    key = shape_of(entry.request), count
    if is_plain and key in line.nearest:
        return line.nearest[key]
    missing: float = inf
    found: _Nearest = None, []
    for place in places:
        if place.total >= count:
            free = [uuid for uuid in place.free if line.can_have(uuid, entry)]
            if count - len(free) < missing:
                missing, found = count - len(free), (place, free)
    if is_plain:
        line.nearest[key] = found
    return found


def _with_predecessor(
    decision: Decision,
    shape: Shape,
    last: dict[Shape, QueueEntry],
    nodes: Mapping[Shape, frozenset[str]],
    hours: Mapping[str, float],
) -> Decision:
    """Add who waits for the same GPUs and comes right before."""
    for other in islice(reversed(last), _MAX_COMPARED_SHAPES):
        if other == shape or not nodes[other].isdisjoint(nodes[shape]):
            entry = last[other]
            return replace(decision, behind=entry, behind_hours=hours.get(entry.person, 0.0))
    return decision
