"""Shares of the ledger: at the size limit, the nodes with most rows lose their oldest first.

A node that reports other processes every time fills the database, and what is deleted for that
must not be the history of all others. Only the single periods and occupancies are deleted: sums of
usage stay, equal by user, node and GPU.
"""

from collections.abc import Generator
from math import inf

from msgspec import Struct
from sqlalchemy import ColumnElement, Table, delete, func, select, tuple_

from fleet_smi.hub.history.storage import schema
from fleet_smi.hub.history.storage.store import HistoryStore

_ROWS_PER_STEP = 4000
# Each row is in a table and in one or two indexes.
_ROW_BYTES = 250
# To measure is to read all of the ledger, if in small steps.
_MEASURE_SECONDS = 600.0
# The number of parts that the time of a node's rows is cut into; the oldest are deleted.
_SLICES = 64
_BLOBS = {
    schema.occupancies: schema.occupancies.c.holder,
    schema.periods: schema.periods.c.holders,
}


class _Share(Struct, order=True):
    """The rows of one node; the largest sorts last."""

    size_bytes: int
    rows: int
    node: int


class LedgerShares:
    """Trims the ledgers of the largest nodes; measures them only now and then."""

    def __init__(self) -> None:
        self._measured_at = -inf

    def trim(self, store: HistoryStore, max_bytes: int, now: float) -> Generator[None, None, int]:
        """Delete what single nodes have beyond an equal share; return the excess that is left."""
        used = store.used_bytes()
        excess = used - max_bytes
        if excess <= 0 or now < self._measured_at + _MEASURE_SECONDS:
            return excess
        self._measured_at = now
        shares = yield from _measure(store)
        # Of what the ledger may have, in the same proportion as the whole database.
        ledger_bytes = sum(share.size_bytes for share in shares) * max_bytes // used
        equal_share = ledger_bytes // max(1, len(shares))
        for share in sorted(shares, reverse=True):
            if excess <= 0 or share.size_bytes <= equal_share:
                break
            excess = yield from _delete_oldest(store, share, equal_share, max_bytes, excess)
        return excess


def _measure(store: HistoryStore) -> Generator[None, None, list[_Share]]:
    with store.read_transaction() as connection:
        nodes = connection.scalars(select(schema.nodes.c.key)).all()
    shares = []
    for node in nodes:
        rows = size = 0
        for table, blob in _BLOBS.items():
            query = select(func.count(), func.sum(func.length(blob))).where(_of_node(table, node))
            with store.read_transaction() as connection:
                count, blob_bytes = connection.execute(query).one()
            rows, size = rows + count, size + count * _ROW_BYTES + int(blob_bytes or 0)
        shares.append(_Share(size, rows, node))
        yield
    return shares


def _delete_oldest(
    store: HistoryStore, share: _Share, equal_share: int, max_bytes: int, excess: int
) -> Generator[None, None, int]:
    """Delete the oldest rows of a node, down to its share or to the limit; return the excess."""
    row_bytes, left = share.size_bytes // max(1, share.rows), share.size_bytes
    first, last = _time_range(store, share.node)
    for number in range(1, _SLICES + 1):
        before = first + (last - first) * number / _SLICES
        for table in _BLOBS:
            while deleted := _delete_step(store, table, share.node, before):
                left -= deleted * row_bytes
                excess -= deleted * row_bytes
                yield
        # PostgreSQL shows what was freed only after a vacuum: there the estimate counts.
        excess = min(excess, store.used_bytes() - max_bytes)
        if excess <= 0 or left <= equal_share:
            break
    return excess


def _time_range(store: HistoryStore, node: int) -> tuple[float, float]:
    times: list[float] = []
    with store.read_transaction() as connection:
        for table in _BLOBS:
            ends = select(func.min(table.c.end), func.max(table.c.end))
            found = connection.execute(ends.where(_of_node(table, node))).one()
            times += [end for end in found if end is not None]
    return min(times, default=0.0), max(times, default=0.0)


def _delete_step(store: HistoryStore, table: Table, node: int, before: float) -> int:
    key = list(table.primary_key)
    old = select(*key).where(_of_node(table, node), table.c.end <= before).limit(_ROWS_PER_STEP)
    with store.write_transaction() as connection:
        return connection.execute(delete(table).where(tuple_(*key).in_(old))).rowcount


def _of_node(table: Table, node: int) -> ColumnElement[bool]:
    return table.c.gpu.in_(select(schema.gpus.c.key).where(schema.gpus.c.node == node))
