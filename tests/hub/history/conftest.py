"""Fixtures of the history tests: a database of each kind."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from fleet_smi.hub.history.storage.store import HistoryStore, open_history
from tests.postgres import Postgres, postgres_server


@pytest.fixture(scope="session")
def postgres() -> Iterator[Postgres]:
    """A PostgreSQL server; a test that stops it must start it again."""
    with postgres_server() as server:
        yield server


@pytest.fixture(params=["sqlite", "postgresql"])
def where(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[str]:
    """The path or URL of an empty history database: SQLite, then PostgreSQL."""
    if request.param == "sqlite":
        yield str(tmp_path / "state" / "history.db")
    else:
        with request.getfixturevalue("postgres").database() as url:
            yield url


@pytest.fixture
def store(where: str) -> Iterator[HistoryStore]:
    """A new history."""
    opened = open_history(where)
    yield opened
    opened.close()
