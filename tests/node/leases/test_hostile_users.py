"""The folder of leases shared with hostile users: they hold leases visibly, and nothing else."""

import contextlib
import fcntl
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from fleet_smi.errors import StateError
from fleet_smi.node.bindings import lease_files, lease_quota, leases
from fleet_smi.node.bindings.lease_files import open_folder
from fleet_smi.node.bindings.lease_locks import try_take
from fleet_smi.node.bindings.lease_queue import Ticket, waiters_ahead
from tests.machines import small_disk

GPU = "GPU-00000000-0000-4000-8000-000000000003"
OTHER_UID = 12345


@pytest.mark.usefixtures("as_root")
def test_a_hostile_user_holds_no_lease_unseen_and_in_nobody_elses_name(
    folder: int, path: Path
) -> None:
    own = path / lease_files.own_name(GPU, OTHER_UID)
    lock = try_take(folder, GPU, {"note": "first"})
    assert lock is not None
    # Beside the holder: a file of one's own, and one under another spelling of the same UUID.
    alias = f"fleet-smi.%47{GPU[1:]}.1.lease"
    with _locked_by(own, OTHER_UID, signs=True), _locked_by(path / alias, 1, signs=True):
        (row,) = leases.read(folder=str(path))
        assert (row["uid"], row["details"]["note"]) == (0, "first")
        lock.release()
        # Without a holder, it is the hostile user's, who is named.
        assert try_take(folder, GPU, {}) is None
        assert [row["uid"] for row in leases.read(folder=str(path))] == [OTHER_UID]
    # A program with the rights of another user does not hold it in that user's name.
    with _locked_by(own, OTHER_UID, effective=0, signs=True):
        assert [row["uid"] for row in leases.read(folder=str(path))] == [OTHER_UID]


@pytest.mark.usefixtures("as_root")
@pytest.mark.parametrize("kind", [fcntl.LOCK_SH, fcntl.LOCK_EX])
def test_a_lock_on_the_file_of_another_user_keeps_nobody_out(
    folder: int, path: Path, kind: int
) -> None:
    first = try_take(folder, GPU, {"note": "mine"})
    assert first is not None
    first.release()
    # On the victim's file, on that of a third user, and on their own without saying so.
    with (
        _locked_by(path / lease_files.own_name(GPU, 0), OTHER_UID, kind),
        _locked_by(path / lease_files.own_name(GPU, 1), OTHER_UID, kind),
        _locked_by(path / lease_files.own_name(GPU, OTHER_UID), OTHER_UID, kind),
    ):
        assert leases.read(folder=str(path)) == []
        lock = try_take(folder, GPU, {})
        assert lock is not None
        assert try_take(folder, GPU, {}) is None
        assert [row["uid"] for row in leases.read(folder=str(path))] == [0]
        lock.release()


def test_a_pid_that_another_process_has_by_now_makes_nobody_a_holder(
    folder: int, path: Path, tmp_path: Path
) -> None:
    lock = try_take(folder, GPU, {})
    assert lock is not None
    status = os.fstat(lock.own)
    process = tmp_path / "proc" / "4711"
    process.mkdir(parents=True)
    (tmp_path / "proc" / "1").mkdir()
    device = f"{os.major(status.st_dev):02x}:{os.minor(status.st_dev):02x}:{status.st_ino}"
    (tmp_path / "proc/locks").write_text(f"1: FLOCK  ADVISORY  WRITE 4711 {device} 0 EOF\n")

    def holders(uid: int, started: int, nspid: str = "4711") -> list[int]:
        fields = " ".join(["S", *["0"] * 18, str(started), "0"])
        (process / "stat").write_text(f"4711 (a) b) {fields}")
        (process / "status").write_text(f"Name:\tx\nUid:\t{uid}\t{uid}\t{uid}\nNSpid:\t{nspid}\n")
        return [row["pid"] for row in leases.read(root=str(tmp_path), folder=str(path))]

    uid = os.geteuid()
    own = path / lease_files.own_name(GPU, uid)
    own.write_text("pid 4711\nstarted 900\n")
    assert holders(uid, 900) == [4711]
    assert holders(uid, 901) == []
    assert holders(OTHER_UID, 900) == []
    # In a container the process has another pid, by its own words.
    own.write_text("pid 7\nstarted 900\n")
    assert holders(uid, 900, "4711\t7") == [4711]
    assert holders(uid, 900, "4711\t8") == []
    # Of a process that cannot be looked at, its user's word has to do; not of one that has ended.
    own.write_text("pid 4711\nstarted 900\n")
    (process / "status").unlink()
    (process / "stat").unlink()
    assert [row["pid"] for row in leases.read(root=str(tmp_path), folder=str(path))] == [4711]
    process.rmdir()
    assert leases.read(root=str(tmp_path), folder=str(path)) == []
    (tmp_path / "proc" / "1").rmdir()
    assert [row["pid"] for row in leases.read(root=str(tmp_path), folder=str(path))] == [4711]
    lock.release()


