"""Migrations: a history of every older version is brought up to date, in SQLite and PostgreSQL."""

import struct
from pathlib import Path
from typing import get_args

from msgspec.structs import replace
from sqlalchemy import create_engine, inspect, make_url, select, text

from fleet_smi.hub.database import read_fact
from fleet_smi.hub.history.queries.sql import HistoryQueries
from fleet_smi.hub.history.queries.strips import build_strips
from fleet_smi.hub.history.queries.totals import GroupBy
from fleet_smi.hub.history.recording.rows import WriteBatch
from fleet_smi.hub.history.series.layout import figure_count
from fleet_smi.hub.history.storage import migrations, schema
from fleet_smi.hub.history.storage.ids import IdCache
from fleet_smi.hub.history.storage.inserts import write_batch
from fleet_smi.hub.history.storage.store import HistoryStore, open_history
from fleet_smi.model.units import GIB
from tests.hub.history.batches import pack_rows, series_row

VERSION_1 = Path(__file__).with_name("history-v1.sql").read_text()
POSTGRESQL_SYNTAX = (
    (" WITHOUT ROWID", ""),
    ("BLOB", "BYTEA"),
    ("DOUBLE", "DOUBLE PRECISION"),
    ('("key" INTEGER NOT NULL', '("key" SERIAL'),
    (" user TEXT", ' "user" TEXT'),
    ("UNIQUE (user,", 'UNIQUE ("user",'),
)
DAY = 86400
START = 7 * DAY * 2900
"""When a week begins."""
KNOWN = (
    "INSERT INTO nodes VALUES (1, 'id-1', 'gpu1', '{}')",
    "INSERT INTO gpus VALUES (1, 1, 'GPU-a', 0, 'nvidia', NULL, NULL, NULL)",
    "INSERT INTO people VALUES (1, 'alice', '')",
    f"INSERT INTO periods VALUES (1, {START}, {START + 7200}, true, 'held', 'alice', 1, '', NULL)",
    "INSERT INTO layouts VALUES (50, '[\"GPU-a\"]')",
    *(
        f"INSERT INTO {table} VALUES ({START + days * DAY}, 1, 60, 50, 40, 30, 20, 0,0,0,60,0,0,0)"
        for table in ("person_days", "gpu_days")
        for days in (0, 1, 7)
    ),
)
# Known seconds, then the minimum, mean and maximum of seven figures: load 97 %, memory 8 GiB.
FIRST_ROW = struct.pack("<f21e", 60.0, *(12.0, 34.0, 97.0, 8.0, 300.0, 60.0, 1980.0) * 3)


def of_version_1(where: str) -> HistoryStore:
    """A history that was written by the first version, opened by this one."""
    statements = [*filter(str.strip, VERSION_1.split(";")), *KNOWN]
    if where.startswith("/"):
        Path(where).parent.mkdir(parents=True)
        url = make_url(f"sqlite:///{where}")
    else:
        url = make_url(where).set(drivername="postgresql+psycopg")
        for here, there in POSTGRESQL_SYNTAX:
            statements = [each.replace(here, there) for each in statements]
    engine = create_engine(url)
    with engine.begin() as connection:
        for each in statements:
            connection.execute(text(each))
        series = text("INSERT INTO series VALUES (60, :start, 1, 50, :data)")
        connection.execute(series, {"start": START, "data": FIRST_ROW})
    engine.dispose()
    return open_history(where)


def indexes_in(store: HistoryStore) -> set[str | None]:
    with store.read_transaction() as connection:
        seen = inspect(connection)
        return {
            index["name"]
            for name in seen.get_table_names()
            if not name.endswith("_default")  # a partition, whose indexes follow from its table's
            for index in seen.get_indexes(name)
        }


def test_a_database_of_version_1_gets_the_schema_of_a_new_one(where: str) -> None:
    store = of_version_1(where)
    with store.read_transaction() as connection:
        seen = inspect(connection)
        columns = {
            name: {column["name"] for column in seen.get_columns(name)}
            for name in seen.get_table_names()
            # The default partition of a table has the same columns.
            if not name.endswith("_default")
        }
        value = read_fact(connection, "schema")
    assert value == str(migrations.schema_version())
    assert columns == {name: {*table.c.keys()} for name, table in schema.metadata.tables.items()}
    brought_up = indexes_in(store)
    with store.write_transaction() as connection:
        schema.metadata.drop_all(connection)
    store.close()
    reopened = open_history(where)
    assert indexes_in(reopened) == brought_up
    reopened.close()


def test_series_rows_of_the_first_version_are_read_beside_new_ones(where: str) -> None:
    store = of_version_1(where)
    new = replace(
        series_row(START + 60, grain=60, busy=9.0),
        uuids=("GPU-a",),
        data=pack_rows((9.0,) * figure_count(1), seconds=60.0),
    )
    with store.write_transaction() as connection:
        write_batch(connection, IdCache(), WriteBatch(series=[new]))
        # The old row was not rewritten: its layout says how it is packed.
        stored = connection.scalar(select(schema.series.c.data).order_by(schema.series.c.start))
    assert stored == FIRST_ROW
    found = HistoryQueries(store).series("id-1", START, START + 120)
    store.close()
    assert found.node["cpu_percent"].mean == [12.0, 9.0]
    gpu = {name: figure.mean for name, figure in found.gpus["GPU-a"].items()}
    assert gpu["busy_percent"] == [97.0, 9.0]
    assert gpu["memory_used_bytes"] == [8.0 * GIB, 9.0]
    assert gpu["encoder_percent"] == [None, 9.0]


def test_rows_of_version_1_are_read_after_the_migration(where: str) -> None:
    asking = HistoryQueries(store := of_version_1(where))
    found = build_strips(asking, {("id-1", "GPU-a")}, START, START + 12 * 3600, 12, WriteBatch())
    (run,) = found["id-1", "GPU-a"]
    assert (run.start, run.end, run.state, run.user) == (START, START + 7200, "held", "alice")
    assert (run.others, run.busy_percent) == (1, None)
    for by in get_args(GroupBy):
        usages = asking.usages(START, START + 14 * DAY, by, daily=True)
        (row,) = usages.rows
        assert row.daily == (60.0, 60.0, *[0.0] * 5, 60.0, *[0.0] * 6)
        assert (row.sums.gpu_seconds, row.sums.energy_joules) == (180.0, 60.0)
        assert usages.by_state["held"] == 180.0
    store.close()
