"""Run a vendor's program with a timeout and a limit on its output.

One that is late is killed. While one cannot be killed, the program is not started again.
"""

import os
import select
import time
from collections.abc import Sequence
from typing import TYPE_CHECKING

from fleet_smi.errors import CollectError, NotAnswering, NotPresent, ReadFailed

if TYPE_CHECKING:
    import subprocess

MAX_OUTPUT_BYTES = 16 * 2**20
_KILL_GRACE_SECONDS = 0.2

_stuck: dict[str, list[tuple["subprocess.Popen[bytes]", float]]] = {}
"""By program: the processes that could not be killed, and when each was started."""


def run_program(command: Sequence[str], deadline: float, remedy: str) -> tuple[str, int]:
    """Return what the program printed, and its exit code, whatever that is.

    What it printed is its standard output or, where that is empty, its standard error. Raise a
    `CollectError` where it cannot be run, prints too much or does not end by `deadline`, which is
    by the monotonic clock. `remedy` says what to do where it is not installed.
    """
    (output,) = run_programs([command], deadline, remedy)
    if isinstance(output, CollectError):
        raise output
    return output


def run_programs(
    commands: Sequence[Sequence[str]], deadline: float, remedy: str
) -> list[tuple[str, int] | CollectError]:
    """Run commands of one program concurrently; return the output or error of each, in order.

    Raise `NotPresent` where the program is not installed, and `NotAnswering` while an earlier
    one is stuck in the driver: another would get stuck as well.
    """
    name = os.path.basename(commands[0][0])
    _raise_if_stuck(name)
    started_at = time.time()
    children: list[subprocess.Popen[bytes]] = []
    try:
        # Appended one by one: where one cannot be started, those before it are killed below.
        for command in commands:
            children.append(_start(name, command, remedy))
        return [_finish(name, child, deadline, started_at) for child in children]
    finally:
        for child in children:
            # `_finish` has already tried to kill one that is stuck.
            if child.returncode is None and all(child is not stuck for stuck, _ in _stuck[name]):
                _kill(name, child, started_at)


def read_outputs(commands: Sequence[Sequence[str]], deadline: float, remedy: str) -> list[str]:
    """Return the texts of the commands that ended in time, whatever their exit codes.

    Those that did not are left out. When none did, raise a `CollectError`; for a
    timeout that is `NotAnswering` only if one cannot be killed, else `ReadFailed`.
    """
    outputs = run_programs(commands, deadline, remedy)
    texts = [output[0] for output in outputs if not isinstance(output, CollectError)]
    errors = [output for output in outputs if isinstance(output, CollectError)]
    if texts or not errors:
        return texts
    name = os.path.basename(commands[0][0])
    # These programs read every sensor of every GPU, and may just be slow. Only one that cannot
    # be killed shows that the driver hangs.
    if isinstance(errors[0], NotAnswering) and not _stuck[name]:
        raise ReadFailed(f"{name} did not end in time and was killed")
    raise errors[0]


def too_much_output(name: str) -> ReadFailed:
    """Return the error for output beyond `MAX_OUTPUT_BYTES`."""
    return ReadFailed(f"{name} printed more than {MAX_OUTPUT_BYTES >> 20} MiB")


def _start(name: str, command: Sequence[str], remedy: str) -> "subprocess.Popen[bytes]":
    import subprocess

    try:
        return subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env={**os.environ, "LC_ALL": "C"},
            # A group of its own: killed with everything that it starts itself.
            start_new_session=True,
        )
    except FileNotFoundError:
        raise NotPresent(f"no {name} on PATH: {remedy}") from None
    except OSError as error:
        raise ReadFailed(f"{name} cannot be run: {error.strerror}") from None


def _finish(
    name: str, child: "subprocess.Popen[bytes]", deadline: float, started_at: float
) -> tuple[str, int] | CollectError:
    import subprocess

    try:
        output, errors = _read_output(name, child, deadline)
        child.wait(max(0.0, deadline - time.monotonic()))
    except (subprocess.TimeoutExpired, TimeoutError):
        return _kill(name, child, started_at)
    except ReadFailed as error:
        return _kill(name, child, started_at, error)
    # Errors go to either stream, depending on program and version. A process name in the output
    # may be any bytes.
    text = (output if output.strip() else errors).decode("utf-8", errors="replace")
    return text, child.returncode


def _read_output(
    name: str, child: "subprocess.Popen[bytes]", deadline: float
) -> tuple[bytes, bytes]:
    """Return all of standard output and standard error."""
    pipes = [pipe for pipe in (child.stdout, child.stderr) if pipe is not None]
    buffers = {pipe.fileno(): bytearray() for pipe in pipes}
    try:
        _read_pipes(name, buffers, deadline)
    finally:
        for pipe in pipes:
            pipe.close()
    output, errors = map(bytes, buffers.values())
    return output, errors


def _read_pipes(name: str, buffers: dict[int, bytearray], deadline: float) -> None:
    """Read from each pipe until all are closed; raise `ReadFailed` at too much output."""
    still_open = set(buffers)
    poll = select.poll()
    for pipe in buffers:
        poll.register(pipe, select.POLLIN)
    while still_open:
        left = max(0.0, deadline - time.monotonic())
        readable = poll.poll(left * 1000)
        # Of several programs the first may have used up the time: what the others have
        # printed meanwhile is still read.
        if not readable and not left:
            raise TimeoutError
        for pipe, _ in readable:
            chunk = os.read(pipe, 65536)
            buffers[pipe] += chunk
            if not chunk:
                poll.unregister(pipe)
                still_open.remove(pipe)
        if sum(map(len, buffers.values())) > MAX_OUTPUT_BYTES:
            raise too_much_output(name)


def _kill(
    name: str,
    child: "subprocess.Popen[bytes]",
    started_at: float,
    reason: CollectError | None = None,
) -> CollectError:
    """Kill a program, without waiting forever for it to exit; return the error to report."""
    import signal
    import subprocess

    # The whole group, which `start_new_session` has made.
    try:
        os.killpg(child.pid, signal.SIGKILL)
    except OSError:
        child.kill()
    try:
        child.wait(_KILL_GRACE_SECONDS)
    except subprocess.TimeoutExpired:
        # In an uninterruptible system call of the driver: not even SIGKILL ends it.
        _stuck[name].append((child, started_at))
        return NotAnswering(
            f"{name} (process {child.pid}) hangs in the driver and cannot be killed: "
            "see dmesg; a reboot is likely needed",
            started_at,
        )
    return reason or NotAnswering(f"{name} did not answer in time: see dmesg", started_at)


def _raise_if_stuck(name: str) -> None:
    stuck = [(child, since) for child, since in _stuck.get(name, ()) if child.poll() is None]
    _stuck[name] = stuck
    for child, since in stuck:
        raise NotAnswering(
            f"an earlier {name} (process {child.pid}) still hangs in the driver: "
            "see dmesg; a reboot is likely needed",
            since,
        )
