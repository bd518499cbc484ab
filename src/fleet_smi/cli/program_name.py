"""The name under which a user's shell finds this program, for commands in messages."""

import shutil
import sys
from pathlib import Path


def program_name() -> str:
    """Return `fleet-smi`, or its path if it is not on the PATH, as after `make run`."""
    script = Path(sys.executable).with_name("fleet-smi")
    if shutil.which("fleet-smi") or not script.exists():
        return "fleet-smi"
    here = Path.cwd()
    return str(script.relative_to(here) if script.is_relative_to(here) else script)
