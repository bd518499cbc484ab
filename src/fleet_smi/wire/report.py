"""The report: snapshots of one node as bytes, with a version.

A report is a map: `version`, `sent_at` by the node's own clock, and `snapshots`, the oldest
first. It is msgpack; JSON of the same shape is read too. How old a snapshot is, is told by
the node's clock alone, `sent_at` less `taken_at`: so no two clocks need to agree.
"""

from collections.abc import Sequence
from functools import cache
from typing import Annotated, Any

import msgspec
from msgspec import Meta, Raw, Struct

from fleet_smi.errors import Undecodable, WrongVersion
from fleet_smi.model.snapshot import Snapshot
from fleet_smi.wire.bounds import MOST, narrowed
from fleet_smi.wire.plain_words import plain_words
from fleet_smi.wire.received import harmless
from fleet_smi.wire.salvage import UNREADABLE, Salvage, decoder

VERSION = 1
MOST_BYTES = 8 << 20
FILE_SUFFIX = ".fsmi"
"""By this a report is known in a shared folder."""
MOST_SNAPSHOTS = MOST["snapshots"]


class Report(Struct, frozen=True, kw_only=True):
    """What one message of a node says; the oldest snapshot first."""

    version: int
    sent_at: float | None = None
    snapshots: tuple[Snapshot, ...]

    def age_seconds(self, snapshot: Snapshot) -> float:
        """How long before this report was sent the snapshot was taken."""
        return 0.0 if self.sent_at is None else max(0.0, self.sent_at - snapshot.taken_at)


class Receipt(Struct, frozen=True, kw_only=True):
    """The hub's answer to a report.

    `hub` names this life of the hub: when it changes, what was sent and not `kept` may be
    lost and is sent again. `kept` is the highest sequence of the report's last run that the
    hub will still know after a crash; `interval_seconds` is what it asks for, if it does.
    """

    hub: str
    kept: int | None = None
    interval_seconds: float | None = None


def encode_snapshot(snapshot: Snapshot) -> bytes:
    """One snapshot as it is kept until it can be sent."""
    return _encoder.encode(snapshot)


def encode_report(snapshots: Sequence[bytes], sent_at: float) -> bytes:
    """A report of snapshots that are encoded already."""
    parts = [Raw(each) for each in snapshots]
    return _encoder.encode({"version": VERSION, "sent_at": sent_at, "snapshots": parts})


def encode_report_json(snapshots: Sequence[Snapshot], sent_at: float) -> bytes:
    """The same report as JSON in one line, for eyes and for programs without msgpack."""
    return msgspec.json.encode({"version": VERSION, "sent_at": sent_at, "snapshots": snapshots})


def decode_report(body: bytes, *, json: bool = False) -> Report:
    """The report in these bytes, made harmless; raise `Undecodable` or `WrongVersion`.

    What a node says is hostile until it has been through here. One bad field never hides
    the rest, and one bad snapshot not the others: `salvage.py` says what becomes of it.
    Fields that are not known here are passed over; of a doubled one the last counts.
    """
    if not body:
        raise Undecodable("an empty message")
    if len(body) > MOST_BYTES:
        raise Undecodable(f"a message of {len(body)} bytes; a report has at most {MOST_BYTES}")
    try:
        report: Report = _strict(json).decode(body)
    except UNREADABLE:
        report = _salvaged(body, json=json)
    _check_version(report.version)
    _check_snapshots(report.snapshots)
    snapshots = tuple([harmless(snapshot) for snapshot in report.snapshots])
    return Report(version=report.version, sent_at=report.sent_at, snapshots=snapshots)


def encode_receipt(receipt: Receipt) -> bytes:
    """The hub's answer as it is sent: JSON, like every other answer of it."""
    return msgspec.json.encode(receipt)


def decode_receipt(body: bytes) -> Receipt:
    """The hub's answer in these bytes; raise `Undecodable`."""
    try:
        return _receipt_decoder.decode(body)
    except UNREADABLE as error:
        raise Undecodable(f"the hub's answer is no receipt: {plain_words(error)}") from None


class _Envelope(Struct):
    """A report with its parts as the bytes that they came in."""

    sent_at: Raw = Raw()
    snapshots: Annotated[tuple[Raw, ...], Meta(max_length=MOST_SNAPSHOTS)] = ()


class _Versioned(Struct):
    version: Annotated[int, Meta(ge=0, le=65_535)]


_encoder = msgspec.msgpack.Encoder()
_receipt_decoder = msgspec.json.Decoder(Receipt)


@cache
def _strict(json: bool) -> Any:
    """Reads a report that keeps all bounds; made when first needed, for agents read none."""
    shape: Any = narrowed(Report)
    return decoder(shape, json)


def _salvaged(body: bytes, *, json: bool) -> Report:
    """What is right in a report that breaks the bounds somewhere."""
    salvage = Salvage(json=json)
    try:
        _check_version(salvage.read(body, _Versioned).version)
        envelope = salvage.read(body, _Envelope)
    except UNREADABLE as error:
        raise Undecodable(f"not a report: {plain_words(error)}") from None
    found, errors = [], []
    for raw in envelope.snapshots:
        try:
            found.append(salvage.snapshot(raw))
        except Undecodable as error:
            errors.append(error)
    if errors and not found:
        raise errors[0]
    sent_at = salvage.figure(envelope.sent_at, "sent_at")
    return Report(version=VERSION, sent_at=sent_at, snapshots=tuple(found))


def _check_version(version: int) -> None:
    if version != VERSION:
        remedy = "update the hub" if version > VERSION else "update the agent"
        raise WrongVersion(f"a report of version {version}; this hub knows {VERSION}: {remedy}")


def _check_snapshots(snapshots: tuple[Snapshot, ...]) -> None:
    if not snapshots:
        raise Undecodable("a report without a snapshot")
    if len(snapshots) > 1 and len({snapshot.node_id for snapshot in snapshots}) > 1:
        raise Undecodable("a report with snapshots of more than one node")
