"""The private state folder: created for its owner, refused where others may write."""

import os
from pathlib import Path

import pytest

from fleet_smi.errors import StateError, UsageError
from fleet_smi.paths import ensure_private_folder


@pytest.fixture(autouse=True)
def _lenient_umask() -> object:
    before = os.umask(0)
    yield
    os.umask(before)


def mode(path: Path) -> int:
    return path.stat().st_mode & 0o777


def test_the_folder_is_created_for_its_owner_only(tmp_path: Path) -> None:
    folder = tmp_path / "above" / "agent"
    for _ in range(2):
        ensure_private_folder(str(folder))
        assert mode(folder) == 0o700
    # Who may write to the folder above could put another one in its place.
    assert mode(folder.parent) == 0o755


def test_a_folder_that_others_may_write_to_is_refused(tmp_path: Path) -> None:
    folder = tmp_path / "agent"
    folder.mkdir(0o777)
    with pytest.raises(StateError, match=f"chmod go-w {folder}"):
        ensure_private_folder(str(folder))


def test_a_path_that_cannot_be_a_folder_is_refused(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(UsageError, match="give another --state"):
        ensure_private_folder(str(tmp_path / "file" / "agent"), UsageError)
    with pytest.raises(UsageError, match="give another --state"):
        ensure_private_folder(str(tmp_path / "file"), UsageError)
