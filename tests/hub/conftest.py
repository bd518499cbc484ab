"""What tests of the hub's database, tokens and people stand on."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from sqlalchemy import Engine

from fleet_smi.hub.credentials import Credentials
from fleet_smi.hub.database import open_database
from fleet_smi.hub.fleet import Remembered
from fleet_smi.hub.memory import Memory
from tests.hub.accounts import Clock


@pytest.fixture
def clock() -> Clock:
    """A clock that stands still until it is moved."""
    return Clock()


@pytest.fixture
def engine(tmp_path: Path) -> Iterator[Engine]:
    """A new database."""
    opened = open_database(tmp_path / "state")
    yield opened
    opened.dispose()


@pytest.fixture
def memory(engine: Engine) -> Iterator[Memory[Remembered]]:
    """What outlives the hub: nothing yet."""
    opened = Memory(engine, Remembered)
    yield opened
    opened.close()


@pytest.fixture
def credentials(engine: Engine, clock: Clock) -> Iterator[Credentials]:
    """Nobody is known yet, but the machine's own admin."""
    opened = Credentials(engine, local_admin="fsmi_local_x", clock=clock)
    yield opened
    opened.close()
