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

from fleet_smi.errors import Undecodable, UnsupportedVersion
from fleet_smi.model.snapshot import Snapshot
from fleet_smi.wire.error_text import describe_error
from fleet_smi.wire.lenient import DECODE_ERRORS, LenientDecoder, cached_decoder
from fleet_smi.wire.limits import MAX_ITEMS, constrained_type
from fleet_smi.wire.sanitize import sanitize_snapshot

REPORT_VERSION = 1
MAX_REPORT_BYTES = 8 << 20
FILE_SUFFIX = ".fsmi"
"""By this a report is known in a shared folder."""
MAX_SNAPSHOTS = MAX_ITEMS["snapshots"]


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
    return _encoder.encode({"version": REPORT_VERSION, "sent_at": sent_at, "snapshots": parts})


def encode_report_json(snapshots: Sequence[Snapshot], sent_at: float) -> bytes:
    """The same report as JSON in one line, for eyes and for programs without msgpack."""
    return msgspec.json.encode(
        {"version": REPORT_VERSION, "sent_at": sent_at, "snapshots": snapshots}
    )


def decode_report(body: bytes, *, json: bool = False) -> Report:
    """The report in these bytes, made harmless; raise `Undecodable` or `WrongVersion`.

    What a node says is hostile until it has been through here. One bad field never hides
    the rest, and one bad snapshot not the others: `salvage.py` says what becomes of it.
    Fields that are not known here are passed over; of a doubled one the last counts.
    """
    if not body:
        raise Undecodable("an empty message")
    if len(body) > MAX_REPORT_BYTES:
        raise Undecodable(
            f"a message of {len(body)} bytes; a report has at most {MAX_REPORT_BYTES}"
        )
    try:
        report: Report = _strict(json).decode(body)
    except DECODE_ERRORS:
        report = _salvaged(body, json=json)
    _check_version(report.version)
    _check_snapshots(report.snapshots)
    snapshots = tuple([sanitize_snapshot(snapshot) for snapshot in report.snapshots])
    return Report(version=report.version, sent_at=report.sent_at, snapshots=snapshots)


def encode_receipt(receipt: Receipt) -> bytes:
    """The hub's answer as it is sent: JSON, like every other answer of it."""
    return msgspec.json.encode(receipt)


def decode_receipt(body: bytes) -> Receipt:
    """The hub's answer in these bytes; raise `Undecodable`."""
    try:
        return _receipt_decoder.decode(body)
    except DECODE_ERRORS as error:
        raise Undecodable(f"the hub's answer is no receipt: {describe_error(error)}") from None


class _Envelope(Struct):
    """A report with its parts as the bytes that they came in."""

    sent_at: Raw = Raw()
    snapshots: Annotated[tuple[Raw, ...], Meta(max_length=MAX_SNAPSHOTS)] = ()


class _Versioned(Struct):
    version: Annotated[int, Meta(ge=0, le=65_535)]


_encoder = msgspec.msgpack.Encoder()
_receipt_decoder = msgspec.json.Decoder(Receipt)


@cache
def _strict(json: bool) -> Any:
    """Reads a report that keeps all bounds; made when first needed, for agents read none."""
    shape: Any = constrained_type(Report)
    return cached_decoder(shape, json)


def _salvaged(body: bytes, *, json: bool) -> Report:
    """What is right in a report that breaks the bounds somewhere."""
    salvage = LenientDecoder(json=json)
    try:
        _check_version(salvage.decode(body, _Versioned).version)
        envelope = salvage.decode(body, _Envelope)
    except DECODE_ERRORS as error:
        raise Undecodable(f"not a report: {describe_error(error)}") from None
    found, errors = [], []
    for raw in envelope.snapshots:
        try:
            found.append(salvage.decode_snapshot(raw))
        except Undecodable as error:
            errors.append(error)
    if errors and not found:
        raise errors[0]
    sent_at = salvage.decode_number(envelope.sent_at, "sent_at")
    return Report(version=REPORT_VERSION, sent_at=sent_at, snapshots=tuple(found))


def _check_version(version: int) -> None:
    if version != REPORT_VERSION:
        remedy = "update the hub" if version > REPORT_VERSION else "update the agent"
        raise UnsupportedVersion(
            f"a report of version {version}; this hub knows {REPORT_VERSION}: {remedy}"
        )


def _check_snapshots(snapshots: tuple[Snapshot, ...]) -> None:
    if not snapshots:
        raise Undecodable("a report without a snapshot")
    if len(snapshots) > 1 and len({snapshot.node_id for snapshot in snapshots}) > 1:
        raise Undecodable("a report with snapshots of more than one node")
