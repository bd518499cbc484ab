"""Start and stop the agent's background process, and have cron start it, where systemd is not."""

import contextlib
import os
import shutil
import signal
import subprocess
import time
from collections.abc import Sequence

from fleet_smi.errors import Unmet

_STOP_SECONDS = 8.0
_START_SECONDS = 10.0
_POLL_SECONDS = 0.05


def run_as(command: Sequence[str], text: str, user: str | None) -> None:
    """Run a command of ours to its end as a user; raise `Unmet` with the line that it fails with.

    `text` is its standard input: a token is never an argument.
    """
    try:
        done = subprocess.run(
            command,
            input=text,
            capture_output=True,
            text=True,
            errors="replace",
            user=user,
            group=user,
            extra_groups=None if user is None else (),
            check=False,
        )
    except OSError as error:
        raise Unmet(f"`{command[0]}` cannot be run: {error.strerror}") from None
    if done.returncode:
        lines = done.stderr.strip().splitlines() or [f"exit code {done.returncode}"]
        raise Unmet(lines[-1].removeprefix("fleet-smi: "))


def start(script: str, pid_file: str, log: str) -> None:
    """Start a script that writes its pid, in a session of its own; raise `Unmet` if it ends."""
    flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_NOFOLLOW
    try:
        with os.fdopen(os.open(log, flags, 0o600), "ab") as output:
            process = subprocess.Popen(
                [script],
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                cwd="/",
                start_new_session=True,
            )
    except OSError as error:
        raise Unmet(f"{script} cannot be started: {error.strerror}") from None
    deadline = time.monotonic() + _START_SECONDS
    while running_pid(script, pid_file) is None:
        if process.poll() is not None or time.monotonic() > deadline:
            raise Unmet(f"the agent does not start: {log} says why")
        time.sleep(_POLL_SECONDS)


def running_pid(script: str, pid_file: str) -> int | None:
    """The pid of the script, `None` if it does not run."""
    try:
        with open(pid_file, encoding="ascii") as file:
            pid = int(file.read())
        with open(f"/proc/{pid}/cmdline", "rb") as arguments:
            # Another program may have the pid of one that has ended.
            return pid if os.fsencode(script) in arguments.read().split(b"\0") else None
    except (OSError, ValueError):
        return None


def stop(script: str, pid_file: str) -> bool:
    """End the script and the agent; return whether it ran."""
    pid = running_pid(script, pid_file)
    if pid is None:
        return False
    deadline = time.monotonic() + _STOP_SECONDS
    with contextlib.suppress(ProcessLookupError):
        os.killpg(pid, signal.SIGTERM)
        while _group_exists(pid):
            if time.monotonic() > deadline:
                os.killpg(pid, signal.SIGKILL)
                break
            time.sleep(_POLL_SECONDS)
    return True


def _group_exists(group: int) -> bool:
    with contextlib.suppress(ChildProcessError):
        os.waitpid(group, os.WNOHANG)  # it may be our own child
    try:
        os.killpg(group, 0)
    except ProcessLookupError:
        return False
    return True


def set_cron_line(script: str, line: str | None) -> bool:
    """Have cron run `line` at boot, or no longer with `None`; return false without cron."""
    program = shutil.which("crontab")
    if program is None:
        return False
    listed = subprocess.run([program, "-l"], capture_output=True, text=True, check=False)
    others = [each for each in listed.stdout.splitlines() if script not in each]
    text = "".join(f"{each}\n" for each in [*others, *([] if line is None else [line])])
    done = subprocess.run([program, "-"], input=text, capture_output=True, text=True, check=False)
    return done.returncode == 0
