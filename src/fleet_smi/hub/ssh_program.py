"""The system's `ssh` as a program: how it is called, and that nothing of it is left."""

import asyncio
import contextlib
import os
import shutil
import signal
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple, Self

from fleet_smi.errors import UsageError

# What a user's own ssh_config may not change, for the hosts and for the jump hosts before them.
_CONFIG = """\
Host *
  BatchMode yes
  StrictHostKeyChecking yes
  UpdateHostKeys no
  ForwardAgent no
  ForwardX11 no
  ClearAllForwardings yes
  PermitLocalCommand no
  RemoteCommand none
  RequestTTY no
  EscapeChar none
  LogLevel ERROR
  ConnectionAttempts 1
  ConnectTimeout {timeout_seconds:.0f}
  ServerAliveInterval 10
  ServerAliveCountMax 2
"""
_USERS_CONFIGS = ("~/.ssh/config", "/etc/ssh/ssh_config")
# A socket's path has at most 104 bytes, of which ssh takes a hash and a suffix while it starts.
_LONGEST_FOLDER = 104 - len("/") - 40 - len(".0123456789abcdef") - 1
_CLOSE_SECONDS = 2.0
_MOST_COMPLAINT = 1 << 16


class SshOutput(NamedTuple):
    """What ssh printed and complained of; without a code it was ended at its deadline."""

    stdout: bytes
    stderr: str
    exit_code: int | None


class SshProgram:
    """Runs ssh with a private folder of its own, which is gone when this is closed.

    With `keep_seconds` the connection to a host is kept for the next call, for so long;
    otherwise that is as the user's own ssh_config says. With `key` it logs in by this one;
    jump hosts before it keep their own.
    """

    def __init__(
        self,
        *,
        config: str | None,
        key: str | None,
        timeout_seconds: float,
        max_output_bytes: int,
        max_concurrent: int,
        persist_seconds: int | None = None,
    ) -> None:
        self._includes = _USERS_CONFIGS if config is None else (config,)
        self._login = () if key is None else ("-i", key, "-o", "IdentitiesOnly=yes")
        self._timeout_seconds = timeout_seconds
        self._most_bytes = max_output_bytes
        self._turns = asyncio.Semaphore(max_concurrent)
        self._keep_seconds = persist_seconds

    async def __aenter__(self) -> Self:
        self._folder = Path(tempfile.mkdtemp(prefix="fleet-smi-", dir=_short_folder()))
        includes = "".join(f"  Include {_quoted(path)}\n" for path in self._includes)
        written = _CONFIG.format(timeout_seconds=max(1.0, self._timeout_seconds)) + includes
        (self._folder / "config").write_text(written)
        return self

    async def __aexit__(self, *_: object) -> None:
        sockets = [path for path in self._folder.iterdir() if path.is_socket()]
        await asyncio.gather(*map(self._close, sockets))
        shutil.rmtree(self._folder, ignore_errors=True)

    async def run(self, host: str, command: str, script: bytes) -> SshOutput:
        """Run a command on a host and give it a script; ended when it takes or tells too much."""
        async with self._turns:
            with _pipe() as (complaints, write_end):
                child = await self._start(host, command, write_end)
                body, exit_code = await self._talk(child, script)
                output = SshOutput(body, _complaint(complaints), exit_code)
            if exit_code is None and self._keep_seconds is not None:
                # Whatever hangs there, the next call has a new connection.
                await self._end_master(self._control_path, host)
        return output

    async def _close(self, socket: Path) -> None:
        async with self._turns:
            await self._end_master(f"ControlPath={socket}")

    @property
    def _control_path(self) -> str:
        return f"ControlPath={self._folder}/%C"

    async def _start(self, host: str, command: str, errors: int) -> asyncio.subprocess.Process:
        options: tuple[str, ...] = self._login
        if self._keep_seconds is not None:
            persist = f"ControlPersist={self._keep_seconds}"
            options += ("-o", "ControlMaster=auto", "-o", self._control_path, "-o", persist)
        return await asyncio.create_subprocess_exec(
            *("ssh", "-F", str(self._folder / "config"), *options, "-T", "--", _place(host)),
            command,
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            # Not read to its end: a kept connection of an old ssh holds it open.
            stderr=errors,
            env={**os.environ, "SSH_ASKPASS_REQUIRE": "never"},
            # No terminal to ask for a password at; and one group, so that all of it can be ended.
            start_new_session=True,
        )

    async def _talk(
        self, child: asyncio.subprocess.Process, script: bytes
    ) -> tuple[bytes, int | None]:
        assert child.stdin and child.stdout  # noqa: S101  # both are pipes
        body = bytearray()
        try:
            async with asyncio.timeout(self._timeout_seconds):
                child.stdin.write(script)
                child.stdin.close()
                while len(body) <= self._most_bytes and (some := await child.stdout.read(1 << 16)):
                    body += some
                if len(body) <= self._most_bytes:
                    await child.wait()
        except TimeoutError:
            return bytes(body), None
        finally:
            await _end(child)
        return bytes(body), child.returncode

    async def _end_master(self, control_path: str, host: str = "any") -> None:
        ending = await asyncio.create_subprocess_exec(
            *("ssh", "-F", str(self._folder / "config"), "-o", control_path, "-O", "exit"),
            *("--", _place(host)),
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.DEVNULL,
            stderr=asyncio.subprocess.DEVNULL,
            start_new_session=True,
        )
        try:
            async with asyncio.timeout(_CLOSE_SECONDS):
                await ending.wait()
        except TimeoutError:
            pass
        finally:
            await _end(ending)


async def _end(child: asyncio.subprocess.Process) -> None:
    """End the program, and what it started to get through, if they have not ended."""
    if child.returncode is None:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(child.pid, signal.SIGKILL)
    if child.stdout is not None:
        await child.stdout.read()
    await child.wait()


@contextlib.contextmanager
def _pipe() -> Iterator[tuple[int, int]]:
    """A pipe whose read end does not wait, both ends closed afterwards."""
    ends = os.pipe()
    os.set_blocking(ends[0], False)
    try:
        yield ends
    finally:
        for end in ends:
            os.close(end)


def _complaint(pipe: int) -> str:
    try:
        return os.read(pipe, _MOST_COMPLAINT).decode("utf-8", "replace")
    except BlockingIOError:
        return ""


def _place(host: str) -> str:
    """The host as ssh takes it; one with a port is an address of its own kind."""
    return f"ssh://{host}" if host.count(":") == 1 else host


def resolve_config_path(path: str) -> str:
    """The whole path of an ssh_config that is there: ssh itself does not mind one that is not."""
    return _readable(path, "ssh_config")


def resolve_key_path(path: str) -> str:
    """The whole path of a key that can be read: without it ssh would try others."""
    return _readable(path, "ssh key")


def _readable(path: str, what: str) -> str:
    found = Path(path).expanduser().absolute()
    # Where one may not look there is nothing either; pathlib would raise.
    if not (os.path.isfile(found) and os.access(found, os.R_OK)):  # noqa: PTH113
        raise UsageError(f"there is no {what} {path} that this user can read")
    return str(found)


def _quoted(word: str) -> str:
    escaped = word.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'


def _short_folder() -> str:
    """Where a private folder can be made whose name leaves room for that of a socket."""
    wanted = (os.environ.get("XDG_RUNTIME_DIR", ""), tempfile.gettempdir(), "/tmp")  # noqa: S108
    longest = _LONGEST_FOLDER - len("/fleet-smi-12345678")
    return next(
        path for path in wanted if path and len(path) <= longest and os.access(path, os.W_OK)
    )
