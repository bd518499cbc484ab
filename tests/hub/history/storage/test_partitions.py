"""Partitions in PostgreSQL: created before their rows, dropped when expired, pruned by queries."""

import secrets
import threading
from collections.abc import Iterator
from typing import Any

import pytest
from msgspec.structs import replace
from sqlalchemy import Connection, Select, create_engine, func, make_url, select, text

from fleet_smi.hub.history.queries.period_sql import select_last_periods, select_periods
from fleet_smi.hub.history.queries.sql import HistoryQueries
from fleet_smi.hub.history.recording.rows import WriteBatch
from fleet_smi.hub.history.series.series_row import SeriesRow
from fleet_smi.hub.history.storage import migrations, partitions, schema
from fleet_smi.hub.history.storage.partitions import PARTITIONINGS, PERIODS, partitions_ahead
from fleet_smi.hub.history.storage.retention import prune_steps
from fleet_smi.hub.history.storage.store import HistoryStore, open_history
from fleet_smi.hub.history.storage.writer import HistoryWriter
from tests.hub.history.batches import (
    DAY,
    KEEP_ALL,
    UUIDS,
    gpu,
    holder,
    node,
    occupancy,
    period,
    place,
    series_row,
    usage,
)
from tests.postgres import Postgres

WEEK = 7 * 86400
START = DAY // WEEK * WEEK
WEEKS = 8
END = START + WEEKS * WEEK


@pytest.fixture
def url(postgres: Postgres) -> Iterator[str]:
    with postgres.database() as made:
        yield made


@pytest.fixture
def store(url: str) -> Iterator[HistoryStore]:
    opened = open_history(url)
    yield opened
    opened.close()


def batch_of_week(week: int) -> WriteBatch:
    """Rows of one week in every partitioned table; each GPU has one period a day."""
    first = START + week * WEEK
    days = [float(first + day * 86400) for day in range(7)]
    return WriteBatch(
        nodes=[node()],
        gpus=[gpu(index=index) for index in range(2)],
        periods=[
            (place(index=index), period(at, at + 86400.0, holder()))
            for index in range(2)
            for at in days
        ],
        occupancies=[(place(), occupancy(at, at + 3600.0)) for at in days],
        series=[series_row(int(at), grain=grain) for grain in (60, 900, 10800) for at in days],
        usage=[usage(int(at), 60.0) for at in days],
    )


def write(store: HistoryStore, *batches: WriteBatch) -> None:
    writer = HistoryWriter(store, KEEP_ALL, clock=lambda: float(END))
    for batch in batches:
        writer.put(batch)
    writer.close()
    assert writer.last_written == len(batches)


def counts(store: HistoryStore, *, default: bool = False) -> dict[str, int]:
    """The rows of each partitioned table, or of its default partition."""
    with store.read_transaction() as connection:
        return {
            each.table.name: connection.scalar(
                select(func.count()).select_from(each.default if default else each.table)
            )
            or 0
            for each in PARTITIONINGS
        }


def plan(connection: Connection, query: Select[Any]) -> list[str]:
    """The partitions that a query reads, one name for each that is not pruned."""
    compiled = query.compile(connection, compile_kwargs={"literal_binds": True})
    sql = str(compiled).replace(":", "\\:")
    found = connection.execute(text(f"EXPLAIN (ANALYZE, FORMAT JSON) {sql}")).scalar_one()
    return sorted(set(_scanned(found[0]["Plan"])))


def _scanned(node: dict[str, Any]) -> Iterator[str]:
    if "Relation Name" in node and node["Actual Loops"]:
        assert node["Node Type"] != "Seq Scan" or node["Relation Name"] in ("gpus", "nodes"), node
        yield node["Relation Name"]
    for child in node.get("Plans", ()):
        yield from _scanned(child)


def test_every_row_has_its_partition_before_it_is_written(store: HistoryStore) -> None:
    write(store, *map(batch_of_week, range(WEEKS)))
    assert set(counts(store, default=True).values()) == {0}
    written = counts(store)
    assert written["periods"] == 2 * 7 * WEEKS
    assert written["series"] == 3 * 7 * WEEKS
    # A row that only a wrong clock can give is stored all the same.
    write(store, WriteBatch(series=[series_row(10 * END)], usage=[usage(3600, 60.0)]))
    assert counts(store)["series"] == written["series"] + 1
    # Those of the next weeks are made ahead of time.
    for _ in prune_steps(store, KEEP_ALL, float(END)):
        pass
    assert partitions_ahead(float(END)) <= store.partitions()


