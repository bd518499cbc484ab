"""Node descriptions: the rows that name a node and its GPUs, written when they change."""

from collections.abc import Iterator

from msgspec.structs import replace

from fleet_smi.fleet.fleet import FleetState
from fleet_smi.hub.history.recording.rows import NodeRow, WriteBatch
from fleet_smi.hub.history.series.buffer import device_uuids
from fleet_smi.model.history import GpuOfNode
from fleet_smi.model.snapshot import Snapshot


class NodeDescriptions:
    """The latest description of each node of a fleet: its name, labels and GPUs."""

    def __init__(self, fleet: FleetState) -> None:
        self._fleet = fleet
        self._written: dict[str, tuple[NodeRow, tuple[str, ...]]] = {}

    def add(self, snapshot: Snapshot, batch: WriteBatch) -> None:
        """Add the rows of a node and its GPUs to a batch where they have changed."""
        node_id = snapshot.node_id
        name, labels = self._fleet.name_and_labels(node_id)
        row, uuids = NodeRow(node_id=node_id, name=name, labels=labels), device_uuids(snapshot)
        if self._written.get(node_id) != (row, uuids):
            self._written[node_id] = row, uuids
            batch.nodes.append(row)
            batch.gpus += _gpu_rows(snapshot, name)

    def forget(self, node_id: str) -> None:
        """Forget a node that was removed; should it return, its rows are written again."""
        self._written.pop(node_id, None)


def _gpu_rows(snapshot: Snapshot, node: str) -> Iterator[GpuOfNode]:
    """Rows of the GPUs of a node, each followed by its instances."""
    for gpu in snapshot.gpus:
        whole = GpuOfNode(
            uuid=gpu.uuid,
            node_id=snapshot.node_id,
            node=node,
            index=gpu.index,
            vendor=gpu.vendor,
            model=gpu.name,
            memory_total_bytes=gpu.memory_total_bytes,
        )
        yield whole
        for instance in gpu.instances:
            yield replace(
                whole,
                uuid=instance.uuid,
                model=instance.profile,
                memory_total_bytes=instance.memory_total_bytes,
                parent=gpu.uuid,
            )
