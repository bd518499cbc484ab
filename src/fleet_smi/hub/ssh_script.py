"""The fixed shell script that is run on nodes over ssh."""

import shlex
from importlib.resources import files

REMOTE_COMMAND = "exec sh"
"""The command that ssh runs. The script is its standard input: the login shell may be csh or
fish, which quote differently, and every user of the node can read the arguments of a process."""

_SCRIPT = files("fleet_smi.wire.parsers").joinpath("remote_shell.sh").read_text("utf-8")


def build_script(marker: str, timeout_seconds: int, root: str = "") -> bytes:
    """The script of one poll; `marker` precedes each section of its output."""
    settings = f"mark={marker} patience={timeout_seconds} root={shlex.quote(root)}"
    # In braces the shell reads all of it before it runs any; its programs get no input.
    return f"{settings}\n{{\n{_SCRIPT}}} </dev/null\n".encode()
