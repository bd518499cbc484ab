"""Decode the body of a report of either version, and make a compact one a full one."""

import time
from collections.abc import Iterator

from fleet_smi.errors import DeliveryError, NeedsFullReport
from fleet_smi.fleet.fleet import FleetState
from fleet_smi.hub.credentials import CredentialCache, Identity
from fleet_smi.model.snapshot import Snapshot
from fleet_smi.wire.compact import CompactReport, builds_on, expand
from fleet_smi.wire.compact_codec import decode_compact, is_compact
from fleet_smi.wire.report import Report, decode_report

DecodedReport = Report | CompactReport | DeliveryError
"""A report of either version, or why it is none: failures are values."""


def decode_body(body: bytes, *, is_json: bool) -> DecodedReport:
    """Decode a body, of either version as msgpack and of the first one as JSON."""
    try:
        if is_compact(body) and not is_json:
            return decode_compact(body)
        return decode_report(body, json=is_json)
    except DeliveryError as error:
        return error


def decode_timed(body: bytes, is_json: bool) -> tuple[DecodedReport, float]:
    """Like `decode_body`, with the CPU seconds that it took this thread."""
    started = time.thread_time()
    return decode_body(body, is_json=is_json), time.thread_time() - started


def expand_report(
    compact: CompactReport, identity: Identity, fleet: FleetState, credentials: CredentialCache
) -> Report:
    """Return a compact report in full; raise `NeedsFullReport` if its base is not the latest.

    What follows from who sent it, is settled by this: the base was accepted from the sender.
    """
    for base in _latest_snapshots(identity, fleet, credentials):
        if builds_on(compact, base):
            return Report(
                version=compact.version,
                sent_at=compact.sent_at,
                hub=compact.hub,
                snapshots=(expand(base, compact),),
            )
    raise NeedsFullReport("it builds on a snapshot that is not the latest of its node")


def _latest_snapshots(
    identity: Identity, fleet: FleetState, credentials: CredentialCache
) -> Iterator[Snapshot]:
    """Yield the latest snapshot of the node that has the credential.

    Then those of other machines that were told apart from it: they have a copy of its disk, and so
    of its credential.
    """
    if identity.node_id is None:
        return  # an open hub: nothing proves whose figures these are
    twins = fleet.identities.twins(identity.node_id)
    others = [twin for twin in twins if not credentials.has_node_credential(twin)]
    for node_id in (identity.node_id, *others):
        if (snapshot := fleet.latest_snapshot(node_id)) is not None:
            yield snapshot
