"""Bulk reads: every value as it was stored."""

from hypothesis import given
from hypothesis import strategies as st
from sqlalchemy import Column, Double, Integer, MetaData, String, Table, create_engine, select

from fleet_smi.hub.history.storage.bulk import fetch_all

ROWS = Table(
    "rows",
    MetaData(),
    Column("number", Integer, primary_key=True),
    Column("start", Double),
    Column("name", String),
)
# Times and percentages; SQLite rounds numbers of more than a hundred digits.
NUMBERS = st.floats(1.0e9, 3.0e9) | st.floats(0.001, 100.0) | st.just(0.0) | st.none()


@given(st.lists(st.tuples(NUMBERS, st.text(st.characters(codec="utf-8", exclude_characters="\0")))))
def test_rows_in_one_step_have_every_digit(values: list[tuple[float | None, str]]) -> None:
    engine = create_engine("sqlite://")
    rows = [[number, *each] for number, each in enumerate(values)]
    with engine.begin() as connection:
        ROWS.create(connection)
        if rows:
            connection.execute(
                ROWS.insert(), [dict(zip(ROWS.columns.keys(), row, strict=True)) for row in rows]
            )
        assert fetch_all(connection, select(ROWS).order_by(ROWS.c.number)) == rows
    engine.dispose()
