"""Fixtures of the hub: a database, its node store, tokens and users."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from sqlalchemy import Engine

from fleet_smi.fleet.fleet import NodeCheckpoint
from fleet_smi.hub.credentials import CredentialCache
from fleet_smi.hub.database import open_database
from fleet_smi.hub.node_store import NodeStore
from tests.hub.accounts import ManualClock


@pytest.fixture
def clock() -> ManualClock:
    """A clock that tests advance."""
    return ManualClock()


@pytest.fixture
def engine(tmp_path: Path) -> Iterator[Engine]:
    """A new database."""
    opened = open_database(tmp_path / "state")
    yield opened
    opened.dispose()


@pytest.fixture
def memory(engine: Engine) -> Iterator[NodeStore[NodeCheckpoint]]:
    """An empty node store."""
    opened = NodeStore(engine, NodeCheckpoint)
    yield opened
    opened.close()


@pytest.fixture
def credentials(engine: Engine, clock: ManualClock) -> Iterator[CredentialCache]:
    """Credentials with the local admin token only."""
    opened = CredentialCache(engine, local_admin_token="fsmi_local_x", clock=clock)
    yield opened
    opened.close()
