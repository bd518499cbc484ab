"""Run a script on a machine over an admin's own ssh: their keys, ssh_config and jump hosts."""

import os
import pwd
import subprocess
from typing import Any, NamedTuple

from fleet_smi.errors import Refused
from fleet_smi.hub.ssh_errors import parse_ssh_error
from fleet_smi.hub.ssh_program import destination
from fleet_smi.model.safe_text import sanitize_text

_OPTIONS = (
    "ConnectTimeout=10",
    "ConnectionAttempts=1",
    "ServerAliveInterval=10",
    "ServerAliveCountMax=3",
    "ForwardAgent=no",
    "ForwardX11=no",
    "ClearAllForwardings=yes",
    "RemoteCommand=none",
    "RequestTTY=no",
    "LogLevel=ERROR",
)
_SSH_FAILED = 255
_MAX_LINE = 600


class ScriptResult(NamedTuple):
    """The last line that a script printed, or why it failed.

    `may_ask` is whether ssh could get further by asking at a terminal: for a password, or
    whether a new host key is right.
    """

    is_done: bool
    text: str
    may_ask: bool = False


def run_script(
    host: str, script: bytes, *, config: str | None, timeout_seconds: float, may_ask: bool = False
) -> ScriptResult:
    """Run a script of the shell on a host; it is standard input, so that nobody sees it there."""
    options = [*_OPTIONS, *(() if may_ask else ("BatchMode=yes",))]
    flags = [word for option in options for word in ("-o", option)]
    own = [] if config is None else ["-F", config]
    command = ["ssh", *own, *flags, "-T", "--", destination(host), "exec sh"]
    try:
        done = subprocess.run(
            command,
            input=script,
            capture_output=True,
            timeout=timeout_seconds,
            # Without a terminal of its own, ssh cannot ask there.
            start_new_session=not may_ask,
            check=False,
            **_caller_of_sudo(),
        )
    except subprocess.TimeoutExpired as error:
        last = _last_line(error.stderr or b"")
        return ScriptResult(
            is_done=False, text=f"not finished after {timeout_seconds:g} s{last and ': ' + last}"
        )
    except OSError as error:
        return ScriptResult(is_done=False, text=f"ssh cannot be run: {error.strerror}")
    if done.returncode == 0:
        return ScriptResult(is_done=True, text=_last_line(done.stdout))
    if done.returncode == _SSH_FAILED:
        errors = done.stderr.decode("utf-8", "replace")
        # Where it would ask whether a new key is right, ssh says no more than this.
        if errors.strip() == "Host key verification failed.":
            text = f"its host key is not known: compare it, with `fleet-smi ssh trust {host}`"
            return ScriptResult(is_done=False, text=text, may_ask=True)
        failure = parse_ssh_error(errors)
        return ScriptResult(
            is_done=False, text=failure.message, may_ask=isinstance(failure, Refused)
        )
    return ScriptResult(
        is_done=False, text=_last_line(done.stderr) or f"exit code {done.returncode}"
    )


def _last_line(output: bytes) -> str:
    lines = output.decode("utf-8", "replace").strip().splitlines()
    return sanitize_text(lines[-1], _MAX_LINE).removeprefix("fleet-smi: ") if lines else ""


def _caller_of_sudo() -> dict[str, Any]:
    """Who ran sudo: their ssh knows the machines, and not that of root."""
    caller = os.environ.get("SUDO_UID", "")
    if os.geteuid() != 0 or not caller.isdecimal() or caller == "0":
        return {}
    entry = pwd.getpwuid(int(caller))
    groups = os.getgrouplist(entry.pw_name, entry.pw_gid)
    home = {"HOME": entry.pw_dir, "USER": entry.pw_name, "LOGNAME": entry.pw_name}
    return {
        "user": entry.pw_uid,
        "group": entry.pw_gid,
        "extra_groups": groups,
        "env": {**os.environ, **home},
    }
