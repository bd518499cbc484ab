"""Small files that only their user may read: written atomically, never through a link."""

import contextlib
import os

from fleet_smi.errors import UsageError
from fleet_smi.paths import make_folder

_MAX_BYTES = 1 << 20


def write_private(path: str, content: bytes) -> None:
    """Write a file with mode 0600, and its folder where it is missing; raise `OSError`."""
    make_folder(os.path.dirname(path))
    # Synced and renamed: a crash leaves the old content or the new one, never an empty file.
    # O_EXCL and O_NOFOLLOW: never through a link that another user has put there.
    temporary = f"{path}.{os.urandom(4).hex()}"
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW
    try:
        with os.fdopen(os.open(temporary, flags, 0o600), "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        os.rename(temporary, path)
    except BaseException:
        with contextlib.suppress(OSError):
            os.unlink(temporary)
        raise


def read_private(path: str) -> bytes | None:
    """Read such a file, `None` if there is none; raise `UsageError` if others can read it."""
    try:
        with os.fdopen(os.open(path, os.O_RDONLY | os.O_NOFOLLOW), "rb") as file:
            if os.fstat(file.fileno()).st_mode & 0o077:
                raise UsageError(f"{path} can be read by others: chmod 600 it")
            return file.read(_MAX_BYTES)
    except FileNotFoundError:
        return None
    except OSError as error:
        raise UsageError(f"{path} cannot be read: {error.strerror}") from None
