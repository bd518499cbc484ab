"""The check that this machine is Linux: drivers and processes are read nowhere else."""

import sys

from fleet_smi.errors import UsageError


def require_linux() -> None:
    """Raise `UsageError` with what to do instead, on a machine that is not Linux."""
    if sys.platform != "linux":
        raise UsageError(
            "this machine is not Linux, and only GPUs of Linux machines can be read: "
            "give --hub URL, or --ssh HOST[,HOST]"
        )
