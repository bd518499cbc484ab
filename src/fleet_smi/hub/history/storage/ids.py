"""The numbers by which rows name nodes, GPUs, people and layouts: learned once, then known."""

from collections.abc import Callable, Iterable, Iterator
from itertools import chain
from typing import Any, Generic, TypeVar

import msgspec
from sqlalchemy import Connection, Table, select

from fleet_smi.hub.history.recording.rows import GpuKey, NodeRow, WriteBatch
from fleet_smi.hub.history.storage.bulk import execute_bulk
from fleet_smi.hub.history.storage.schema import (
    gpus,
    layouts,
    looks,
    named_upsert_statement,
    nodes,
    people,
    unique_columns,
)
from fleet_smi.model.heat_strip import StripLook, period_look
from fleet_smi.model.history import GpuOfNode

RowName = TypeVar("RowName")
UserGroup = tuple[str, str]
_AT_ONCE = 500


class _Numbers(Generic[RowName]):
    """The numbers of one table; `row` says what stands there of what is called so.

    What nobody has told of in this life of the hub may stand there from one before, and stays.
    """

    def __init__(self, table: Table, row: Callable[[RowName], dict[str, Any]]) -> None:
        self._known: dict[RowName, int] = {}
        self._told: set[RowName] = set()
        self._table, self._unique = table, unique_columns(table)
        self._naming, self._finding = (
            named_upsert_statement(table),
            named_upsert_statement(table, update=False),
        )
        self._row = row

    def __getitem__(self, name: RowName) -> int:
        return self._known[name]

    def learn(self, connection: Connection, names: Iterable[RowName]) -> None:
        """Ask for the numbers of these, and give them one where they have none."""
        rows = {name: self._row(name) for name in dict.fromkeys(names) if name not in self._known}
        told = [row for name, row in rows.items() if name in self._told]
        execute_bulk(connection, self._naming, told)
        execute_bulk(
            connection, self._finding, [row for n, row in rows.items() if n not in self._told]
        )
        unknown = {self._key(row): name for name, row in rows.items()}
        for key, number in self._found(connection, [*unknown]):
            if key in unknown:
                self._known[unknown[key]] = number

    def tell(self, name: RowName) -> None:
        self._told.add(name)
        self._known.pop(name, None)

    def forget_all(self) -> None:
        self._known.clear()

    def _key(self, row: dict[str, Any]) -> tuple[Any, ...]:
        return tuple(row[column.name] for column in self._unique)

    def _found(
        self, connection: Connection, keys: list[tuple[Any, ...]]
    ) -> Iterator[tuple[tuple[Any, ...], int]]:
        last = self._unique[-1]
        for first in range(0, len(keys), _AT_ONCE):
            some = last.in_({key[-1] for key in keys[first : first + _AT_ONCE]})
            for number, *key in connection.execute(
                select(self._table.c.key, *self._unique).where(some)
            ):
                yield tuple(key), number


class IdCache:
    """What the database calls things by.

    The numbers hold as long as transactions succeed: after one that did not, `forget`
    them. What nodes and GPUs are is kept, so that a new database can be told.
    """

    def __init__(self) -> None:
        self._nodes: dict[str, NodeRow] = {}
        self._gpus: dict[GpuKey, GpuOfNode] = {}
        self.node = _Numbers[str](nodes, self._node_row)
        self.gpu = _Numbers[GpuKey](gpus, self._gpu_row)
        self.person = _Numbers[UserGroup](people, _person_row)
        self.layout = _Numbers[tuple[str, ...]](layouts, _layout_row)
        self.look = _Numbers[StripLook](looks, _look_row)

    def resolve(self, connection: Connection, batch: WriteBatch) -> None:
        """Know all that a batch names, and what it says of nodes and GPUs."""
        for node in batch.nodes:
            self._nodes[node.node_id] = node
            self.node.tell(node.node_id)
        for gpu in batch.gpus:
            self._gpus[gpu.node_id, gpu.uuid] = gpu
            self.gpu.tell((gpu.node_id, gpu.uuid))
        places = dict.fromkeys(_places(batch))
        self.node.learn(connection, chain(_node_ids(batch), [place[0] for place in places]))
        self.gpu.learn(connection, places)
        self.person.learn(connection, _people(batch))
        self.layout.learn(connection, [row.uuids for row in batch.series])
        self.look.learn(connection, [period_look(period) for _, period in batch.periods])

    def invalidate(self) -> None:
        """Ask the database again for every number."""
        for numbers in (self.node, self.gpu, self.person, self.layout, self.look):
            numbers.forget_all()

    def _node_row(self, node_id: str) -> dict[str, Any]:
        row = self._nodes.get(node_id) or NodeRow(node_id=node_id, name=node_id)
        labels = msgspec.json.encode(row.labels).decode()
        return {"node_id": node_id, "name": row.name, "labels": labels}

    def _gpu_row(self, place: GpuKey) -> dict[str, Any]:
        node_id, uuid = place
        gpu = self._gpus.get(place) or GpuOfNode(uuid=uuid, node_id=node_id, node=node_id, index=0)
        return {
            "node": self.node[node_id],
            "uuid": uuid,
            "index": gpu.index,
            "vendor": gpu.vendor,
            "model": gpu.model,
            "memory_total_bytes": gpu.memory_total_bytes,
            "parent": gpu.parent,
        }


def _node_ids(batch: WriteBatch) -> Iterator[str]:
    yield from batch.removed_nodes
    told: tuple[list[Any], ...] = (batch.nodes, batch.presence, batch.series, batch.checkpoints)
    for row in chain.from_iterable(told):
        yield row.node_id


def _places(batch: WriteBatch) -> Iterator[GpuKey]:
    for gpu in batch.gpus:
        yield gpu.node_id, gpu.uuid
    for place, _ in chain(batch.periods, batch.occupancies):
        yield place
    for row in batch.usage:
        yield row.gpu_key


def _people(batch: WriteBatch) -> Iterator[UserGroup]:
    for _, one in batch.occupancies:
        yield one.holder.user, one.holder.group or ""
    for row in batch.usage:
        yield row.user, row.group


def _person_row(person: UserGroup) -> dict[str, Any]:
    user, group = person
    return {"user": user, "group": group}


def _layout_row(uuids: tuple[str, ...]) -> dict[str, Any]:
    return {"uuids": msgspec.json.encode(uuids).decode()}


def _look_row(look: StripLook) -> dict[str, Any]:
    state, user, others = look
    return {"state": state, "user": user, "others": others}
