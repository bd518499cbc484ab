"""The agent's own folder: closed to others, and never one that others may write to."""

import os

from fleet_smi.errors import UsageError

_OTHERS_MAY_WRITE = 0o022


def ensure_private_folder(path: str) -> None:
    """Make the folder where it is missing; raise `UsageError` when it cannot be private."""
    try:
        os.makedirs(path, 0o700, exist_ok=True)  # noqa: PTH103  # pathlib is memory of the agent
        mode = os.stat(path).st_mode  # noqa: PTH116
    except OSError as error:
        raise UsageError(f"{path}: {error.strerror}; give another --state") from None
    if mode & _OTHERS_MAY_WRITE:
        raise UsageError(f"others may write to {path}: run `chmod go-w {path}` first")
