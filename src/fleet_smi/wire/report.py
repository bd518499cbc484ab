"""Codec of the report: snapshots of one node as msgpack, with a version.

A report is a map: `version`, `sent_at` by the node's own clock, `snapshots`, oldest first, and
`hub`, the receipt of which it continues. JSON of the same shape is decoded, too. The age of a
snapshot is `sent_at` minus `taken_at`, both by the node's clock, so that no two clocks need to
agree. The other version, of reports that only say what changed, is in `compact.py`.
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
MAX_INLINE_BYTES = 64 << 10
"""Larger reports are decoded in a thread: 8 MiB would block the event loop for a second."""
MAX_AGE_SECONDS = 90 * 86_400.0
"""Of a snapshot: longer than an agent is without its hub, shorter than a clock is wrong by when
it is set for the first time."""
FILE_SUFFIX = ".fsmi"
"""Suffix of report files in a shared folder."""
MAX_SNAPSHOTS = MAX_ITEMS["snapshots"]


class Report(Struct, frozen=True, kw_only=True):
    """One decoded message of a node; the oldest snapshot first.

    `hub` is that of the receipt for the report before. A hub that gives another one by now lacks
    some of what was sent, and refuses the report: its sender begins again with the oldest sample
    that is not durable, in a report without `hub`.
    """

    version: int
    sent_at: float | None = None
    hub: str | None = None
    snapshots: tuple[Snapshot, ...]

    def age_seconds(self, snapshot: Snapshot) -> float:
        """Return how long before this report was sent the snapshot was taken.

        An age that no buffer has means that the node's clock was set in between: the snapshot is
        then taken to be as old as the oldest of this report whose age can be true.
        """
        if self.sent_at is None or self.sent_at - snapshot.taken_at <= MAX_AGE_SECONDS:
            return sample_age(self.sent_at, snapshot.taken_at)
        return max([sample_age(self.sent_at, each.taken_at) for each in self.snapshots])


def sample_age(sent_at: float | None, taken_at: float) -> float:
    """Return the seconds between sample and report; none where no buffer is as old as that."""
    age = 0.0 if sent_at is None else sent_at - taken_at
    return age if 0.0 < age <= MAX_AGE_SECONDS else 0.0


class Receipt(Struct, frozen=True, kw_only=True):
    """The hub's acknowledgement of a report.

    `hub` identifies this run of the hub, or the part of it since its history was last full: when
    it changes, what was sent and not `kept` may be lost and is sent again. `kept` is the highest
    sequence number of the report's last run that is durable; `interval_seconds` is the interval
    that the hub requests, if it does. What was not `recorded`, because the history is full, is
    only shown: it has to be sent again when `hub` has changed. `versions` are those of reports that
    the hub can read; one that names none reads the first.
    """

    hub: str
    kept: int | None = None
    interval_seconds: float | None = None
    recorded: bool = True
    versions: tuple[int, ...] = ()


def encode_snapshot(snapshot: Snapshot) -> bytes:
    """Encode one snapshot, to be buffered until it can be sent."""
    return _encoder.encode(snapshot)


def encode_report(snapshots: Sequence[bytes], sent_at: float, hub: str | None = None) -> bytes:
    """Encode a report of snapshots that are already encoded."""
    raw = [Raw(snapshot) for snapshot in snapshots]
    continued = {} if hub is None else {"hub": hub}
    return _encoder.encode(
        {"version": REPORT_VERSION, "sent_at": sent_at, **continued, "snapshots": raw}
    )


def encode_report_json(snapshots: Sequence[Snapshot], sent_at: float) -> bytes:
    """Encode a report as one line of JSON, for people and for programs without msgpack."""
    return msgspec.json.encode(
        {"version": REPORT_VERSION, "sent_at": sent_at, "snapshots": snapshots}
    )


def decode_report(body: bytes, *, json: bool = False) -> Report:
    """Decode and sanitise a report; raise `Undecodable` or `UnsupportedVersion`.

    What a node sends is hostile input until it has been through here. One bad field never
    hides the others, nor one bad snapshot: `lenient.py` describes the repairs. Unknown fields
    are ignored; of a duplicate field the last one counts.
    """
    if not body:
        raise Undecodable("an empty message")
    if len(body) > MAX_REPORT_BYTES:
        raise Undecodable(
            f"a message of {len(body)} bytes; a report has at most {MAX_REPORT_BYTES}"
        )
    # Nearly every report passes the strict decoder, which checks all limits in C. Only one that
    # fails is decoded a second time, field by field.
    try:
        report: Report = _strict_decoder(json).decode(body)
    except DECODE_ERRORS:
        report = _decode_leniently(body, json=json)
    _check_version(report.version)
    _check_snapshots(report.snapshots)
    snapshots = tuple([sanitize_snapshot(snapshot) for snapshot in report.snapshots])
    return Report(
        version=report.version, sent_at=report.sent_at, hub=report.hub, snapshots=snapshots
    )


def encode_receipt(receipt: Receipt) -> bytes:
    """Encode the acknowledgement: JSON, like every other response of the hub."""
    return msgspec.json.encode(receipt)


def decode_receipt(body: bytes) -> Receipt:
    """Decode the hub's acknowledgement; raise `Undecodable`."""
    try:
        return _receipt_decoder.decode(body)
    except DECODE_ERRORS as error:
        raise Undecodable(f"the hub's response is no receipt: {describe_error(error)}") from None


class _Envelope(Struct):
    """A report whose snapshots are not decoded yet."""

    sent_at: Raw = Raw()
    hub: Raw = Raw()
    snapshots: Annotated[tuple[Raw, ...], Meta(max_length=MAX_SNAPSHOTS)] = ()


class _Versioned(Struct):
    version: Annotated[int, Meta(ge=0, le=65_535)]


_encoder = msgspec.msgpack.Encoder()
_receipt_decoder = msgspec.json.Decoder(Receipt)


@cache
def _strict_decoder(json: bool) -> Any:
    """Return the decoder of reports within all limits; built on first use: agents need none."""
    report_type: Any = constrained_type(Report)
    return cached_decoder(report_type, json)


def _decode_leniently(body: bytes, *, json: bool) -> Report:
    """Return what is valid in a report that breaks a limit somewhere."""
    decoder = LenientDecoder(json=json)
    try:
        # The version first: a report of a later one may differ in everything else.
        _check_version(decoder.decode(body, _Versioned).version)
        envelope = decoder.decode(body, _Envelope)
    except DECODE_ERRORS as error:
        raise Undecodable(f"not a report: {_describe_other(body, error, json=json)}") from None
    snapshots, errors = [], []
    for raw in envelope.snapshots:
        try:
            snapshots.append(decoder.decode_snapshot(raw))
        except Undecodable as error:
            errors.append(error)
    if errors and not snapshots:
        raise errors[0]
    sent_at = decoder.decode_number(envelope.sent_at, "sent_at")
    hub = decoder.decode_text(envelope.hub, "hub")
    return Report(version=REPORT_VERSION, sent_at=sent_at, hub=hub, snapshots=tuple(snapshots))


def _describe_other(body: bytes, error: Exception, *, json: bool) -> str:
    """Return what was sent instead of a report, where the first byte shows it."""
    first = body[:64].lstrip()[:1]
    if first == b"<":
        return "it is a web page: does an agent of fleet-smi run there?"
    if first in (b"{", b"[") and not json:
        return "it is JSON, as other programs send: does an agent of fleet-smi run there?"
    return describe_error(error)


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
