"""The state folder: private files, the lock, the admin token and the address file."""

import os
from pathlib import Path

import pytest

from fleet_smi.errors import StateError
from fleet_smi.hub.database import open_database
from fleet_smi.hub.state_folder import (
    RunningHub,
    create_local_admin_token,
    lock_folder,
    read_local_admin_token,
    read_running_hub,
    remove_runtime_files,
    write_private_file,
    write_running_hub,
)
from tests.machines import require_root


def test_a_private_file_is_replaced_atomically(tmp_path: Path) -> None:
    path = tmp_path / "state" / "secret"
    write_private_file(path, b"one")
    with path.open("rb") as reader:
        write_private_file(path, b"two")
        assert reader.read() == b"one"
    assert path.read_bytes() == b"two"
    assert path.stat().st_mode & 0o777 == 0o600
    assert [found.name for found in path.parent.iterdir()] == ["secret"]


def test_a_private_file_is_never_written_where_others_may_write(tmp_path: Path) -> None:
    tmp_path.chmod(0o777)
    with pytest.raises(StateError, match="others may write"):
        write_private_file(tmp_path / "secret", b"one")
    assert list(tmp_path.iterdir()) == []


def test_a_file_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    (tmp_path / "secret").mkdir()
    with pytest.raises(StateError, match="secret cannot be written"):
        write_private_file(tmp_path / "secret", b"one")


def test_each_start_of_the_hub_creates_another_admin_token(tmp_path: Path) -> None:
    state = tmp_path / "state"
    assert read_local_admin_token(state) is None
    first = create_local_admin_token(state)
    second = create_local_admin_token(state)
    assert first != second
    assert read_local_admin_token(state) == second
    assert (state / "admin-token").stat().st_mode & 0o777 == 0o600
    remove_runtime_files(state)
    assert read_local_admin_token(state) is None


def test_root_does_not_write_into_the_folder_of_another_user(tmp_path: Path) -> None:
    require_root("make folders of other users")
    os.chown(tmp_path, 65534, 65534)
    for write in (open_database, create_local_admin_token):
        with pytest.raises(StateError, match="belongs to nobody: run this as nobody"):
            write(tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_root_reads_no_file_that_a_link_of_the_hubs_user_leads_to(tmp_path: Path) -> None:
    require_root("make folders of other users")
    secret, state = tmp_path / "secret", tmp_path / "state"
    secret.write_text("hunter2")
    state.mkdir(mode=0o700)
    os.chown(state, 65534, 65534)
    (state / "admin-token").symlink_to(secret)
    assert read_local_admin_token(state) is None
    (state / "admin-token").unlink()
    (state / "admin-token").hardlink_to(secret)
    assert read_local_admin_token(state) is None


@pytest.mark.parametrize("pin", [None, "sha256:00"])
def test_the_address_file_exists_while_the_hub_runs(tmp_path: Path, pin: str | None) -> None:
    assert read_running_hub(tmp_path) is None
    standing = RunningHub("https://gpuhub:7070", "https://127.0.0.1:7070", pin)
    lock = lock_folder(tmp_path)
    write_running_hub(tmp_path, standing)
    assert read_running_hub(tmp_path) == standing
    os.close(lock)
    assert read_running_hub(tmp_path) is None, "a hub that was killed leaves the file"
    lock = lock_folder(tmp_path)
    remove_runtime_files(tmp_path)
    assert read_running_hub(tmp_path) is None
    os.close(lock)
