"""Buffered samples follow the node id of their machine; those of another machine are not sent."""

import msgspec
import pytest

from fleet_smi.model.snapshot import Host, Snapshot
from fleet_smi.node.buffer import ReportBuffer
from fleet_smi.node.buffered_sample import BufferedSample
from fleet_smi.node.own_samples import adopt_samples
from fleet_smi.wire.report import encode_snapshot
from tests.builders import gpu, snapshot

OLD, NEW = "id-of-both", "id-of-clone"


def taken(
    sequence: int,
    node_id: str = NEW,
    *,
    run: str = "run-2",
    boot: str = "boot-of-clone",
    uuid: str = "GPU-of-clone",
    address: str = "10.0.0.2",
    name: str = "clone",
) -> Snapshot:
    made = gpu(1, uuid=f"gpu1@{node_id}", uuid_is_made=True)
    return snapshot(
        gpu(0, uuid=uuid),
        made,
        node=name,
        node_id=node_id,
        sequence=sequence,
        run_id=run,
        boot_id=boot,
        host=Host(addresses=(address,)),
    )


def encoded(snapshot: Snapshot) -> BufferedSample:
    return BufferedSample(snapshot.run_id, snapshot.sequence, encode_snapshot(snapshot))


def adopted(*samples: Snapshot) -> list[Snapshot]:
    found = adopt_samples([encoded(each) for each in samples], taken(9))
    return [msgspec.msgpack.decode(each.data, type=Snapshot) for each in found]


def test_samples_from_before_a_new_machine_id_get_the_new_node_id() -> None:
    found = adopted(taken(1, OLD, run="run-1"), taken(2, OLD), taken(3, "name-clone"), taken(4))
    assert [each.node_id for each in found] == [NEW] * 4
    assert [(each.run_id, each.sequence) for each in found] == [
        ("run-1", 1),
        ("run-2", 2),
        ("run-2", 3),
        ("run-2", 4),
    ]
    assert {each.gpus[1].uuid for each in found} == {f"gpu1@{NEW}"}


def test_a_machine_that_was_rebooted_repaired_or_moved_sends_its_own_samples() -> None:
    changed = [
        taken(1, OLD, run="run-1", boot="boot-before"),
        taken(2, run="run-1", boot="boot-before", uuid="GPU-before"),
        taken(3, run="run-1", boot="boot-before", address="192.0.2.1"),
    ]
    assert [each.sequence for each in adopted(*changed)] == [1, 2, 3]


@pytest.mark.parametrize("node_id", [OLD, NEW])
@pytest.mark.parametrize("other", [{"address": "10.0.0.1"}, {"name": "first"}], ids=str)
def test_samples_that_were_copied_with_the_disk_of_another_machine_are_not_sent(
    node_id: str, other: dict[str, str]
) -> None:
    copied = taken(1, node_id, run="run-1", boot="boot-of-first", uuid="GPU-of-first", **other)
    assert [each.sequence for each in adopted(copied, taken(2))] == [2]


def test_a_sample_that_cannot_be_decoded_is_left_to_the_hub() -> None:
    damaged = BufferedSample("run-1", 1, b"\xc1")
    assert adopt_samples([damaged], taken(2)) == [damaged]


def test_a_batch_has_samples_of_one_node_id() -> None:
    buffer = ReportBuffer(None)
    for each in (taken(1, OLD), taken(2)):
        buffer.add(encoded(each))
    batch = buffer.next_batch(taken(2))
    ids = [msgspec.msgpack.decode(each.data, type=Snapshot).node_id for each in batch]
    assert ids == [NEW, NEW]
