"""Id cache: the integer keys of nodes, GPUs, people, layouts and looks in the database."""

from collections.abc import Callable, Iterable, Iterator
from itertools import chain
from typing import Any, Generic, TypeVar

import msgspec
from sqlalchemy import Connection, Table

from fleet_smi.hub.history.recording.rows import NodeRow, WriteBatch
from fleet_smi.hub.history.series.layout import RowLayout, decode_layout, encode_layout
from fleet_smi.hub.history.series.series_row import GpuKey
from fleet_smi.hub.history.storage.bulk import execute_bulk, select_each
from fleet_smi.hub.history.storage.schema import (
    gpus,
    layouts,
    looks,
    named_select_statement,
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
_decode_uuids = msgspec.json.Decoder(tuple[str, ...]).decode


class _TableIds(Generic[RowName]):
    """The ids of one table, cached by name; `row` gives the column values of a name.

    A name that was not described since the hub started may have a better row from before:
    that row is looked up but never updated.
    """

    def __init__(
        self, table: Table, row: Callable[[RowName], dict[str, Any]], max_cached: int = 200_000
    ) -> None:
        self._max_cached = max_cached
        self._ids: dict[RowName, int] = {}
        self._described: set[RowName] = set()
        self._unique = unique_columns(table)
        self._upsert = named_upsert_statement(table)
        self._select = named_select_statement(table)
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
        # One by one, by all unique columns: in SQLite no query for many of them uses their index.
        for row_id, *key in select_each(connection, self._select, rows.values()):
            self._ids[name_by_key[tuple(key)]] = row_id

    def describe(self, name: RowName) -> None:
        """Update the row of a name with the next `resolve`."""
        # Without a cached id it is resolved again, which upserts the row.
        self._described.add(name)
        self._ids.pop(name, None)

    def forget(self, name: RowName) -> None:
        """Drop what is known of a name whose row was deleted."""
        self._ids.pop(name, None)
        self._described.discard(name)

    def trim(self) -> None:
        """Drop all ids where there are too many: a node may make up names without end."""
        if len(self._ids) > self._max_cached:
            self._ids.clear()
            self._described.clear()

    def clear(self) -> None:
        self._ids.clear()

    def _key(self, row: dict[str, Any]) -> tuple[Any, ...]:
        return tuple(row[column.name] for column in self._unique)


class IdCache:
    """The ids that rows refer to.

    They are valid as long as transactions succeed: after a failed one, `invalidate` them. The
    descriptions of nodes and GPUs stay, so that they can be written to a new database.
    """

    def __init__(self) -> None:
        self._nodes: dict[str, NodeRow] = {}
        self._gpus: dict[GpuKey, GpuOfNode] = {}
        self._current: dict[str, set[GpuKey]] = {}
        self.node = _TableIds[str](nodes, self._node_row)
        self.gpu = _TableIds[GpuKey](gpus, self._gpu_row)
        self.person = _TableIds[UserGroup](people, _person_row)
        # Each has the UUIDs of all GPUs of a node.
        self.layout = _TableIds[LayoutName](layouts, _layout_row, max_cached=20_000)
        self.look = _TableIds[StripLook](looks, _look_row)
        every = (self.node, self.gpu, self.person, self.layout, self.look)
        self._tables: tuple[_TableIds[Any], ...] = every

    def resolve(self, connection: Connection, batch: WriteBatch) -> None:
        """Cache the ids of everything that a batch refers to, and write its nodes and GPUs."""
        # Here, and not when a name is added: the ids of one batch are needed together.
        for ids in self._tables:
            ids.trim()
        for node in batch.nodes:
            self._nodes[node.node_id] = node
            self.node.describe(node.node_id)
            # A node is always described with all of its GPUs.
            self._current[node.node_id] = set()
        for gpu in batch.gpus:
            self._gpus[gpu.node_id, gpu.uuid] = gpu
            self.gpu.describe((gpu.node_id, gpu.uuid))
            self._current.setdefault(gpu.node_id, set()).add((gpu.node_id, gpu.uuid))
        for node_id in batch.removed_nodes:
            self._current[node_id] = set()
        # Nodes before GPUs: the row of a GPU has the id of its node.
        gpu_keys = dict.fromkeys(_gpu_keys(batch))
        self.node.resolve(connection, chain(_node_ids(batch), [gpu_key[0] for gpu_key in gpu_keys]))
        self.gpu.resolve(connection, gpu_keys)
        self.person.resolve(connection, _people(batch))
        self.layout.resolve(connection, [(row.uuids, row.layout) for row in batch.series])
        self.look.resolve(connection, [period_look(period) for _, period in batch.periods])

    def is_current(self, gpu_key: GpuKey) -> bool | None:
        """Whether its node has this GPU now; `None` if it has not reported to this hub yet."""
        current = self._current.get(gpu_key[0])
        return None if current is None else gpu_key in current

    def forget(self, gpus: Iterable[GpuKey], users: Iterable[UserGroup]) -> None:
        """Drop what is known of GPUs and people whose rows were deleted."""
        for gpu_key in gpus:
            self._gpus.pop(gpu_key, None)
            self.gpu.forget(gpu_key)
        for user in users:
            self.person.forget(user)

    def forget_layouts(self, layouts: Iterable[tuple[str, str]]) -> None:
        """Drop the ids of layouts whose rows, with these UUIDs and figures, were deleted."""
        for uuids, figures in layouts:
            self.layout.forget((_decode_uuids(uuids), decode_layout(figures)))

    def forget_looks(self, looks: Iterable[StripLook]) -> None:
        """Drop the ids of looks whose rows were deleted."""
        for look in looks:
            self.look.forget(look)

    def forget_description(self, batch: WriteBatch) -> None:
        """Drop the descriptions in a batch that cannot be written: they would fail each time."""
        for node in batch.nodes:
            self._nodes.pop(node.node_id, None)
            self.node.forget(node.node_id)
        self.forget([(gpu.node_id, gpu.uuid) for gpu in batch.gpus], ())

    def invalidate(self) -> None:
        """Drop all cached ids."""
        for ids in self._tables:
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
    for gpu_key, _, _ in batch.removed_occupancies:
        yield gpu_key


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
