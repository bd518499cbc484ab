"""The hub's state folder: closed to others, and its files are written whole or not at all."""

import fcntl
import os
import secrets
from pathlib import Path
from typing import NamedTuple

from fleet_smi.errors import StateError

_NEW_FILE = os.O_WRONLY | os.O_CREAT | os.O_EXCL
_OTHERS_MAY_WRITE = 0o022
LOCK_FILE = "lock"
ADDRESS_FILE = "address"
ADMIN_TOKEN_FILE = "admin-token"  # noqa: S105  # a file's name


def ensure_private_folder(folder: Path) -> Path:
    """The folder, made where it is missing; one that others may write to is refused."""
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        mode = folder.stat().st_mode
    except OSError as error:
        raise StateError(f"{folder} cannot be used for state: {error.strerror}") from None
    if mode & _OTHERS_MAY_WRITE:
        raise StateError(f"others may write to {folder}: run `chmod go-w {folder}` first")
    return folder


def chown_to_folder_owner(path: Path) -> None:
    """What root makes in the folder of the hub's own user belongs to that user."""
    if os.geteuid() == 0:
        folder = path.parent.stat()
        os.chown(path, folder.st_uid, folder.st_gid)


def write_private_file(path: Path, content: bytes) -> None:
    """Put content there that only its owner may read, in one step."""
    ensure_private_folder(path.parent)
    draft = path.with_name(f".{path.name}.{secrets.token_hex(4)}")
    try:
        with os.fdopen(os.open(draft, _NEW_FILE, 0o600), "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        chown_to_folder_owner(draft)
        draft.replace(path)
    except OSError as error:
        raise StateError(f"{path} cannot be written: {error.strerror}") from None
    finally:
        draft.unlink(missing_ok=True)


def lock_folder(folder: Path) -> int:
    """A descriptor that is the only one of its kind while it is open: one hub a folder."""
    path = folder / LOCK_FILE
    try:
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    except OSError as error:
        raise StateError(
            f"{path} cannot be used: {error.strerror}; run as its folder's user, or give --state"
        ) from None
    chown_to_folder_owner(path)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        os.close(descriptor)
        raise StateError(
            f"another hub runs on {folder}: end it, or give this one its own --state"
        ) from None
    return descriptor


class RunningHub(NamedTuple):
    """Where a hub that runs listens: for others, for this machine, and its certificate's pin."""

    url: str
    local_url: str
    fingerprint: str | None


def write_running_hub(folder: Path, running_hub: RunningHub) -> None:
    """Tell the hub's own user where it listens."""
    words = (running_hub.url, running_hub.local_url, running_hub.fingerprint or "")
    write_private_file(folder / ADDRESS_FILE, " ".join(words).encode() + b"\n")


def read_running_hub(folder: Path) -> RunningHub | None:
    """Where the hub of this folder listens; `None` when none runs or it is not ours to read."""
    try:
        url, local_url, *pin = (folder / ADDRESS_FILE).read_text("utf-8").split()
    except (OSError, ValueError):
        return None
    return RunningHub(url, local_url, pin[0] if pin else None)


def create_local_admin_token(folder: Path) -> str:
    """Leave a fresh admin token for commands of the hub's own user; good for this life of it."""
    token = f"fsmi_local_{secrets.token_urlsafe(32)}"
    write_private_file(folder / ADMIN_TOKEN_FILE, token.encode() + b"\n")
    return token


def read_local_admin_token(folder: Path) -> str | None:
    """The token that the hub left there; `None` when none is running or it is not ours to read."""
    try:
        return (folder / ADMIN_TOKEN_FILE).read_text("ascii").strip() or None
    except (OSError, UnicodeDecodeError):
        return None


def remove_runtime_files(folder: Path) -> None:
    """Take the token and the address away when the hub ends."""
    (folder / ADMIN_TOKEN_FILE).unlink(missing_ok=True)
    (folder / ADDRESS_FILE).unlink(missing_ok=True)
