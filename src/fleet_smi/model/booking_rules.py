"""The rules of booking: limits of reservations and of people, and what a change does. Pure."""

from collections.abc import Sequence

from msgspec import Struct
from msgspec.structs import replace

from fleet_smi.errors import UsageError
from fleet_smi.model.reservation import RELEASE_SECONDS, Reservation
from fleet_smi.model.safe_text import sanitize_text
from fleet_smi.model.units import MAX_SECONDS, format_duration

MIN_LENGTH_SECONDS, MAX_LENGTH_SECONDS = 300.0, 28 * 86400.0
MAX_AHEAD_SECONDS = 180 * 86400.0
MAX_OPEN_PER_PERSON, MAX_OPEN_PER_NODE, MAX_OPEN = 20, 500, 5000
MAX_UNUSED, UNUSED_SECONDS = 10, 7 * 86400.0
"""How many bookings somebody may leave unused in a week."""
_SOON_SECONDS = 600.0
MAX_NOTE_LENGTH = 200
MAX_GPUS = 1024
# A request takes a moment, and clocks differ: "now" may be past when it arrives.
_MAX_LATE_SECONDS = 300.0


class Change(Struct, frozen=True, kw_only=True):
    """What to change of a reservation; `None` leaves it as it is."""

    node_id: str | None = None
    node: str | None = None
    gpus: int | None = None
    starts_at: float | None = None
    ends_at: float | None = None
    note: str | None = None


def check_reservation(
    one: Reservation, now: float, node_gpus: int | None, *, is_start_new: bool = True
) -> None:
    """Raise `UsageError` if a reservation makes no sense, whoever else has booked what."""
    if not (0 < one.starts_at < MAX_SECONDS and 0 < one.ends_at < MAX_SECONDS):
        raise UsageError("the times are not plausible: give seconds since 1970")
    length = one.ends_at - one.starts_at
    if length <= 0:
        raise UsageError("a booking ends after it starts: check the times")
    if length < MIN_LENGTH_SECONDS:
        raise UsageError(f"a booking lasts at least {format_duration(MIN_LENGTH_SECONDS)}")
    if length > MAX_LENGTH_SECONDS:
        raise UsageError(f"a booking lasts at most {format_duration(MAX_LENGTH_SECONDS)}")
    if is_start_new and one.starts_at < now - _MAX_LATE_SECONDS:
        raise UsageError("the start is in the past")
    if one.ends_at <= now:
        raise UsageError("the end is in the past: cancel the booking instead")
    if one.starts_at > now + MAX_AHEAD_SECONDS:
        raise UsageError(f"book at most {format_duration(MAX_AHEAD_SECONDS)} ahead")
    if not 1 <= one.gpus <= MAX_GPUS:
        raise UsageError(f"{one.gpus} GPUs cannot be booked: give 1 to {MAX_GPUS}")
    if node_gpus is not None and one.gpus > node_gpus:
        have = "1 GPU" if node_gpus == 1 else f"{node_gpus} GPUs"
        raise UsageError(f"{one.node} has {have}: {one.gpus} cannot be booked")


def check_limits(
    new: Reservation, known: Sequence[Reservation], now: float, *, by_admin: bool = False
) -> None:
    """Raise `UsageError` if a person, a node, or everybody together has booked too often already.

    What somebody leaves unused is kept from others all the same: it is limited too, but for admins.
    """
    open_ones = [one for one in known if one.is_open and one.ends_at > now]
    owner, own = new.owner, sum([one.owner == new.owner for one in open_ones])
    if own >= MAX_OPEN_PER_PERSON:
        raise UsageError(f"{owner} has {own} bookings, the most there may be: cancel one first")
    unused = sum([one.owner == owner and _was_unused(one, now) for one in known])
    if unused >= MAX_UNUSED and not by_admin:
        raise UsageError(
            f"{unused} bookings of {owner} were not used in the last 7 days: ask an admin to book"
        )
    # An agent may vouch for people whom it has made up.
    if new.via is not None and sum([one.via == new.via for one in open_ones]) >= MAX_OPEN_PER_NODE:
        raise UsageError(
            f"{MAX_OPEN_PER_NODE} bookings were made from this node, the most there may be: "
            "run `fleet-smi login` to book in your own name"
        )
    if len(open_ones) >= MAX_OPEN:
        raise UsageError(f"there are {MAX_OPEN} bookings, the most there may be")


def _was_unused(one: Reservation, now: float) -> bool:
    """Whether nobody came, or the owner ended it some time after its start without coming."""
    if one.used_at is not None or one.starts_at < now - UNUSED_SECONDS:
        return False
    # `end_reservation` sets both to the same time.
    was_ended = one.ends_at == one.changed_at and one.ends_at - one.starts_at > _SOON_SECONDS
    return one.released_at is not None or (one.cancelled_at is None and was_ended)


def apply_change(one: Reservation, change: Change, now: float) -> Reservation:
    """Return a reservation with a change; raise `UsageError` if it is over."""
    if not one.is_open or one.ends_at <= now:
        raise UsageError(f"booking {one.id} is over: make a new one")
    values = {
        name: value
        for name in Change.__struct_fields__
        if (value := getattr(change, name)) is not None
    }
    if "note" in values:
        values["note"] = sanitize_note(values["note"])
    changed = replace(one, **values)
    if changed == one:
        return one
    # Else it could be moved on and on, and never be released.
    if changed.starts_at > one.starts_at and one.used_at is None and _has_long_begun(one, now):
        raise UsageError(f"booking {one.id} has begun: cancel it and make a new one")
    if changed.starts_at != one.starts_at or changed.node_id != one.node_id:
        changed = replace(changed, used_at=None)
    if _claims_more(changed, one):
        changed = replace(changed, created_at=now)  # behind those who have booked meanwhile
    return replace(changed, sequence=one.sequence + 1, changed_at=now)


def _claims_more(changed: Reservation, before: Reservation) -> bool:
    """Whether a change takes GPUs or time that the booking did not have."""
    return (
        changed.node_id != before.node_id
        or changed.gpus > before.gpus
        or changed.starts_at < before.starts_at
        or changed.ends_at > before.ends_at
    )


def _has_long_begun(one: Reservation, now: float) -> bool:
    return now > one.starts_at + _SOON_SECONDS


def end_reservation(one: Reservation, now: float) -> Reservation:
    """Return a cancelled reservation; one that has begun ends now. Raise `UsageError` if over."""
    if not one.is_open or one.ends_at <= now:
        raise UsageError(f"booking {one.id} is over already")
    changed = replace(one, sequence=one.sequence + 1, changed_at=now)
    if one.starts_at < now:
        return replace(changed, ends_at=now)
    return replace(changed, cancelled_at=now)


def is_to_be_released(one: Reservation, now: float, watched_seconds: float) -> bool:
    """Return whether nobody came: the owner was not seen in all that time.

    `watched_seconds` is for how long the node was watched without a break, by a clock that cannot
    be set: a hub that has just started, or whose clock was set forward, does not know.
    """
    is_due = one.is_active(now) and now >= one.starts_at + RELEASE_SECONDS
    return is_due and one.used_at is None and watched_seconds >= RELEASE_SECONDS


def sanitize_note(note: str) -> str:
    """Return a note as one line of printable text."""
    return sanitize_text(note, MAX_NOTE_LENGTH)
