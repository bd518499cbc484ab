"""A folder of leases, for the tests of locks and of hostile users."""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from fleet_smi.node.bindings.lease_files import open_folder
from tests.machines import require_root


@pytest.fixture
def as_root() -> None:
    require_root("make files of another user")


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "leases"


@pytest.fixture
def folder(path: Path) -> Iterator[int]:
    opened = open_folder(str(path))
    yield opened
    os.close(opened)
