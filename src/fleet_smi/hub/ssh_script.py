"""The one fixed script that is run on nodes over ssh."""

import shlex
from importlib.resources import files

REMOTE_COMMAND = "exec sh"
"""What ssh is told to run. The script comes by standard input: a login shell may be csh or
fish, which quote otherwise, and what is in the arguments of a process, all can read."""

_SCRIPT = files("fleet_smi.wire.parsers").joinpath("remote_shell.sh").read_text("utf-8")


def build_script(marker: str, timeout_seconds: int, root: str = "") -> bytes:
    """The script for one look; the mark stands in front of each part of its answer."""
    settings = f"mark={marker} patience={timeout_seconds} root={shlex.quote(root)}"
    # In braces it is read to its end before any of it runs; what it runs has no input.
    return f"{settings}\n{{\n{_SCRIPT}}} </dev/null\n".encode()
