"""Why a request waits, as a text for everybody who sees the queue."""

from math import floor

from fleet_smi.model.queue.entries import (
    ANYWHERE,
    BANDS,
    LABEL_PREFIX,
    NODE_PREFIX,
    QueueEntry,
    QueueRequest,
)
from fleet_smi.model.queue.plan import Decision
from fleet_smi.model.units import GIB


def describe_request(request: QueueRequest) -> str:
    """Return what is requested: "2 × A100, 40 GiB, on gpu03"."""
    text = f"{request.count} × {request.model or request.vendor or 'any'}"
    if request.min_free_bytes:
        text += f", {request.min_free_bytes / GIB:.4g} GiB"
    if request.where != ANYWHERE:
        text += f", on {_place_name(request.where)}"
    return text


def _place_name(where: str) -> str:
    return where.removeprefix(NODE_PREFIX).removeprefix(LABEL_PREFIX)


def describe_offer(entry: QueueEntry, now: float) -> str:
    """Return what is offered, and for how long it is kept."""
    offer = entry.offer
    if offer is None:
        return ""
    what = ", ".join(offer.labels) or offer.node
    if entry.taken_at is not None:
        return f"has {what}"
    return f"offered {what}: {max(0, round(offer.until - now))} s left to take it"


def describe_wait(decision: Decision) -> str:
    """Return why a request waits: "behind alice: fewer GPU-hours this week; 2 of 4 free"."""
    if decision.uuids:
        return "can be met: the offer follows"
    texts = []
    if decision.behind is not None:
        texts.append(_behind(decision, decision.behind))
    texts.append(_supply(decision))
    if decision.entry.lapses:
        times = "once" if decision.entry.lapses == 1 else f"{decision.entry.lapses} times"
        texts.append(f"offered {times} and not taken up")
    return "; ".join(texts)


def _behind(decision: Decision, other: QueueEntry) -> str:
    entry = decision.entry
    if other.person == entry.person:
        return "behind an earlier request of the same person"
    name = f"behind {other.person}"
    if BANDS.index(other.band) < BANDS.index(entry.band):
        return f"{name}: higher priority"
    if decision.late:
        return f"{name}: GPUs offered to {entry.person} were not seen in use"
    if floor(decision.behind_hours) < floor(decision.use_hours):
        hours = f"{decision.behind_hours:.0f} to {decision.use_hours:.0f}"
        return f"{name}: fewer GPU-hours this week ({hours})"
    return f"{name}: asked earlier"


def _supply(decision: Decision) -> str:
    count, place = decision.entry.request.count, decision.place
    if place is None:
        what = "such a GPU" if count == 1 else f"{count} such GPUs"
        other = "other " if decision.entry.avoid else ""
        return f"no {other}node that reports now has {what}"
    on = "" if decision.entry.request.where.startswith(NODE_PREFIX) else f" on {place.node}"
    others = []
    if decision.kept:
        others.append(f"{decision.kept} kept for {decision.kept_for}")
    if decision.booked:
        others.append(f"{decision.booked} booked by {decision.booked_by}")
    if decision.withheld:
        others.append(f"{decision.withheld} offered to others")
    if not decision.available:
        return f"{', '.join(others)}{on}" if others else "none free"
    return ", ".join([f"{decision.available} of {count} free{on}", *others])
