"""Run `systemctl` and `useradd` to install and start a service."""

import os
import subprocess
from collections.abc import Sequence

from fleet_smi.errors import Unmet

_SECONDS = 60.0


def is_running() -> bool:
    """Whether systemd runs this machine."""
    return os.path.isdir("/run/systemd/system")


def is_user_running() -> bool:
    """Whether a systemd of this user runs, and can be reached from this session."""
    folder = os.environ.get("XDG_RUNTIME_DIR")
    return bool(folder) and os.path.isdir(f"{folder}/systemd")


def run(command: Sequence[str]) -> None:
    """Run a command to its end; raise `Unmet` with its error output if it fails."""
    try:
        done = subprocess.run(
            command,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=_SECONDS,
            check=False,
        )
    except subprocess.TimeoutExpired:
        raise Unmet(f"`{' '.join(command)}` did not end in {_SECONDS:g} s") from None
    except OSError as error:
        raise Unmet(f"`{command[0]}` cannot be run: {error.strerror}") from None
    if done.returncode:
        message = (done.stderr or done.stdout).strip() or f"exit code {done.returncode}"
        raise Unmet(f"`{' '.join(command)}` failed: {message}")
