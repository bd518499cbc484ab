"""Id cache: the integer keys of nodes, GPUs, people, layouts and looks in the database."""

from collections.abc import Callable, Iterable, Iterator
from itertools import chain
from typing import Any, Generic, TypeVar

import msgspec
from sqlalchemy import Connection, Table, select

from fleet_smi.hub.history.recording.rows import NodeRow, WriteBatch
from fleet_smi.hub.history.series.layout import RowLayout, encode_layout
from fleet_smi.hub.history.series.series_row import GpuKey
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
LayoutName = tuple[tuple[str, ...], RowLayout]
_KEYS_PER_QUERY = 500  # below the limit of bound parameters, 999 in older versions of SQLite


class _TableIds(Generic[RowName]):
    """The ids of one table, cached by name; `row` gives the column values of a name.

    A name that was not described since the hub started may have a better row from before:
    that row is looked up but never updated.
    """

    def __init__(self, table: Table, row: Callable[[RowName], dict[str, Any]]) -> None:
        self._ids: dict[RowName, int] = {}
        self._described: set[RowName] = set()
        self._table, self._unique = table, unique_columns(table)
        self._upsert = named_upsert_statement(table)
        self._insert_missing = named_upsert_statement(table, update=False)
        self._row = row

    def __getitem__(self, name: RowName) -> int:
        return self._ids[name]

    def resolve(self, connection: Connection, names: Iterable[RowName]) -> None:
        """Look up the ids of names that are not cached; insert rows for new ones."""
        rows = {name: self._row(name) for name in dict.fromkeys(names) if name not in self._ids}
        described = [row for name, row in rows.items() if name in self._described]
        others = [row for name, row in rows.items() if name not in self._described]
        # Inserted before the lookup, so that old and new names take the same path.
        execute_bulk(connection, self._upsert, described)
        execute_bulk(connection, self._insert_missing, others)
        name_by_key = {self._key(row): name for name, row in rows.items()}
        for key, row_id in self._select(connection, [*name_by_key]):
            if key in name_by_key:
                self._ids[name_by_key[key]] = row_id

    def describe(self, name: RowName) -> None:
        """Update the row of a name with the next `resolve`."""
        # Without a cached id it is resolved again, which upserts the row.
        self._described.add(name)
        self._ids.pop(name, None)

    def clear(self) -> None:
        self._ids.clear()

    def _key(self, row: dict[str, Any]) -> tuple[Any, ...]:
        return tuple(row[column.name] for column in self._unique)

    def _select(
        self, connection: Connection, keys: list[tuple[Any, ...]]
    ) -> Iterator[tuple[tuple[Any, ...], int]]:
        """Yield rows by the last unique column, as keys and ids; the caller skips others."""
        last = self._unique[-1]
        for first in range(0, len(keys), _KEYS_PER_QUERY):
            chunk = last.in_({key[-1] for key in keys[first : first + _KEYS_PER_QUERY]})
            query = select(self._table.c.key, *self._unique).where(chunk)
            for row_id, *key in connection.execute(query):
                yield tuple(key), row_id


class IdCache:
    """The ids that rows refer to.

    They are valid as long as transactions succeed: after a failed one, `invalidate` them. The
    descriptions of nodes and GPUs stay, so that they can be written to a new database.
    """

    def __init__(self) -> None:
        self._nodes: dict[str, NodeRow] = {}
        self._gpus: dict[GpuKey, GpuOfNode] = {}
        self.node = _TableIds[str](nodes, self._node_row)
        self.gpu = _TableIds[GpuKey](gpus, self._gpu_row)
        self.person = _TableIds[UserGroup](people, _person_row)
        self.layout = _TableIds[LayoutName](layouts, _layout_row)
        self.look = _TableIds[StripLook](looks, _look_row)

    def resolve(self, connection: Connection, batch: WriteBatch) -> None:
        """Cache the ids of everything that a batch refers to, and write its nodes and GPUs."""
        for node in batch.nodes:
            self._nodes[node.node_id] = node
            self.node.describe(node.node_id)
        for gpu in batch.gpus:
            self._gpus[gpu.node_id, gpu.uuid] = gpu
            self.gpu.describe((gpu.node_id, gpu.uuid))
        # Nodes before GPUs: the row of a GPU has the id of its node.
        gpu_keys = dict.fromkeys(_gpu_keys(batch))
        self.node.resolve(connection, chain(_node_ids(batch), [gpu_key[0] for gpu_key in gpu_keys]))
        self.gpu.resolve(connection, gpu_keys)
        self.person.resolve(connection, _people(batch))
        self.layout.resolve(connection, [(row.uuids, row.layout) for row in batch.series])
        self.look.resolve(connection, [period_look(period) for _, period in batch.periods])

    def invalidate(self) -> None:
        """Drop all cached ids."""
        for ids in (self.node, self.gpu, self.person, self.layout, self.look):
            ids.clear()

    def _node_row(self, node_id: str) -> dict[str, Any]:
        row = self._nodes.get(node_id) or NodeRow(node_id=node_id, name=node_id)
        labels = msgspec.json.encode(row.labels).decode()
        return {"node_id": node_id, "name": row.name, "labels": labels}

    def _gpu_row(self, gpu_key: GpuKey) -> dict[str, Any]:
        node_id, uuid = gpu_key
        gpu = self._gpus.get(gpu_key) or GpuOfNode(
            uuid=uuid, node_id=node_id, node=node_id, index=0
        )
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
    rows: tuple[list[Any], ...] = (batch.nodes, batch.presence, batch.series, batch.checkpoints)
    for row in chain.from_iterable(rows):
        yield row.node_id


def _gpu_keys(batch: WriteBatch) -> Iterator[GpuKey]:
    for gpu in batch.gpus:
        yield gpu.node_id, gpu.uuid
    for gpu_key, _ in chain(batch.periods, batch.occupancies):
        yield gpu_key
    for row in batch.usage:
        yield row.gpu_key


def _people(batch: WriteBatch) -> Iterator[UserGroup]:
    for _, occupancy in batch.occupancies:
        yield occupancy.holder.user, occupancy.holder.group or ""
    for row in batch.usage:
        yield row.user, row.group


def _person_row(person: UserGroup) -> dict[str, Any]:
    user, group = person
    return {"user": user, "group": group}


def _layout_row(name: LayoutName) -> dict[str, Any]:
    uuids, layout = name
    return {"uuids": msgspec.json.encode(uuids).decode(), "figures": encode_layout(layout)}


def _look_row(look: StripLook) -> dict[str, Any]:
    state, user, others = look
    return {"state": state, "user": user, "others": others}
