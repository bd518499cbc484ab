"""Decode the body of a report of either version, and find what a compact one builds on."""

import time

from msgspec import Struct

from fleet_smi.errors import DeliveryError, NeedsFullReport
from fleet_smi.fleet.fleet import FleetState
from fleet_smi.fleet.node_sample import NodeSample
from fleet_smi.hub.credentials import CredentialCache, Identity
from fleet_smi.model.snapshot import Snapshot
from fleet_smi.model.snapshot_figures import SnapshotFigures
from fleet_smi.wire.compact import CompactReport, builds_on, merge
from fleet_smi.wire.compact_codec import decode_compact, is_compact
from fleet_smi.wire.packed import decode_packed, is_packed
from fleet_smi.wire.report import Report, decode_report, sample_age

DecodedReport = Report | CompactReport | DeliveryError
"""A report of either version, or why it is none: failures are values."""


def decode_body(body: bytes, *, is_json: bool) -> DecodedReport:
    """Decode a body, of any version as msgpack or packed, and of the first one as JSON."""
    try:
        if is_compact(body) and not is_json:
            return decode_compact(body)
        if is_packed(body) and not is_json:
            return decode_packed(body)
        return decode_report(body, json=is_json)
    except DeliveryError as error:
        return error


def decode_timed(body: bytes, is_json: bool) -> tuple[DecodedReport, float]:
    """Like `decode_body`, with the CPU seconds that it took this thread."""
    started = time.thread_time()
    return decode_body(body, is_json=is_json), time.thread_time() - started


class FigureReport(Struct, frozen=True, gc=False):
    """The figures of a compact report, and a snapshot of its node that has all but these."""

    base: Snapshot
    figures: SnapshotFigures
    age_seconds: float


def merge_report(
    compact: CompactReport, identity: Identity, fleet: FleetState, credentials: CredentialCache
) -> FigureReport:
    """Return the figures of a compact report; raise `NeedsFullReport` if its base is outdated.

    What follows from who sent it, is settled by this: the base was accepted from the sender.
    """
    node_id = identity.node_id
    if node_id is not None:  # else an open hub: nothing proves whose figures these are
        latest = fleet.figure_reports.base(node_id)
        if latest is None or not builds_on(compact, latest):
            latest = _latest_of_twins(compact, node_id, fleet, credentials)
        if latest is not None:
            figures = merge(latest.figures, compact, latest.limits)
            age_seconds = sample_age(compact.sent_at, compact.taken_at)
            return FigureReport(latest.base, figures, age_seconds)
    raise NeedsFullReport("it builds on a snapshot that is not the latest of its node")


def _latest_of_twins(
    compact: CompactReport, node_id: str, fleet: FleetState, credentials: CredentialCache
) -> NodeSample | None:
    """Return the base of a report by another machine that was told apart from the node.

    It has a copy of its disk, and so of its credential.
    """
    for twin in fleet.identities.twins(node_id):
        sample = fleet.figure_reports.base(twin)
        is_known = sample is not None and not credentials.has_node_credential(twin)
        if is_known and sample is not None and builds_on(compact, sample):
            return sample
    return None
