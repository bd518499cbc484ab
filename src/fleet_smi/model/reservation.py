"""Reservations: soft bookings of some GPUs of a node for a time, and where they overlap. Pure."""

from collections.abc import Iterable, Sequence
from itertools import pairwise
from typing import Literal

from msgspec import Struct
from msgspec.structs import replace

RELEASE_SECONDS = 1800.0
"""A booking whose owner has not begun after this long is released."""
ReservationState = Literal["upcoming", "active", "past", "released", "cancelled"]


class Reservation(Struct, frozen=True, kw_only=True):
    """A booking of `gpus` GPUs of a node; which ones is left open.

    `node` is the name that the node had when it was booked. `used_at` is when its owner was first
    seen on the node during the booking, `released_at` when it was given up because nobody was.
    `sequence` counts the changes, as calendars do. `via` is the id of the node whose agent vouched
    for its maker, `None` for one who logged in.
    """

    id: str
    owner: str
    node_id: str
    node: str
    gpus: int
    starts_at: float
    ends_at: float
    note: str = ""
    sequence: int = 0
    created_at: float = 0.0
    changed_at: float = 0.0
    used_at: float | None = None
    released_at: float | None = None
    cancelled_at: float | None = None
    via: str | None = None

    @property
    def is_open(self) -> bool:
        """Whether it was neither cancelled nor released."""
        return self.cancelled_at is None and self.released_at is None

    def is_active(self, now: float) -> bool:
        """Return whether its GPUs are booked at this moment."""
        return self.is_open and self.starts_at <= now < self.ends_at

    def state(self, now: float) -> ReservationState:
        """Return what has become of it."""
        if self.cancelled_at is not None:
            return "cancelled"
        if self.released_at is not None:
            return "released"
        if now < self.starts_at:
            return "upcoming"
        return "active" if now < self.ends_at else "past"

    def overlaps(self, start: float, end: float) -> bool:
        """Return whether it books GPUs at any moment of a range."""
        return self.is_open and self.starts_at < end and self.ends_at > start


class NodeBooking(Struct, frozen=True, kw_only=True, gc=False):
    """A booking of a node as its views show it: one that is active, or starts soon.

    `kept` are the UUIDs of free GPUs that are not offered to others. `missing` is how many of its
    GPUs are neither kept nor used by its owner, and `in_the_way` who uses GPUs of the node then.
    """

    id: str
    owner: str
    gpus: int
    starts_at: float
    ends_at: float
    is_active: bool = False
    kept: tuple[str, ...] = ()
    missing: int = 0
    in_the_way: tuple[str, ...] = ()


class Conflict(Struct, frozen=True, kw_only=True):
    """A time in which more GPUs are booked than the node has.

    `booked` is how many others have booked, `gpus` how many the node has.
    """

    starts_at: float
    ends_at: float
    booked: int
    gpus: int
    owners: tuple[str, ...]


class BookingCheck(Struct, frozen=True, kw_only=True):
    """Whether a booking fits: its conflicts, and what would fit instead.

    `free_gpus` is how many GPUs are not booked at any moment of the range, `fits_at` the earliest
    start from which as many as requested are. `in_the_way` are people who use GPUs that it
    needs, if it starts now, `closed` who has closed the node, or GPUs of it, into that time. Where
    the node has never reported its GPUs, nothing is known.
    """

    conflicts: tuple[Conflict, ...] = ()
    free_gpus: int | None = None
    fits_at: float | None = None
    in_the_way: tuple[str, ...] = ()
    closed: str | None = None


class ReservationInfo(Struct, frozen=True, kw_only=True):
    """A reservation as it is listed; `editable` is whether the asker may change it.

    `node_known` is false where the node was removed.
    """

    id: str
    owner: str
    node_id: str
    node: str
    gpus: int
    starts_at: float
    ends_at: float
    note: str
    state: ReservationState
    used: bool = False
    editable: bool = False
    node_known: bool = True
    missing: int = 0
    in_the_way: tuple[str, ...] = ()


class Overbooking(Struct, frozen=True, kw_only=True):
    """A time in which more GPUs of a node are booked than it has."""

    node_id: str
    starts_at: float
    ends_at: float
    booked: int
    gpus: int


class ReservationList(Struct, frozen=True, kw_only=True):
    """Reservations by their start; `person` is who asks, where that is known."""

    taken_at: float
    person: str | None
    may_book: bool
    reservations: tuple[ReservationInfo, ...]
    overbooked: tuple[Overbooking, ...] = ()


def check_booking(
    wanted: int,
    start: float,
    end: float,
    others: Iterable[Reservation],
    node_gpus: int | None,
    in_the_way: tuple[str, ...] = (),
) -> BookingCheck:
    """Check a booking of one node against the others of that node."""
    others = [other for other in others if other.is_open]
    if node_gpus is None:
        return BookingCheck(in_the_way=in_the_way)
    conflicts = find_conflicts(wanted, start, end, others, node_gpus)
    peak = max([booked for _, _, booked, _ in _segments(start, end, others)], default=0)
    fits_at = None
    if conflicts and wanted <= node_gpus:
        # Only the end of another booking can make room.
        ends = sorted({other.ends_at for other in others if other.ends_at > start})
        length = end - start
        fits_at = next(
            (at for at in ends if not find_conflicts(wanted, at, at + length, others, node_gpus)),
            None,
        )
    return BookingCheck(
        conflicts=conflicts,
        free_gpus=max(0, node_gpus - peak),
        fits_at=fits_at,
        in_the_way=in_the_way,
    )


def find_overbooked(
    node_id: str, reservations: Sequence[Reservation], node_gpus: int
) -> list[Overbooking]:
    """Return when more GPUs of a node are booked than it has."""
    booked = [one for one in reservations if one.is_open]
    if sum([one.gpus for one in booked]) <= node_gpus:
        return []
    start, end = min([one.starts_at for one in booked]), max([one.ends_at for one in booked])
    return [
        Overbooking(
            node_id=node_id,
            starts_at=conflict.starts_at,
            ends_at=conflict.ends_at,
            booked=conflict.booked,
            gpus=node_gpus,
        )
        for conflict in find_conflicts(0, start, end, booked, node_gpus)
    ]


def find_conflicts(
    wanted: int, start: float, end: float, others: Sequence[Reservation], node_gpus: int
) -> tuple[Conflict, ...]:
    """Return when this booking and the others are more GPUs than the node has."""
    found: list[Conflict] = []
    for begin, finish, booked, owners in _segments(start, end, others):
        if booked + wanted <= node_gpus:
            continue
        last = found[-1] if found else None
        if last and (last.ends_at, last.booked, last.owners) == (begin, booked, owners):
            found[-1] = replace(last, ends_at=finish)
            continue
        found.append(
            Conflict(starts_at=begin, ends_at=finish, booked=booked, gpus=node_gpus, owners=owners)
        )
    return tuple(found)


def _segments(
    start: float, end: float, others: Sequence[Reservation]
) -> list[tuple[float, float, int, tuple[str, ...]]]:
    """Return the parts of a range in which the same GPUs are booked, with how many and by whom."""
    near = [other for other in others if other.overlaps(start, end)]
    edges = {at for other in near for at in (other.starts_at, other.ends_at) if start < at < end}
    times = [start, *sorted(edges), end]
    parts = []
    for begin, finish in pairwise(times):
        there = [other for other in near if other.overlaps(begin, finish)]
        owners = tuple(sorted({other.owner for other in there}))
        parts.append((begin, finish, sum([other.gpus for other in there]), owners))
    return parts
