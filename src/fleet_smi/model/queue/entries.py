"""The nouns of the queue: a request of a person, the offer that it may have, and its place."""

from typing import Annotated, Any, Literal

from msgspec import Meta, Struct
from msgspec.structs import replace

from fleet_smi.model.candidates import GpuRequest
from fleet_smi.model.snapshot import Vendor

Band = Literal["high", "normal", "low"]
BANDS: tuple[Band, ...] = ("high", "normal", "low")
"""Priority bands, which an administrator sets; the first goes first, whoever has used less."""
RequestKind = Literal["run", "wait", "page"]
ANYWHERE = "any"
NODE_PREFIX, LABEL_PREFIX = "node:", "label:"
MIN_KEEP_SECONDS, MAX_KEEP_SECONDS = 10.0, 43_200.0


class QueueRequest(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What a person waits for: `count` GPUs of one node.

    `where` is "any", "node:NAME" or "label:KEY=VALUE". With `uuids` only these are meant, as by a
    program that runs on the machine which has them. `max_hours` is how long it is declared to
    take. It is dropped if nobody has asked for it for `keep_seconds`. `kind` is what asks: a
    command that takes the GPUs itself (`run`), or one that only waits (`wait`, or the `page`).
    With `ignore_bookings` it may have GPUs that are kept for the booking of somebody else.
    """

    count: Annotated[int, Meta(ge=1, le=1024)] = 1
    min_free_bytes: int = 0
    model: str | None = None
    vendor: Vendor | None = None
    where: str = ANYWHERE
    uuids: tuple[str, ...] = ()
    max_hours: float | None = None
    note: str | None = None
    kind: RequestKind = "wait"
    keep_seconds: float = 60.0
    ignore_bookings: bool = False

    def gpu_request(self) -> GpuRequest:
        """The request by which GPUs are judged."""
        return GpuRequest(
            count=self.count,
            min_free_bytes=self.min_free_bytes,
            model=self.model,
            vendor=self.vendor,
            same_node=True,
        )


def request_body(request: QueueRequest) -> dict[str, Any]:
    """Return a request as the API takes it."""
    body: dict[str, Any] = {
        "n": request.count,
        "min_free": f"{request.min_free_bytes}B",
        "model": request.model,
        "vendor": request.vendor,
        "where": request.where,
        "uuids": request.uuids,
        "max_hours": request.max_hours,
        "note": request.note,
        "kind": request.kind,
        "keep_seconds": request.keep_seconds,
    }
    if request.ignore_bookings:  # an older hub does not know it
        body["ignore_bookings"] = True
    return body


class QueueOffer(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """GPUs of one node that are kept for a request until a time; `labels` are their short names."""

    node_id: str
    node: str
    uuids: tuple[str, ...]
    labels: tuple[str, ...] = ()
    made_at: float
    until: float
    ssh_host: str | None = None


class QueueEntry(Struct, frozen=True, kw_only=True):
    """A request in the queue, as it is stored.

    `seen_at` is when its asker was last heard of. `lapses` counts the offers that were not taken
    up, and until `not_before` it gets no other. `taken_at` is set once it has been met. `avoid` has
    the ids of nodes that its asker could not use, each with the time until which it is left out.
    `via` is the id of the node whose agent vouched for its person, `None` for one who logged in.
    """

    id: str
    person: str
    request: QueueRequest
    arrived_at: float
    seen_at: float
    band: Band = "normal"
    offer: QueueOffer | None = None
    taken_at: float | None = None
    lapses: int = 0
    not_before: float = 0.0
    avoid: tuple[tuple[str, float], ...] = ()
    via: str | None = None


def edit(
    entry: QueueEntry, band: Band | None, note: str | None, max_hours: float | None
) -> QueueEntry:
    """Return a request with what is not `None` instead of what it had."""
    given = {"note": note, "max_hours": max_hours}
    changes: dict[str, Any] = {name: value for name, value in given.items() if value is not None}
    request = replace(entry.request, **changes)
    return replace(entry, request=request, band=band or entry.band)


Shape = tuple[int, str | None, Vendor | None, str, tuple[str, ...]]
"""What decides which GPUs a request could use, apart from how many."""


def shape_of(request: QueueRequest) -> Shape:
    """Return the shape of a request: all requests of one shape could use the same GPUs."""
    return request.min_free_bytes, request.model, request.vendor, request.where, request.uuids
