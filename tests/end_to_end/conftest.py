"""Fixtures for tests of several machines."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.end_to_end.programs import Lab


@pytest.fixture
def lab(sim_lib: Path, tmp_path: Path) -> Iterator[Lab]:
    """A place to start hubs and agents, which are killed after the test."""
    made = Lab(tmp_path, sim_lib)
    yield made
    made.close()
