"""A history of every version ever is brought up to this one, in a file and on a server."""

from pathlib import Path
from typing import get_args

from sqlalchemy import create_engine, inspect, make_url, text

from fleet_smi.hub.history.queries.sql import HistoryQueries
from fleet_smi.hub.history.queries.strips import build_strips
from fleet_smi.hub.history.queries.totals import GroupBy
from fleet_smi.hub.history.recording.rows import WriteBatch
from fleet_smi.hub.history.storage import migrations, schema
from fleet_smi.hub.history.storage.store import HistoryStore, open_history

VERSION_1 = Path(__file__).with_name("history-v1.sql").read_text()
IN_WORDS_OF_A_SERVER = (
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
    *(
        f"INSERT INTO {table} VALUES ({START + days * DAY}, 1, 60, 50, 40, 30, 20, 0,0,0,60,0,0,0)"
        for table in ("person_days", "gpu_days")
        for days in (0, 1, 7)
    ),
)


def of_version_1(where: str) -> HistoryStore:
    """A history that was written by the first version, opened by this one."""
    statements = [*filter(str.strip, VERSION_1.split(";")), *KNOWN]
    if where.startswith("/"):
        Path(where).parent.mkdir(parents=True)
        url = make_url(f"sqlite:///{where}")
    else:
        url = make_url(where).set(drivername="postgresql+psycopg")
        for here, there in IN_WORDS_OF_A_SERVER:
            statements = [each.replace(here, there) for each in statements]
    engine = create_engine(url)
    with engine.begin() as connection:
        for each in statements:
            connection.execute(text(each))
    engine.dispose()
    return open_history(where)


def indexes_in(store: HistoryStore) -> set[str | None]:
    with store.read_transaction() as connection:
        seen = inspect(connection)
        return {
            index["name"] for name in seen.get_table_names() for index in seen.get_indexes(name)
        }


def test_the_first_version_becomes_what_a_new_one_is(where: str) -> None:
    store = of_version_1(where)
    with store.read_transaction() as connection:
        seen = inspect(connection)
        columns = {
            name: {column["name"] for column in seen.get_columns(name)}
            for name in seen.get_table_names()
        }
        value = connection.scalar(schema.facts.select().with_only_columns(schema.facts.c.value))
    assert value == str(migrations.schema_version())
    assert columns == {name: {*table.c.keys()} for name, table in schema.metadata.tables.items()}
    brought_up = indexes_in(store)
    with store.write_transaction() as connection:
        schema.metadata.drop_all(connection)
    store.close()
    anew = open_history(where)
    assert indexes_in(anew) == brought_up
    anew.close()


def test_what_the_first_version_knew_is_told_by_this_one(where: str) -> None:
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
