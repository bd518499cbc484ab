"""Locks of leased GPUs: one holder each, told by the kernel, safe in a folder of all users."""

import os
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from fleet_smi.errors import NotPresent, StateError
from fleet_smi.node.bindings import lease_files, lease_locks, leases
from fleet_smi.node.bindings.lease_files import open_folder
from fleet_smi.node.bindings.lease_locks import try_take
from fleet_smi.node.bindings.lease_queue import Ticket, waiters_ahead
from fleet_smi.node.collectors.leases import LeasesCollector
from tests.node.leases.stress import run_stress

GPU = "GPU-00000000-0000-4000-8000-000000000003"
OTHER_UID = 12345


def test_one_holder_at_a_time_and_the_kernel_tells_who(folder: int, path: Path) -> None:
    lock = try_take(folder, GPU, {"since": "1", "command": "python", "note": "a\x1b[31m\nb"})
    assert lock is not None
    assert try_take(folder, GPU, {}) is None
    (held,) = LeasesCollector().parse(leases.read(folder=str(path))).leases.items()
    uuid, lease = held
    assert (uuid, lease.pid, lease.uid, lease.command) == (GPU, os.getpid(), os.geteuid(), "python")
    assert lease.note is not None and lease.note.isprintable()
    assert lease.taken_at == 1.0
    lock.release()
    assert leases.read(folder=str(path)) == []


