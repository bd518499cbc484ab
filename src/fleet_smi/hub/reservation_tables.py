"""The tables of reservations in the hub's database."""

from sqlalchemy import Column, Float, Integer, LargeBinary, Table, Text

from fleet_smi.hub.state_metadata import metadata

# Soft bookings of GPUs; `changed_at` and `sequence` are for calendars.
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