def test_expired_partitions_are_dropped_and_only_rows_that_outlive_them_stay(
    store: HistoryStore,
) -> None:
    long = period(float(START + 5), float(END - 5), holder("bob"))
    write(store, *map(batch_of_week, range(WEEKS)))
    write(store, WriteBatch(periods=[(place(2), long)], gpus=[gpu(2)], nodes=[node(2)]))
    before = counts(store)
    keep = replace(KEEP_ALL, ledger_seconds=4.0 * WEEK, series_seconds={60: 2.0 * WEEK})
    size = store.size_bytes()
    for _ in prune_steps(store, keep, float(END)):
        pass
    after = counts(store)
    assert after["usage_hours"] == before["usage_hours"] * 4 // WEEKS
    assert after["periods"] == 2 * 7 * 4 + 1
    assert after["occupancies"] == before["occupancies"] * 4 // WEEKS
    assert after["series"] == before["series"] * 2 // 3 + 2 * 7
    assert counts(store, default=True)["periods"] == 1
    assert store.size_bytes() < size
    found = HistoryQueries(store).periods(None, END - 2 * 86400.0, END - 86400.0)
    assert [each.gpu.node_id for each in found] == ["id-1", "id-1", "id-2"]
    # Its time comes, too.
    for _ in prune_steps(store, keep, float(END + 5 * WEEK)):
        pass
    assert counts(store)["periods"] == 0


def test_a_size_limit_drops_the_oldest_partitions_of_the_finest_grain_first(
    store: HistoryStore,
) -> None:
    def rows(grain: int) -> WriteBatch:
        starts = range(END - 8 * 86400, END, 600)
        return WriteBatch(
            series=[
                SeriesRow(
                    grain_seconds=grain,
                    node_id="id-1",
                    start=at,
                    uuids=UUIDS,
                    data=secrets.token_bytes(1500),
                )
                for at in starts
            ]
        )

    write(store, rows(60), rows(900), batch_of_week(0))
    with store.write_transaction() as connection:
        connection.execute(text("SELECT pg_stat_force_next_flush()"))
    keep = replace(KEEP_ALL, max_bytes=store.used_bytes() - 700_000)
    for _ in prune_steps(store, keep, float(END)):
        pass
    with store.read_transaction() as connection:
        grain, start = schema.series.c.grain, schema.series.c.start
        oldest = dict(
            connection.execute(
                select(grain, func.min(start)).where(start > START + WEEK).group_by(grain)
            ).all()
        )
    assert oldest[900] == END - 8 * 86400
    assert END - 8 * 86400 < oldest[60] < END
    assert counts(store)["usage_hours"] == 7


def test_queries_read_only_the_partitions_of_their_time(store: HistoryStore) -> None:
    write(store, *map(batch_of_week, range(WEEKS)))
    start, end = START + 6.5 * WEEK, START + 6.7 * WEEK
    week = PERIODS.partition_at(None, start).name
    with store.write_transaction() as connection:
        # Of so few rows PostgreSQL would read all.
        connection.execute(text("SET LOCAL enable_seqscan = off"))
        connection.execute(text("ANALYZE"))
        for query in (
            select_periods(start, end, None, partitioned=True),
            select_periods(start, end, {"id-1"}, schema.LOOK_COLUMNS, partitioned=True),
            select_last_periods(start, partitioned=True),
        ):
            read = [name for name in plan(connection, query) if name.startswith("periods_")]
            # To find the last start the two weeks before are read.
            assert week in read
            assert len(read) <= 4, read
        hours = schema.usage_hours
        query = select(func.sum(hours.c.gpu_seconds)).where(
            hours.c.bucket >= int(start), hours.c.bucket < int(end)
        )
        expected = [f"usage_hours_{START + 6 * WEEK}_{START + 7 * WEEK}"]
        assert [name for name in plan(connection, query) if "default" not in name] == expected
        series = schema.series.c
        of_day = select(series.data).where(
            series.grain == 60, series.start >= int(end), series.start < int(end) + 3600
        )
        (only, *more) = [name for name in plan(connection, of_day) if "default" not in name]
        assert (only.startswith("series_60_"), more) == (True, [])


