"""Samples in the buffer that have another node id than this machine has now.

A clone gets a new machine-id, and with it a new node id and credential: its hub would refuse what
it buffered before. And a copied disk has samples of the machine that it was copied from.
"""

import logging
from collections.abc import Iterable

import msgspec

from fleet_smi.model.merge import with_node_id
from fleet_smi.model.snapshot import Snapshot
from fleet_smi.node.buffered_sample import BufferedSample
from fleet_smi.wire.report import encode_snapshot

logger = logging.getLogger(__name__)


def adopt_samples(samples: Iterable[BufferedSample], latest: Snapshot) -> list[BufferedSample]:
    """Return the samples of this machine, under the node id of its latest sample.

    Those of another machine are left out: it sends them itself.
    """
    adopted = [_adopt(sample, latest) for sample in samples]
    foreign = adopted.count(None)
    if foreign:
        logger.warning("%d samples in the spool are of another machine: not sent", foreign)
    return [sample for sample in adopted if sample is not None]


def _adopt(sample: BufferedSample, latest: Snapshot) -> BufferedSample | None:
    if sample.snapshot is not None and sample.snapshot.node_id == latest.node_id:
        return sample  # nearly every one
    if sample.run_id == latest.run_id and latest.node_id.encode() in sample.data:
        return sample  # it is not decoded
    try:
        snapshot = msgspec.msgpack.decode(sample.data, type=Snapshot)
    except (ValueError, RecursionError):
        return sample  # of another version: the hub decides
    if _is_of_another_machine(snapshot, latest):
        return None
    if snapshot.node_id == latest.node_id:
        return sample
    data = encode_snapshot(with_node_id(snapshot, latest.node_id))
    return BufferedSample(sample.run_id, sample.sequence, data)


def _is_of_another_machine(snapshot: Snapshot, latest: Snapshot) -> bool:
    """Return whether boot, GPUs, and name or address differ; one of these may change."""
    boots = {snapshot.boot_id, latest.boot_id}
    if None in boots or len(boots) == 1 or not _differ(_uuids(snapshot), _uuids(latest)):
        return False
    # Behind NAT, virtual machines may all have one address.
    addresses = set(snapshot.host.addresses), set(latest.host.addresses)
    return snapshot.name != latest.name or _differ(*addresses)


def _differ(one: set[str], other: set[str]) -> bool:
    return bool(one and other) and one.isdisjoint(other)


def _uuids(snapshot: Snapshot) -> set[str]:
    return {gpu.uuid for gpu in snapshot.gpus if not gpu.uuid_is_made}
