"""The file of a SQLite history: created for its owner only, renamed when it is damaged."""

import os
import time
from pathlib import Path

from fleet_smi.errors import StateError
from fleet_smi.paths import ensure_private_folder


def create_private_file(path: Path) -> None:
    """Create a file that only its owner can read, if there is none; raise `StateError`."""
    ensure_private_folder(str(path.parent))
    try:
        os.close(os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600))
        path.chmod(0o600)
    except OSError as error:
        raise StateError(f"{path} cannot be opened: {error.strerror}") from None


def is_emptied(path: Path) -> bool:
    """Return whether a file without content is there: a hub never leaves one behind."""
    try:
        return path.stat().st_size == 0 and not path.with_name(f"{path.name}-wal").exists()
    except OSError:
        return False


def set_aside(path: Path) -> str:
    """Rename a damaged file and its journal; return what was done as a message."""
    new_name = f"{path.name}.damaged-{time.strftime('%Y-%m-%dT%H%M%S')}"
    try:
        # The journal first: one that is left behind would be applied to the new file.
        for suffix in ("-wal", "-shm", ""):
            file = path.with_name(f"{path.name}{suffix}")
            if file.exists():
                file.rename(path.with_name(f"{new_name}{suffix}"))
    except OSError as error:
        raise StateError(f"{path} is damaged and cannot be renamed: {error.strerror}") from None
    return f"{path.name} was damaged and is set aside as {new_name}"