def test_a_filled_database_of_version_4_keeps_every_row(url: str) -> None:
    made = make_url(url).set(drivername="postgresql+psycopg")
    engine = create_engine(made)
    with engine.begin() as connection:
        for table in schema.metadata.tables.values():
            migrations._create_unpartitioned(connection, table)
        connection.execute(schema.facts.insert(), {"name": "schema", "value": "4"})
        for statement in _FILL:
            connection.execute(text(statement))
        before = {each.table.name: _checksum(connection, each.table.name) for each in PARTITIONINGS}
    engine.dispose()
    store = open_history(url)
    with store.read_transaction() as connection:
        after = {each.table.name: _checksum(connection, each.table.name) for each in PARTITIONINGS}
    assert after == before
    assert counts(store) == counts(store, default=True)
    # New rows have partitions, and PostgreSQL need not read the old ones to create them.
    with store.write_transaction() as connection:
        notices: list[str] = []
        raw: Any = connection.connection.dbapi_connection
        raw.add_notice_handler(lambda notice: notices.append(str(notice.message_primary)))
        connection.execute(text("SET LOCAL client_min_messages = debug1"))
        for partition in partitions_ahead(float(END + 5 * WEEK)):
            partitions.create_partition(connection, partition)
    assert not [notice for notice in notices if "verifying" in notice and "default" in notice]
    assert [notice for notice in notices if "is implied by existing constraints" in notice]
    # The week of the last old row is not over: it has no partition.
    write(store, batch_of_week(WEEKS), batch_of_week(WEEKS + 5))
    old = counts(store, default=True)
    assert old["periods"] == before["periods"][0] + 2 * 7
    assert counts(store)["periods"] == old["periods"] + 2 * 7
    found = HistoryQueries(store).periods(None, float(START), float(END + 6 * WEEK))
    assert sum(len(each.periods) for each in found) == counts(store)["periods"]
    # The old ones expire row by row.
    keep = replace(KEEP_ALL, ledger_seconds=3.0 * WEEK, series_seconds={60: 3.0 * WEEK})
    for _ in prune_steps(store, keep, float(END + 2 * WEEK)):
        pass
    assert 0 < counts(store, default=True)["periods"] < before["periods"][0]
    store.close()


_FILL = (
    "INSERT INTO nodes SELECT n, 'old-' || n, 'old' || n, '{}' FROM generate_series(1, 5) n",
    (
        "INSERT INTO gpus SELECT g, (g - 1) / 8 + 1, 'GPU-' || g, g % 8, 'nvidia', NULL, NULL, NULL"
        " FROM generate_series(1, 40) g"
    ),
    "SELECT setval('nodes_key_seq', 100), setval('gpus_key_seq', 1000)",
    (
        f"INSERT INTO periods SELECT g, t, t + 86400, true, 'busy', 'bob', 0, 'r', '\\x90', 50"
        f" FROM generate_series(1, 40) g, generate_series({START}, {END} - 86400, 86400) t"
    ),
    (
        f"INSERT INTO occupancies SELECT g, t, 7, t + 3600, true, 1, '\\x90', 1, 2, 3, 4, 5, 6, 7"
        f" FROM generate_series(1, 40) g, generate_series({START}, {END} - 86400, 86400) t"
    ),
    (
        f"INSERT INTO samples SELECT 900, t, g, '\\x00', '\\x00'"
        f" FROM generate_series(1, 40) g, generate_series({START}, {END} - 86400, 86400) t"
    ),
    (
        f"INSERT INTO usage_hours SELECT t, g, 1, 'busy', 1, 2, 3, 4, 5"
        f" FROM generate_series(1, 40) g, generate_series({START}, {END} - 86400, 86400) t"
    ),
    (
        f"INSERT INTO series SELECT 60, t, n, 1, '\\x00'"
        f" FROM generate_series(1, 5) n, generate_series({END} - 86400, {END} - 60, 60) t"
    ),
)


def _checksum(connection: Connection, table: str) -> tuple[int, str]:
    row = text(f"SELECT count(*), md5(string_agg(t::text, ';' ORDER BY t::text)) FROM {table} t")
    count, digest = connection.execute(row).one()
    return count, digest


def test_two_hubs_create_and_drop_the_same_partitions_at_once(
    url: str, store: HistoryStore
) -> None:
    engine = create_engine(make_url(url).set(drivername="postgresql+psycopg"))
    barrier, failures = threading.Barrier(3), list[Exception]()
    needed = {PERIODS.partition_at(None, float(START + week * WEEK)) for week in range(3)}

    def change(*, drop: bool) -> None:
        barrier.wait()
        try:
            for partition in sorted(needed, key=str):
                with engine.begin() as connection:
                    if drop:
                        partitions.drop_partition(connection, partition, None)
                    else:
                        partitions.create_partition(connection, partition)
        except Exception as error:  # noqa: BLE001  # shown below
            failures.append(error)

    for drop in (False, True):
        threads = [threading.Thread(target=change, kwargs={"drop": drop}) for _ in range(3)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert failures == []
        with engine.connect() as connection:
            assert partitions.read_partitions(connection) == (set() if drop else needed)
    engine.dispose()
