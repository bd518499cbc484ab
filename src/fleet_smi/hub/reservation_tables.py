"""The tables of reservations in the hub's database."""

from sqlalchemy import Column, Connection, Float, Integer, LargeBinary, Table, Text, inspect, text

from fleet_smi.hub.state_metadata import metadata

# Soft bookings of GPUs; `changed_at` and `sequence` are for calendars. `via` is the node whose
# agent vouched for its maker.
reservations = Table(
    "reservations",
    metadata,
    Column("id", Text, primary_key=True),
    Column("owner", Text, nullable=False),
    Column("node_id", Text, nullable=False),
    Column("node", Text, nullable=False),
    Column("gpus", Integer, nullable=False),
    Column("starts_at", Float, nullable=False),
    Column("ends_at", Float, nullable=False),
    Column("note", Text, nullable=False),
    Column("sequence", Integer, nullable=False),
    Column("created_at", Float, nullable=False),
    Column("changed_at", Float, nullable=False),
    Column("used_at", Float),
    Column("released_at", Float),
    Column("cancelled_at", Float),
    Column("via", Text),
)
# Secret addresses of the calendar: each can read reservations, and nothing else.
calendar_feeds = Table(
    "calendar_feeds",
    metadata,
    Column("owner", Text, primary_key=True),
    Column("digest", LargeBinary, nullable=False, unique=True),
    Column("is_account", Integer, nullable=False),
    Column("created_at", Float, nullable=False),
)


def add_vouching_node(connection: Connection) -> None:
    """Add the node that vouched; nobody knows it of bookings that were made before."""
    # A table that was created by the migration before this one has the column already.
    columns = [each["name"] for each in inspect(connection).get_columns(reservations.name)]
    if "via" not in columns:
        connection.execute(text("ALTER TABLE reservations ADD COLUMN via TEXT"))
