"""The numbers by which rows name nodes, GPUs, people and layouts: learned once, then known."""

from collections.abc import Callable
from typing import Any, Generic, TypeVar

import msgspec
from sqlalchemy import Connection, Table

from fleet_smi.hub.history.rows import NodeRow, Place
from fleet_smi.hub.history.schema import gpus, layouts, naming, nodes, people
from fleet_smi.model.history import GpuOfNode

Name = TypeVar("Name")


class _Numbers(Generic[Name]):
    """The numbers of one table; `row` says what stands there of what is called so.

    What nobody has told of in this life of the hub may stand there from one before, and stays.
    """

    def __init__(self, table: Table, row: Callable[[Connection, Name], dict[str, Any]]) -> None:
        self._known: dict[Name, int] = {}
        self._told: set[Name] = set()
        self._naming, self._finding = naming(table), naming(table, again=False)
        self._row = row

    def __call__(self, connection: Connection, name: Name) -> int:
        known = self._known.get(name)
        if known is None:
            asked = self._naming if name in self._told else self._finding
            known = connection.execute(asked, self._row(connection, name)).scalar_one()
            self._known[name] = known
        return known

    def tell(self, name: Name) -> None:
        self._told.add(name)
        self._known.pop(name, None)

    def forget_all(self) -> None:
        self._known.clear()


class Keys:
    """What the database calls things by.

    The numbers hold as long as transactions succeed: after one that did not, `forget`
    them. What nodes and GPUs are is kept, so that a new database can be told.
    """

    def __init__(self) -> None:
        self._nodes: dict[str, NodeRow] = {}
        self._gpus: dict[Place, GpuOfNode] = {}
        self.node = _Numbers[str](nodes, self._node_row)
        self.gpu = _Numbers[Place](gpus, self._gpu_row)
        self.person = _Numbers[tuple[str, str]](people, _person_row)
        self.layout = _Numbers[tuple[str, ...]](layouts, _layout_row)

    def learn_node(self, row: NodeRow) -> None:
        """A node is called this from now on."""
        self._nodes[row.node_id] = row
        self.node.tell(row.node_id)

    def learn_gpu(self, gpu: GpuOfNode) -> None:
        """A GPU is this, and there, from now on."""
        self._gpus[gpu.node_id, gpu.uuid] = gpu
        self.gpu.tell((gpu.node_id, gpu.uuid))

    def forget(self) -> None:
        """Ask the database again for every number."""
        for numbers in (self.node, self.gpu, self.person, self.layout):
            numbers.forget_all()

    def _node_row(self, _: Connection, node_id: str) -> dict[str, Any]:
        row = self._nodes.get(node_id) or NodeRow(node_id=node_id, name=node_id)
        labels = msgspec.json.encode(row.labels).decode()
        return {"node_id": node_id, "name": row.name, "labels": labels}

    def _gpu_row(self, connection: Connection, place: Place) -> dict[str, Any]:
        node_id, uuid = place
        gpu = self._gpus.get(place) or GpuOfNode(uuid=uuid, node_id=node_id, node=node_id, index=0)
        return {
            "node": self.node(connection, node_id),
            "uuid": uuid,
            "index": gpu.index,
            "vendor": gpu.vendor,
            "model": gpu.model,
            "memory_total_bytes": gpu.memory_total_bytes,
            "parent": gpu.parent,
        }


def _person_row(_: Connection, person: tuple[str, str]) -> dict[str, Any]:
    user, group = person
    return {"user": user, "group": group}


def _layout_row(_: Connection, uuids: tuple[str, ...]) -> dict[str, Any]:
    return {"uuids": msgspec.json.encode(uuids).decode()}
