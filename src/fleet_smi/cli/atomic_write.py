"""Atomic file writes: the whole file or nothing, and never through a symlink."""

import os
import tempfile
from pathlib import Path

from fleet_smi.errors import Unmet, UsageError


def write_file(path: Path, text: str, mode: int, *, replace: bool) -> None:
    """Write a text file atomically; raise `UsageError` if it exists and `replace` is false.

    The text goes to a temporary file in the same folder, is synced, and is then moved into
    place: readers see the old file or the new one, never half of one.
    """
    try:
        if not path.parent.is_dir():
            path.parent.mkdir(parents=True)
            path.parent.chmod(0o755)  # whatever the umask: access is decided by the file's mode
        descriptor, name = tempfile.mkstemp(prefix=f".{path.name}.", dir=path.parent)
        temporary = Path(name)
        try:
            with os.fdopen(descriptor, "w", encoding="utf-8") as file:
                file.write(text)
                file.flush()
                # Before the file gets its name: it must never be visible with another mode.
                os.fchmod(descriptor, mode)
                os.fsync(descriptor)
            # Both act on the name itself: a symlink there is replaced or refused, not followed.
            if replace:
                temporary.replace(path)
            else:
                # Unlike rename, link fails if the name exists, without a race.
                path.hardlink_to(temporary)
        finally:
            temporary.unlink(missing_ok=True)
    except FileExistsError:
        raise UsageError(f"{path} already exists and is not overwritten") from None
    except OSError as error:
        raise Unmet(f"cannot write {path}: {error.strerror}") from None
