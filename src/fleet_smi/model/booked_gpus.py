"""The effect of reservations on a node: free GPUs that are kept, and who is in the way. Pure.

A booking says how many GPUs, not which: those on which its owner already is count, and of the
rest the last free ones are kept. A GPU that somebody uses is never touched, only noted.
"""

from collections.abc import Sequence
from datetime import datetime

from msgspec import Struct
from msgspec.structs import replace

from fleet_smi.model.fleet import Note, Verdict
from fleet_smi.model.people import owners
from fleet_smi.model.reservation import NodeBooking, Reservation
from fleet_smi.model.snapshot import Gpu, Instance
from fleet_smi.model.views import NodeParts

SOON_SECONDS = 86400.0
"""Bookings that start within this time are shown with their node."""
_IN_USE = ("busy", "held", "leased")


class _Slot(Struct):
    """One GPU of a node: who is on it, and for whom it is kept or wanted."""

    uuid: str
    is_free: bool
    is_in_use: bool
    users: frozenset[str]
    counted: bool = False
    note: Note | None = None


def shown_bookings(reservations: Sequence[Reservation], now: float) -> list[Reservation]:
    """Return the bookings of a node that are active or start soon, in the order of their start."""
    shown = [
        one
        for one in reservations
        if one.is_open and one.ends_at > now and one.starts_at <= now + SOON_SECONDS
    ]
    return sorted(shown, key=lambda one: (one.starts_at, one.created_at, one.id))


def apply_bookings(parts: NodeParts, reservations: Sequence[Reservation], now: float) -> NodeParts:
    """Return the parts of a node with its bookings, and notes on the GPUs that they are about."""
    shown = shown_bookings(reservations, now)
    if not shown:
        return parts
    slots = [] if parts.node.silent else [_slot(gpu, verdict) for gpu, verdict in parts.gpus]
    booked_here = {one.owner for one in shown if one.is_active(now)}
    # Who booked first has the GPUs first, not who begins first: a booking may be forced beside
    # those of others.
    by_age = sorted(shown, key=lambda one: (one.created_at, one.starts_at, one.id))
    booked = {one.id: _book(one, slots, booked_here, now) for one in by_age}
    bookings = tuple([booked[one.id] for one in shown])
    notes = {slot.uuid: slot.note for slot in slots if slot.note is not None}
    return NodeParts(
        node=replace(parts.node, bookings=bookings),
        gpus=tuple([_noted(gpu, verdict, notes) for gpu, verdict in parts.gpus]),
        verdicts=parts.verdicts,
    )


def people_on(gpu: Gpu) -> frozenset[str]:
    """Return who has a process or a lease on a GPU or on one of its instances."""
    devices: tuple[Gpu | Instance, ...] = (gpu, *gpu.instances)
    users = {user for device in devices for user in owners(device.processes or ())}
    return frozenset(users | {device.lease.holder for device in devices if device.lease})


def is_used_by(parts: NodeParts, person: str) -> bool:
    """Return whether a person has a process or a lease on a GPU of a node."""
    return any(person in people_on(gpu) for gpu, _ in parts.gpus)


def people_in_the_way(parts: NodeParts, owner: str, wanted: int) -> tuple[str, ...]:
    """Return who uses GPUs of a node that a booking which starts now would need."""
    slots = [_slot(gpu, verdict) for gpu, verdict in parts.gpus]
    available = sum([slot.is_free or owner in slot.users for slot in slots])
    if parts.node.silent or available >= wanted:
        return ()
    users = {user for slot in slots if slot.is_in_use for user in slot.users}
    return tuple(sorted(users - {owner}))


def format_until(at: float, now: float) -> str:
    """Format the end of a booking by the clock of this machine: "06:00", "Sat 06:00".

    Servers that run in UTC are read by people who do not: then it says so.
    """
    moment = datetime.fromtimestamp(at).astimezone()
    today = datetime.fromtimestamp(now).astimezone()
    zone = "" if moment.utcoffset() else " UTC"
    days = moment.date().toordinal() - today.date().toordinal()
    if days == 0 or (days == 1 and at - now < SOON_SECONDS / 2):
        return f"{moment:%H:%M}{zone}"
    names = ("Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun")
    day = names[moment.weekday()] if 0 < days < 7 else f"{moment:%Y-%m-%d}"
    return f"{day} {moment:%H:%M}{zone}"


def _slot(gpu: Gpu, verdict: Verdict) -> _Slot:
    return _Slot(gpu.uuid, verdict.state == "free", verdict.state in _IN_USE, people_on(gpu))


def _book(one: Reservation, slots: list[_Slot], booked_here: set[str], now: float) -> NodeBooking:
    """Keep free GPUs for an active booking, and note who is in its way."""
    booking = NodeBooking(
        id=one.id, owner=one.owner, gpus=one.gpus, starts_at=one.starts_at, ends_at=one.ends_at
    )
    if not one.is_active(now):
        return booking
    needed = one.gpus
    for slot in slots:
        if needed and one.owner in slot.users and not slot.counted:
            slot.counted = True  # for one booking only, if somebody has two
            needed -= 1
    free = [slot for slot in slots if slot.is_free and slot.note is None and not slot.counted]
    kept = free[max(0, len(free) - needed) :] if needed else []
    until = format_until(one.ends_at, now)
    for slot in kept:
        slot.note = Note("booked", f"booked by {one.owner} until {until}", one.owner)
    missing = needed - len(kept) if slots else 0
    others = [slot for slot in slots if slot.is_in_use and not slot.users & booked_here]
    if missing:
        wanted = f"{one.owner} has booked {_gpus(one.gpus)} here until {until}"
        text = f"{wanted}, {missing} in use by others"
        for slot in others:
            slot.note = slot.note or Note("booked", text, one.owner)
    in_the_way = {user for slot in others for user in slot.users} if missing else set[str]()
    return replace(
        booking,
        is_active=True,
        kept=tuple([slot.uuid for slot in kept]),
        missing=missing,
        in_the_way=tuple(sorted(in_the_way)),
    )


def _noted(gpu: Gpu, verdict: Verdict, notes: dict[str, Note]) -> tuple[Gpu, Verdict]:
    note = notes.get(gpu.uuid)
    if note is None:
        return gpu, verdict
    judged = replace(verdict, notes=(*verdict.notes, note))
    # A GPU that is judged already carries its verdict itself.
    return (replace(gpu, verdict=judged) if hasattr(gpu, "verdict") else gpu), judged


def _gpus(count: int) -> str:
    return "1 GPU" if count == 1 else f"{count} GPUs"
