"""The hub's state folder: private files written atomically, a lock, the admin token, the URL."""

import fcntl
import os
import secrets
from pathlib import Path
from typing import NamedTuple

from fleet_smi.errors import StateError
from fleet_smi.paths import ensure_private_folder

_NEW_FILE = os.O_WRONLY | os.O_CREAT | os.O_EXCL
LOCK_FILE = "lock"
ADDRESS_FILE = "address"
ADMIN_TOKEN_FILE = "admin-token"  # noqa: S105  # a file's name


def chown_to_folder_owner(path: Path) -> None:
    """When root creates a file, give it to the owner of the folder it is in."""
    # `sudo fleet-smi hub token …` must not leave files that the hub's own user cannot open.
    if os.geteuid() == 0:
        folder = path.parent.stat()
        os.chown(path, folder.st_uid, folder.st_gid)


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
        chown_to_folder_owner(draft)
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
    chown_to_folder_owner(path)
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
    try:
        url, local_url, *fingerprint = (folder / ADDRESS_FILE).read_text("utf-8").split()
    except (OSError, ValueError):
        return None
    return RunningHub(url, local_url, fingerprint[0] if fingerprint else None)


def create_local_admin_token(folder: Path) -> str:
    """Write a new admin token for commands of the hub's own user, valid until the hub ends."""
    token = f"fsmi_local_{secrets.token_urlsafe(32)}"
    write_private_file(folder / ADMIN_TOKEN_FILE, token.encode() + b"\n")
    return token


def read_local_admin_token(folder: Path) -> str | None:
    """The admin token of the running hub; `None` if none runs or the file is not readable."""
    try:
        return (folder / ADMIN_TOKEN_FILE).read_text("ascii").strip() or None
    except (OSError, UnicodeDecodeError):
        return None


def remove_runtime_files(folder: Path) -> None:
    """Remove the admin token and the address file when the hub ends."""
    (folder / ADMIN_TOKEN_FILE).unlink(missing_ok=True)
    (folder / ADDRESS_FILE).unlink(missing_ok=True)
