"""The hub's state folder: private files written atomically, a lock, the admin token, the URL."""

import fcntl
import os
import secrets
import stat
from pathlib import Path
from typing import NamedTuple

from fleet_smi.errors import StateError
from fleet_smi.paths import ensure_private_folder, user_name

_NEW_FILE = os.O_WRONLY | os.O_CREAT | os.O_EXCL
_MAX_FILE_BYTES = 4096
# In a folder with the sticky bit, like /tmp, nobody can exchange what belongs to another.
_OPEN_TO_ALL = stat.S_IWOTH | stat.S_ISVTX
LOCK_FILE = "lock"
ADDRESS_FILE = "address"
ADMIN_TOKEN_FILE = "admin-token"  # noqa: S105  # a file's name


def become_owner(folder: Path) -> None:
    """As root, become the user whom an existing folder belongs to; nothing for anybody else.

    `sudo fleet-smi hub token …` works in the folder of the hub's own user, who can put links
    in it: what root does there could be turned against any file of the machine. Raise
    `StateError` where a third user could exchange the folder itself.
    """
    if os.geteuid() != 0:
        return
    existing = next(path for path in (folder, *folder.absolute().parents) if path.exists())
    owner = existing.stat()
    for part in {*_parts(existing.absolute()), *_parts(existing.resolve())}:
        status = part.lstat()
        if status.st_uid not in (0, owner.st_uid):
            name = user_name(status.st_uid)
            raise StateError(
                f"{part}, which leads to {folder}, belongs to {name}: run this as {name}, "
                "or give another --state"
            )
        if stat.S_ISDIR(status.st_mode) and status.st_mode & _OPEN_TO_ALL == stat.S_IWOTH:
            raise StateError(f"everybody may write to {part}: run `chmod o-w {part}` first")
    # Below a folder of a user, a missing state folder is created by that user.
    if owner.st_uid != 0:
        _switch_user(owner.st_uid, owner.st_gid)


def _parts(path: Path) -> tuple[Path, ...]:
    return path, *path.parents


def _switch_user(uid: int, gid: int) -> None:
    os.setgroups([])
    os.setresgid(gid, gid, gid)
    os.setresuid(uid, uid, uid)


def write_private_file(path: Path, content: bytes) -> None:
    """Write a file with mode 0600 atomically: readers see the old content or the new.

    Raise `StateError` if that fails.
    """
    ensure_private_folder(str(path.parent))
    draft = path.with_name(f".{path.name}.{secrets.token_hex(4)}")
    try:
        with os.fdopen(os.open(draft, _NEW_FILE, 0o600), "wb") as file:
            file.write(content)
            # Before the rename: after a power failure the name must not have an empty file.
            file.flush()
            os.fsync(file.fileno())
        draft.replace(path)
    except OSError as error:
        raise StateError(f"{path} cannot be written: {error.strerror}") from None
    finally:
        draft.unlink(missing_ok=True)


def lock_folder(folder: Path) -> int:
    """Lock the folder for one hub; return the descriptor that holds the lock while it is open.

    Raise `StateError` if another hub has it.
    """
    path = folder / LOCK_FILE
    try:
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    except OSError as error:
        raise StateError(
            f"{path} cannot be used: {error.strerror}; run as its folder's user, or give --state"
        ) from None
    try:
        # The kernel drops the lock with the process, so a killed hub never leaves a stale one.
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        os.close(descriptor)
        raise StateError(
            f"another hub runs on {folder}: end it, or give this one its own --state"
        ) from None
    return descriptor


class RunningHub(NamedTuple):
    """Where a running hub listens: for others, for this machine, and its TLS fingerprint."""

    url: str
    local_url: str
    fingerprint: str | None


def write_running_hub(folder: Path, running_hub: RunningHub) -> None:
    """Write where the hub listens, for commands of the user who runs it."""
    fields = (running_hub.url, running_hub.local_url, running_hub.fingerprint or "")
    write_private_file(folder / ADDRESS_FILE, " ".join(fields).encode() + b"\n")


def read_running_hub(folder: Path) -> RunningHub | None:
    """Where the hub of this folder listens; `None` if none runs or the file is not readable."""
    # A hub that was killed leaves the file, and another program may have its port by now.
    if not _is_locked(folder):
        return None
    try:
        url, local_url, *fingerprint = _read_own_file(folder, ADDRESS_FILE).decode().split()
    except (OSError, ValueError):
        return None
    return RunningHub(url, local_url, fingerprint[0] if fingerprint else None)


def _is_locked(folder: Path) -> bool:
    """Whether a hub holds the lock of the folder; taking the lock to find out could stop one."""
    try:
        inode = (folder / LOCK_FILE).lstat().st_ino
        # Not "ascii": its codec is a file, which the user that root became may not be able to read.
        locks = Path("/proc/locks").read_text("utf-8").splitlines()
    except FileNotFoundError:
        return False
    except OSError:
        return True  # it cannot be found out: then the address file decides
    # "3: FLOCK  ADVISORY  WRITE 185 00:2d:1234 0 EOF"
    held = [line.split() for line in locks if " FLOCK " in line]
    return any(words[-3].rpartition(":")[2] == str(inode) for words in held)


def create_local_admin_token(folder: Path) -> str:
    """Write a new admin token for commands of the hub's own user, valid until the hub ends."""
    token = f"fsmi_local_{secrets.token_urlsafe(32)}"
    write_private_file(folder / ADMIN_TOKEN_FILE, token.encode() + b"\n")
    return token


def read_local_admin_token(folder: Path) -> str | None:
    """The admin token of the running hub; `None` if none runs or the file is not readable."""
    try:
        return _read_own_file(folder, ADMIN_TOKEN_FILE).decode("ascii").strip() or None
    except (OSError, UnicodeDecodeError):
        return None


def _read_own_file(folder: Path, name: str) -> bytes:
    """Read a file that belongs to the owner of its folder; raise `OSError` for any other.

    Root reads it too, and sends what is in it to the hub: a link of the hub's user to
    somebody else's secret must not be followed.
    """
    flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
    with os.fdopen(os.open(folder / name, flags), "rb") as file:
        status = os.fstat(file.fileno())
        owner = folder.stat().st_uid
        if not stat.S_ISREG(status.st_mode) or status.st_uid != owner or status.st_nlink != 1:
            raise PermissionError(f"{folder / name} is not the hub's own file")
        return file.read(_MAX_FILE_BYTES)


def remove_runtime_files(folder: Path) -> None:
    """Remove the admin token and the address file when the hub ends."""
    (folder / ADMIN_TOKEN_FILE).unlink(missing_ok=True)
    (folder / ADDRESS_FILE).unlink(missing_ok=True)
