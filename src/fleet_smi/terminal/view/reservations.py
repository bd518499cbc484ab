"""Bookings as text: a table of them, and the conflicts of one that does not fit."""

from collections.abc import Iterator, Sequence

from fleet_smi.model.reservation import BookingCheck, ReservationInfo, ReservationList
from fleet_smi.model.units import format_duration, pluralize
from fleet_smi.terminal.view.formatting import ToLocalTime, to_local_time
from fleet_smi.terminal.view.plain_table import render_table

_HEADS = ("ID", "NODE", "GPUS", "WHO", "FROM", "UNTIL", "STATE", "NOTE")
_DAYS = ("Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun")
_NEAR_DAYS = 7


def render(found: ReservationList, columns: int, local: ToLocalTime = to_local_time) -> str:
    """Return the table of bookings, and below it who is in whose way."""
    rows = [_cells(one, found.taken_at, local) for one in found.reservations]
    table = render_table(_HEADS, rows, columns, "nothing is booked")
    lines = [line for one in found.reservations for line in in_the_way_lines(one)]
    return table + "".join([f"{line}\n" for line in lines])


def in_the_way_lines(one: ReservationInfo) -> list[str]:
    """Return who uses GPUs that are booked, in one sentence; nothing if nobody does."""
    if not one.missing:
        return []
    users = f" by {_and(one.in_the_way)}" if one.in_the_way else ""
    verb = "is" if one.missing == 1 else "are"
    return [f"{one.id}: {one.missing} of {pluralize(one.gpus, 'GPU')} {verb} in use{users}"]


def conflict_lines(
    check: BookingCheck, wanted: int, now: float, local: ToLocalTime = to_local_time
) -> Iterator[str]:
    """Yield when a booking does not fit and why, then what would fit."""
    for conflict in check.conflicts:
        free = max(0, conflict.gpus - conflict.booked)
        who = f" by {_and(conflict.owners)}" if conflict.owners else ""
        yield (
            f"{format_range(conflict.starts_at, conflict.ends_at, now, local)}: {conflict.booked} "
            f"of {pluralize(conflict.gpus, 'GPU')} booked{who}, {free} left"
        )
    if check.free_gpus:
        gpus = pluralize(check.free_gpus, "GPU")
        yield f"the whole time has room for {gpus}: -n {check.free_gpus}"
    if check.fits_at is not None:
        at, flag = format_time(check.fits_at, now, local), f"{local(check.fits_at):%Y-%m-%dT%H:%M}"
        verb = "fits" if wanted == 1 else "fit"
        yield f"{pluralize(wanted, 'GPU')} {verb} from {at}: --from {flag}"


def format_range(start: float, end: float, now: float, local: ToLocalTime) -> str:
    """Return a range in short form: "Fri 18:00 to Sat 06:00"."""
    last = format_time(end, now, local)
    if local(start).date() == local(end).date():
        last = f"{local(end):%H:%M}"
    return f"{format_time(start, now, local)} to {last}"


def format_time(at: float, now: float, local: ToLocalTime) -> str:
    """Return a time to come in short form: "18:00", "Fri 18:00", "2026-11-27 18:00"."""
    then = local(at)
    days = then.date().toordinal() - local(now).date().toordinal()
    if days == 0:
        return f"{then:%H:%M}"
    near = 0 < days < _NEAR_DAYS
    return f"{_DAYS[then.weekday()]} {then:%H:%M}" if near else f"{then:%Y-%m-%d %H:%M}"


def _cells(one: ReservationInfo, now: float, local: ToLocalTime) -> tuple[str, ...]:
    return (
        one.id,
        one.node if one.node_known else f"{one.node} (removed)",
        str(one.gpus),
        one.owner,
        format_time(one.starts_at, now, local),
        format_time(one.ends_at, now, local),
        _state(one, now),
        one.note,
    )


def _state(one: ReservationInfo, now: float) -> str:
    if one.state == "upcoming":
        return f"in {format_duration(one.starts_at - now)}"
    if one.state == "active":
        return "in use" if one.used else "not used yet"
    return one.state


def _and(names: Sequence[str]) -> str:
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"
