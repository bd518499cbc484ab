"""Fixtures of a cluster: one NATS server, one PostgreSQL server, and hubs on both."""

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from tests.nats import Nats, nats_server
from tests.postgres import Postgres, postgres_server
from tests.server.threaded_hub import ThreadedHub

StartHub = Callable[..., ThreadedHub]


@pytest.fixture(scope="session")
def postgres() -> Iterator[Postgres]:
    """A PostgreSQL server, shared by the tests."""
    with postgres_server() as server:
        yield server


@pytest.fixture
def database(postgres: Postgres) -> Iterator[str]:
    """The URL of an empty database."""
    with postgres.database() as url:
        yield url


@pytest.fixture
def nats(tmp_path: Path) -> Iterator[Nats]:
    """A NATS server."""
    with nats_server(tmp_path) as server:
        yield server


@pytest.fixture
def start_hub(tmp_path: Path, nats: Nats, database: str) -> Iterator[StartHub]:
    """Start hubs of one cluster by name; each has its own state folder."""
    with ExitStack() as stack:

        def start(name: str, **settings: Any) -> ThreadedHub:
            options = {"hub__cluster": nats.url, "hub__history": database, **settings}
            return stack.enter_context(ThreadedHub(tmp_path / name, **options))

        yield start