def test_a_lock_that_a_child_keeps_ends_with_the_process_that_took_it(
    folder: int, path: Path
) -> None:
    code = (
        "import os, sys\n"
        "from fleet_smi.node.bindings import lease_files, lease_locks\n"
        f"folder = lease_files.open_folder({str(path)!r})\n"
        f"assert lease_locks.try_take(folder, {GPU!r}, {{}})\n"
        "if os.fork():\n"
        "    os._exit(0)\n"
        "os.write(1, b'child')\n"
        "os.read(0, 1)\n"
    )
    with subprocess.Popen(
        [sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as parent:
        assert parent.stdout is not None and parent.stdout.read(5) == b"child"
        parent.wait(timeout=10)
        assert leases.read(folder=str(path)) == []
        lock = try_take(folder, GPU, {})
        assert lock is not None
        lock.release()
        assert parent.stdin is not None
        parent.stdin.close()


@pytest.mark.usefixtures("as_root")
def test_more_files_than_takers_make_are_not_opened(folder: int, path: Path) -> None:
    for number in range(50):
        extra = path / lease_files.own_name(GPU, OTHER_UID, str(number))
        extra.write_text("")
        os.chown(extra, OTHER_UID, OTHER_UID)
    for uid in range(20_000, 20_200):
        other = path / lease_files.own_name(GPU, uid)
        other.write_text("")
        os.chown(other, uid, uid)
    lock = try_take(folder, GPU, {})
    assert lock is not None and len(lock.descriptors) == 65
    assert len([file for file in lease_files.list_files(folder) if file.uid == OTHER_UID]) == 4
    lock.release()


@pytest.mark.usefixtures("as_root")
def test_files_for_gpus_that_are_made_up_are_read_to_a_limit_and_hide_nobody(
    folder: int, path: Path
) -> None:
    lock = try_take(folder, GPU, {})
    assert lock is not None
    for number in range(1100):
        made_up = path / lease_files.own_name(f"A-{number}", OTHER_UID)
        made_up.touch()
        os.chown(made_up, OTHER_UID, OTHER_UID)
    files = lease_files.list_files(folder)
    assert len(files) == 1025 and GPU in [file.uuid for file in files]
    assert [row["uuid"] for row in leases.read(folder=str(path))] == [GPU]
    lock.release()


@pytest.mark.usefixtures("as_root")
def test_files_of_the_many_ids_of_one_person_delay_nobody_and_hide_nobody(
    folder: int, path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "subuid").write_text("mallory:100000:65536\nbob:300000:65536\nodd\n::\n")
    monkeypatch.setattr(lease_quota, "_SUBORDINATE_IDS", str(tmp_path / "subuid"))
    lease_quota._read_ranges.cache_clear()
    names = [lease_files.own_name(GPU, uid) for uid in (0, 5000, *range(100_000, 100_400), 300_007)]
    for name in names:
        (path / name).touch()
        uid = int(name.split(".")[2])
        os.chown(path / name, uid, uid)
    listed = [file.uid for file in lease_files.list_files(folder, GPU)]
    assert {0, 5000, 300_007} <= set(listed) and len(listed) == 3 + 64
    # Each of them locked, by a process that holds nothing.
    with contextlib.ExitStack() as opened:
        for name in names:
            file = opened.enter_context((path / name).open())
            fcntl.flock(file, fcntl.LOCK_SH)
        began = time.monotonic()
        lock = try_take(folder, GPU, {})
        assert lock is not None and time.monotonic() - began < 10
        lock.release()
    lease_quota._read_ranges.cache_clear()


@pytest.mark.usefixtures("as_root")
def test_a_user_has_few_places_ahead_of_others(folder: int) -> None:
    code = (
        "import os, sys\n"
        "from fleet_smi.node.bindings.lease_queue import Ticket\n"
        f"os.setuid({OTHER_UID})\n"
        "tickets = [Ticket(int(sys.argv[1]), 8, frozenset()) for _ in range(30)]\n"
        "os.write(1, b'x')\n"
        "os.read(0, 1)\n"
    )
    with subprocess.Popen(
        [sys.executable, "-c", code, str(folder)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        pass_fds=[folder],
    ) as hostile:
        assert hostile.stdout is not None and hostile.stdout.read(1) == b"x"
        own = Ticket(folder, 1, frozenset())
        ahead = waiters_ahead(folder, own)
        assert [each.user for each in ahead] == [str(OTHER_UID)] * 16
        assert len(waiters_ahead(folder, None)) == 17
        own.leave()
        assert hostile.stdin is not None
        hostile.stdin.close()


@pytest.mark.usefixtures("as_root")
def test_a_full_folder_is_said_in_one_line(tmp_path: Path) -> None:
    with small_disk(tmp_path / "disk", 1) as disk:
        folder = open_folder(str(disk / "leases"))
        os.close(os.open(disk / "leases" / lease_files.own_name(GPU, 0), os.O_CREAT | os.O_RDWR))
        with contextlib.suppress(OSError), (disk / "full").open("wb") as file:
            file.write(b"x" * (2 << 20))
        with pytest.raises(StateError, match="No space left"):
            try_take(folder, GPU, {})
        with pytest.raises(StateError, match="No space left"):
            Ticket(folder, 1, frozenset({GPU}))
        os.close(folder)


@pytest.mark.usefixtures("as_root")
def test_a_place_in_the_queue_counts_for_its_owner_only(folder: int, path: Path) -> None:
    own = Ticket(folder, 1, frozenset())
    name = own.name
    own.leave()
    # A ticket that was left behind, or made up, and is locked by somebody else.
    for file, uid in ((path / name, 0), (path / "fleet-smi.queue", 0), (path / f"x{name}", 1)):
        file.write_text("1")
        os.chown(file, uid, uid)
    with (
        _locked_by(path / name, OTHER_UID),
        _locked_by(path / "fleet-smi.queue", OTHER_UID),
    ):
        assert waiters_ahead(folder, None) == []


@contextmanager
def _locked_by(
    file: Path,
    uid: int,
    kind: int = fcntl.LOCK_EX,
    effective: int | None = None,
    *,
    signs: bool = False,
) -> Iterator[None]:
    """Lock a file in a process of a user, who creates it if it is missing.

    With `signs` it writes there which process it is, as a holder does.
    """
    if not file.exists():
        file.write_text("note mine\n")
        os.chown(file, uid, uid)
    program = (
        "import fcntl, os, sys\n"
        "from fleet_smi.node.bindings.lease_files import format_details\n"
        "from fleet_smi.node.bindings.lease_lockers import identify_self\n"
        "uid, effective, kind, signs, fd = map(int, sys.argv[1:])\n"
        "os.setresuid(uid, effective, effective)\n"
        "fcntl.flock(fd, kind)\n"
        "if signs:\n"
        "    os.pwrite(fd, format_details({**identify_self(), 'note': 'mine'}), 0)\n"
        "print('locked', flush=True)\n"
        "sys.stdin.read()\n"
    )
    opened = os.open(file, os.O_RDWR if signs else os.O_RDONLY)
    numbers = [uid, uid if effective is None else effective, kind, int(signs), opened]
    with subprocess.Popen(
        [sys.executable, "-c", program, *map(str, numbers)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        pass_fds=[opened],
    ) as process:
        os.close(opened)
        assert process.stdout is not None and process.stdout.readline() == b"locked\n"
        yield
        process.communicate(timeout=10)