def test_a_folder_without_leases_is_listed_again_only_when_it_has_changed(
    folder: int, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    listed, list_files = list[int](), lease_files.list_files

    def counted(opened: int) -> list[lease_files.LeaseFile]:
        listed.append(opened)
        return list_files(opened)

    monkeypatch.setattr(leases, "list_files", counted)

    def is_leased() -> bool:
        try:
            return bool(leases.read(folder=str(path)))
        except NotPresent:
            return False

    # It has just been made: what comes within the same tick of the clock would not be seen.
    assert not is_leased() and not is_leased()
    assert len(listed) == 2
    os.utime(path, (0, 0))
    assert not any(is_leased() for _ in range(5))
    assert len(listed) == 3
    lock = try_take(folder, GPU, {})
    assert lock is not None
    assert is_leased()
    lock.release()


@pytest.mark.parametrize("uuid", ["MIG-1/2:3", "pci-0000:03:00.0@node-1", "a.b%c", "GPU-é"])
def test_any_uuid_has_a_file_name(folder: int, path: Path, uuid: str) -> None:
    lock = try_take(folder, uuid, {})
    assert lock is not None
    rows = leases.read(folder=str(path))
    assert [row["uuid"] for row in rows] == [uuid]
    assert try_take(folder, uuid, {}) is None
    lock.release()


def test_takers_that_are_killed_at_random_never_share_a_gpu() -> None:
    # Not `tmp_path`, which is closed to the other users that root's takers become.
    with tempfile.TemporaryDirectory() as folder:
        result = run_stress(Path(folder), takers=24, gpus=4, seconds=4.0)
    assert result.collisions == []
    assert result.locks_left == 0
    assert result.takes > 20 and result.kills > 2


def test_a_child_that_outlives_its_parent_does_not_keep_the_lease(folder: int, path: Path) -> None:
    code = (
        "import os, subprocess, sys\n"
        "from fleet_smi.node.bindings import lease_files, lease_locks\n"
        f"folder = lease_files.open_folder({str(path)!r})\n"
        f"assert lease_locks.try_take(folder, {GPU!r}, {{}})\n"
        "child = subprocess.Popen(['cat'], stdin=0, stdout=2, close_fds=False)\n"
        "print(child.pid, flush=True)\n"
    )
    parent = subprocess.Popen(
        [sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert parent.stdout is not None and parent.stdin is not None
    child = int(parent.stdout.read())
    parent.wait()
    assert Path(f"/proc/{child}").exists()
    lock = try_take(folder, GPU, {})
    assert lock is not None
    lock.release()
    parent.stdin.close()
    parent.stdout.close()


@pytest.mark.usefixtures("as_root")
def test_the_files_of_all_users_are_locked(folder: int, path: Path) -> None:
    other = path / lease_files.own_name(GPU, OTHER_UID)
    other.write_text("command fake\n")
    os.chown(other, OTHER_UID, OTHER_UID)
    lock = try_take(folder, GPU, {"command": "python"})
    assert lock is not None and len(lock.descriptors) == 2
    (row,) = leases.read(folder=str(path))
    assert (row["uid"], row["details"]["command"]) == (0, "python")
    # The other user can remove their own file; the lease still holds.
    other.unlink()
    assert try_take(folder, GPU, {}) is None
    lock.release()


@pytest.mark.usefixtures("as_root")
def test_names_that_another_user_has_taken_keep_nobody_from_a_lease(
    folder: int, path: Path
) -> None:
    for extra in ("", "1", "2", "3"):
        squatted = path / lease_files.own_name(GPU, 0, extra)
        squatted.write_text("")
        os.chown(squatted, OTHER_UID, OTHER_UID)
    for _ in range(3):
        lock = try_take(folder, GPU, {})
        assert lock is not None
        assert try_take(folder, GPU, {}) is None
        assert [row["uid"] for row in leases.read(folder=str(path))] == [0]
        lock.release()
    # The file that was made under another name is used again.
    assert len(lease_files.list_files(folder, GPU)) == 1


def test_links_and_pipes_in_the_folder_are_ignored(folder: int, path: Path, tmp_path: Path) -> None:
    victim = tmp_path / "victim"
    victim.write_text("precious")
    uid = os.geteuid()
    (path / lease_files.own_name(GPU, uid)).symlink_to(victim)
    os.mkfifo(path / lease_files.own_name(GPU, uid, "1"))
    (path / lease_files.own_name(GPU, uid, "2")).hardlink_to(victim)
    lock = try_take(folder, GPU, {"command": "python"})
    assert lock is not None
    assert victim.read_text() == "precious"
    lock.release()


def test_an_unsafe_folder_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    real = tmp_path / "real"
    real.mkdir(mode=0o777)
    real.chmod(0o777)
    with pytest.raises(StateError, match="not sticky"):
        open_folder(str(real))
    (tmp_path / "link").symlink_to(real)
    with pytest.raises(StateError, match="not a link"):
        open_folder(str(tmp_path / "link"))
    real.chmod(0o1777)
    monkeypatch.setattr(lease_files, "file_system", lambda _: "nfs4")
    with pytest.raises(StateError, match="on nfs4"):
        open_folder(str(real))


@pytest.mark.usefixtures("as_root")
def test_a_folder_of_another_user_is_refused(tmp_path: Path) -> None:
    theirs = tmp_path / "theirs"
    theirs.mkdir()
    theirs.chmod(0o1777)
    os.chown(theirs, OTHER_UID, OTHER_UID)
    with pytest.raises(StateError, match="could remove leases of others"):
        open_folder(str(theirs))


def test_the_folder_is_created_for_all_users(folder: int, path: Path) -> None:
    assert path.stat().st_mode & 0o7777 == 0o1777


def test_a_machine_without_a_shared_folder_has_no_leases(tmp_path: Path) -> None:
    with pytest.raises(NotPresent, match=r"node\.lease_dir"):
        leases.read(root=str(tmp_path))


def test_a_lost_file_is_noticed(folder: int, path: Path) -> None:
    lock = try_take(folder, GPU, {})
    assert lock is not None
    before = lock.is_intact
    (path / lease_files.own_name(GPU, os.geteuid())).unlink()
    assert (before, lock.is_intact) == (True, False)
    lock.release()


def test_the_queue_is_in_the_order_of_arrival_and_forgets_the_dead(folder: int, path: Path) -> None:
    first = Ticket(folder, 2, frozenset({GPU}))
    second = Ticket(folder, 1, frozenset())
    # A ticket that nobody holds is one of a process that was killed.
    (path / "fleet-smi.0.1.aa.queue").write_text("4")
    assert [(each.wanted, each.uuids) for each in waiters_ahead(folder, second)] == [
        (2, frozenset({GPU}))
    ]
    assert waiters_ahead(folder, first) == []
    assert len(waiters_ahead(folder, None)) == 2
    first.leave()
    assert waiters_ahead(folder, second) == []
    second.leave()


def test_the_gpus_that_a_user_had_last_come_first(folder: int) -> None:
    for uuid in ("GPU-1", "GPU-2", "GPU-1"):
        lock = try_take(folder, uuid, {"command": "python"})
        assert lock is not None
        lock.release()
    assert lease_locks.own_last_used(folder) == ["GPU-1", "GPU-2"]
