"""Deletion of people, GPUs, series layouts and looks to which no other row refers any more.

Their names come from the nodes: without this, a node that makes up a new user or GPU with every
report would fill the database with rows that outlive all retention.
"""

from collections.abc import Iterator

from sqlalchemy import ColumnElement, Connection, Table, delete, exists, select

from fleet_smi.hub.history.storage import schema
from fleet_smi.hub.history.storage.ids import IdCache
from fleet_smi.hub.history.storage.store import HistoryStore
from fleet_smi.model.history import NO_USER

_ROWS_PER_STEP = 500  # below the limit of bound parameters, 999 in older versions of SQLite


def prune_unreferenced(store: HistoryStore, ids: IdCache) -> Iterator[None]:
    """Delete them, one short transaction per step of the iterator."""
    while _delete_people(store, ids):
        yield
    after = 0
    while (last := _delete_gpus(store, ids, after)) is not None:
        after = last
        yield
    while _delete_layouts(store, ids):
        yield
    while _delete_looks(store, ids):
        yield


def _delete_people(store: HistoryStore, ids: IdCache) -> int:
    people = schema.people.c
    # Hours and days of usage expire before the week that they are in: the weeks stand for them.
    unused = select(people.key, people.user, people.group).where(
        people.user != NO_USER,
        ~exists().where(schema.occupancies.c.person == people.key),
        people.key.not_in(select(schema.person_weeks.c.key)),
    )
    with store.read_transaction() as connection:
        if connection.execute(unused.limit(1)).first() is None:
            return 0
    with store.write_transaction() as connection:
        rows = connection.execute(unused.limit(_ROWS_PER_STEP)).all()
        _delete(connection, schema.people, people.key, [key for key, _, _ in rows])
    ids.forget((), [(user, group) for _, user, group in rows])
    return len(rows)


def _delete_gpus(store: HistoryStore, ids: IdCache, after: int) -> int | None:
    """Delete some of those whose key is larger; return the last key examined, `None` at the end."""
    gpus, nodes = schema.gpus.c, schema.nodes.c
    unused = (
        select(gpus.key, nodes.node_id, gpus.uuid, schema.checkpoints.c.node)
        .join_from(schema.gpus, schema.nodes, nodes.key == gpus.node)
        .outerjoin(schema.checkpoints, schema.checkpoints.c.node == nodes.key)
        .where(
            gpus.key > after,
            ~exists().where(schema.periods.c.gpu == gpus.key),
            ~exists().where(schema.occupancies.c.gpu == gpus.key),
            gpus.key.not_in(select(schema.gpu_weeks.c.key)),
        )
        .order_by(gpus.key)
        .limit(_ROWS_PER_STEP)
    )
    with store.read_transaction() as connection:
        rows = connection.execute(unused).all()
    # A GPU that is there now may have no row but the one that is still open. A node that has not
    # reported since the hub started may return with it, unless it was removed.
    gone = {
        key: (node_id, uuid)
        for key, node_id, uuid, checkpoint in rows
        if not (checkpoint if (now := ids.is_current((node_id, uuid))) is None else now)
    }
    if gone:
        with store.write_transaction() as connection:
            _delete(connection, schema.gpus, gpus.key, [*gone])
        ids.forget(gone.values(), ())
    return rows[-1][0] if rows else None


def _delete_layouts(store: HistoryStore, ids: IdCache) -> int:
    layouts = schema.layouts.c
    unused = select(layouts.key, layouts.uuids, layouts.figures).where(
        ~exists().where(schema.series.c.layout == layouts.key)
    )
    with store.read_transaction() as connection:
        rows = connection.execute(unused.limit(_ROWS_PER_STEP)).all()
    if rows:
        with store.write_transaction() as connection:
            _delete(connection, schema.layouts, layouts.key, [key for key, _, _ in rows])
        ids.forget_layouts([(uuids, figures) for _, uuids, figures in rows])
    return len(rows)


def _delete_looks(store: HistoryStore, ids: IdCache) -> int:
    """Delete looks of users who are in no row: then samples, which name looks, are gone, too."""
    looks, periods = schema.looks.c, schema.periods.c
    unknown = select(looks.key, looks.state, looks.user, looks.others).where(
        looks.user != NO_USER, looks.user.not_in(select(schema.people.c.user))
    )
    # All periods are read for these: only where a user was deleted.
    unused = unknown.where(looks.user.not_in(select(periods.user)))
    with store.read_transaction() as connection:
        if connection.execute(unknown.limit(1)).first() is None:
            return 0
        rows = connection.execute(unused.limit(_ROWS_PER_STEP)).all()
    if rows:
        with store.write_transaction() as connection:
            _delete(connection, schema.looks, looks.key, [key for key, *_ in rows])
        ids.forget_looks([(state, user, others) for _, state, user, others in rows])
    return len(rows)


def _delete(
    connection: Connection, table: Table, column: ColumnElement[int], keys: list[int]
) -> None:
    connection.execute(delete(table).where(column.in_(keys)))
