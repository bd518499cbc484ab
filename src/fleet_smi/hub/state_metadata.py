"""The tables of the hub's database, as SQLAlchemy knows them: each registers itself here."""

from sqlalchemy import MetaData

metadata = MetaData()
