"""Closings: an administrator keeps new work from a node, a GPU or every node with a label. Pure.

A closing changes no work that runs: a GPU in use stays in use, with a note. A free GPU is leased,
with the closing as the reason, and nothing of what is closed is offered.
"""

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime, time, tzinfo
from math import inf

from msgspec import Struct
from msgspec.structs import replace

from fleet_smi.model.fleet import Note, Verdict
from fleet_smi.model.policies import CLOSED_BY
from fleet_smi.model.snapshot import Gpu
from fleet_smi.model.views import NodeParts

_WEEK_DAYS = 7


class Closing(Struct, frozen=True, kw_only=True):
    """What is closed: a node, one of its devices (`uuid`), or the nodes with a `label`.

    A label is written "rack=3". Without `until` it lasts until somebody opens it again.
    """

    id: str
    node_id: str | None = None
    uuid: str | None = None
    label: str | None = None
    until: float | None = None
    note: str = ""
    by: str
    created_at: float

    @property
    def target(self) -> tuple[str | None, str | None, str | None]:
        """What is closed, to compare: one target has one closing."""
        return self.node_id, self.uuid, self.label

    def covers(self, node_id: str, labels: Mapping[str, str]) -> bool:
        """Return whether it is about this node, or about one of its devices."""
        if self.label is None:
            return self.node_id == node_id
        key, _, value = self.label.partition("=")
        return labels.get(key) == value

    def is_over(self, now: float) -> bool:
        """Return whether its time has passed."""
        return self.until is not None and now >= self.until


class ClosingList(Struct, frozen=True, kw_only=True):
    """What is closed now, the oldest first."""

    closings: tuple[Closing, ...]


def describe_closing(closing: Closing, now: float, zone: tzinfo | None = None) -> str:
    """Return who closed it, until when and why: "closed by maria until Friday: new fan"."""
    until = "" if closing.until is None else f" until {_when(closing.until, now, zone)}"
    return f"{CLOSED_BY}{closing.by}{until}" + (f": {closing.note}" if closing.note else "")


def apply_closings(parts: NodeParts, closings: Iterable[Closing], now: float) -> NodeParts:
    """Return the node with its devices closed, by these closings that cover the node."""
    by_device = closings_by_device([gpu for gpu, _ in parts.gpus], closings, now)
    if not by_device:
        return parts
    verdicts = {**parts.verdicts, **{gpu.uuid: verdict for gpu, verdict in parts.gpus}}
    for uuid, closing in by_device.items():
        verdicts[uuid] = close_device(verdicts[uuid], closing, now)
    gpus = tuple([(gpu, verdicts[gpu.uuid]) for gpu, _ in parts.gpus])
    return replace(parts, gpus=gpus, verdicts=verdicts)


def closings_by_device(
    gpus: Iterable[Gpu], closings: Iterable[Closing], now: float
) -> dict[str, Closing]:
    """Return the closing of each closed GPU and instance, of these that cover their node."""
    # The one that lasts longest says the most.
    current = sorted(
        [closing for closing in closings if not closing.is_over(now)],
        key=lambda closing: inf if closing.until is None else closing.until,
        reverse=True,
    )
    found: dict[str, Closing] = {}
    for gpu in gpus if current else ():
        of_gpu = _first(current, (None, gpu.uuid))
        if of_gpu is not None:
            found[gpu.uuid] = of_gpu
        for instance in gpu.instances:
            closing = of_gpu or _first(current, (instance.uuid,))
            if closing is not None:
                found[instance.uuid] = closing
    return found


def close_device(verdict: Verdict, closing: Closing, now: float) -> Verdict:
    """Return the verdict on a closed device: leased if it was free, else as it was, with a note."""
    text = describe_closing(closing, now)
    if verdict.state != "free":
        return replace(verdict, notes=(*verdict.notes, Note("closed", text)))
    since = max(verdict.since, min(closing.created_at, now))
    return Verdict(state="leased", reason=text, since=since, notes=verdict.notes)


def _first(closings: Sequence[Closing], uuids: Sequence[str | None]) -> Closing | None:
    return next((closing for closing in closings if closing.uuid in uuids), None)


def _when(until: float, now: float, zone: tzinfo | None) -> str:
    """Return a time to come for people: "14:30", "Friday", "Friday 18:00", "2026-12-01"."""
    moment, today = datetime.fromtimestamp(until, zone), datetime.fromtimestamp(now, zone).date()
    days = (moment.date() - today).days
    clock = "" if moment.time() == time() else f"{moment:%H:%M}"
    if days == 0:
        return f"{moment:%H:%M}"
    day = f"{moment:%A}" if 0 < days < _WEEK_DAYS else f"{moment:%Y-%m-%d}"
    return f"{day} {clock}".rstrip()
