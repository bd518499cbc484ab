"""Fixtures for tests of several machines."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.end_to_end.programs import Lab


@pytest.fixture
def lab(sim_lib: Path, tmp_path: Path) -> Iterator[Lab]:
    """Where hubs and agents can be started; they end with the test."""
    made = Lab(tmp_path, sim_lib)
    yield made
    made.close()
