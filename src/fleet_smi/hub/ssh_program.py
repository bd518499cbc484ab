"""Run the system's `ssh`: its options, timeouts, shared connections and clean-up."""

import asyncio
import contextlib
import os
import shutil
import signal
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from fleet_smi.errors import UsageError
from fleet_smi.hub.async_timeout import timeout
from fleet_smi.hub.ssh_config_copy import copy_system_config
from fleet_smi.hub.ssh_hosts import SYSTEM_CONFIG, USER_CONFIG

if TYPE_CHECKING:
    from typing_extensions import Self

# Options that the user's own ssh_config cannot override (the first value wins), for the hosts
# and for the jump hosts before them: never prompt, never forward, never change known_hosts, and
# print nothing but errors.
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
_DEFAULT_CONFIGS = (USER_CONFIG, SYSTEM_CONFIG)
# The path of a Unix socket has at most 104 bytes; ssh appends a hash, and a suffix at start.
_MAX_FOLDER_LENGTH = 104 - len("/") - 40 - len(".0123456789abcdef") - 1
_CLOSE_SECONDS = 2.0
_MAX_STDERR_BYTES = 1 << 16  # what a pipe holds on Linux


class SshOutput(NamedTuple):
    """Output of ssh; `exit_code` is `None` if it was killed at its deadline."""

    stdout: bytes
    stderr: str
    exit_code: int | None


class SshProgram:
    """Runs ssh, with a private folder that is deleted on exit.

    With `persist_seconds` the connection to a host stays open that long for the next call;
    without it the user's ssh_config decides. With `key` it logs in by this key only; jump
    hosts use their own.
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
        self._includes = _DEFAULT_CONFIGS if config is None else (config,)
        self._key_options = () if key is None else ("-i", key, "-o", "IdentitiesOnly=yes")
        self._timeout_seconds = timeout_seconds
        self._max_bytes = max_output_bytes
        self._semaphore = asyncio.Semaphore(max_concurrent)
        self._persist_seconds = persist_seconds

    async def __aenter__(self) -> "Self":
        self._folder = Path(tempfile.mkdtemp(prefix="fleet-smi-", dir=_short_folder()))
        paths = [copy_system_config(path, self._folder) for path in self._includes]
        includes = "".join(f"  Include {_quote(path)}\n" for path in paths)
        config = _CONFIG.format(timeout_seconds=max(1.0, self._timeout_seconds)) + includes
        (self._folder / "config").write_text(config)
        return self

    async def __aexit__(self, *_: object) -> None:
        try:
            sockets = [path for path in self._folder.iterdir() if path.is_socket()]
            await asyncio.gather(*map(self._close_master, sockets))
        finally:  # also if this is cancelled
            shutil.rmtree(self._folder, ignore_errors=True)

    async def run(self, host: str, command: str, script: bytes) -> SshOutput:
        """Run a command with a script as its input; kill it after too long or too much output."""
        async with self._semaphore:
            with _pipe() as (stderr, write_end):
                child = await self._start(host, command, write_end)
                body, exit_code = await self._communicate(child, script)
                output = SshOutput(body, _read_available(stderr), exit_code)
            if exit_code is None and self._persist_seconds is not None:
                # The shared connection may be what hangs: the next call opens a new one.
                await self._end_master(self._control_path, host)
        return output

    async def host_name(self, host: str) -> str | None:
        """The name that ssh resolves for a host; `None` if a proxy or a jump host does that."""
        output = await self._run_locally("-G", "--", destination(host))
        if output is None:
            return None
        lines = (line.partition(" ") for line in output.decode("utf-8", "replace").splitlines())
        settings = {key: value for key, _, value in lines}
        if {"proxyjump", "proxycommand"} & settings.keys():
            return None
        return settings.get("hostname")

    async def _close_master(self, socket: Path) -> None:
        async with self._semaphore:
            await self._end_master(f"ControlPath={socket}")

    @property
    def _control_path(self) -> str:
        return f"ControlPath={self._folder}/%C"

    async def _start(self, host: str, command: str, errors: int) -> asyncio.subprocess.Process:
        options: tuple[str, ...] = self._key_options
        if self._persist_seconds is not None:
            persist = f"ControlPersist={self._persist_seconds}"
            options += ("-o", "ControlMaster=auto", "-o", self._control_path, "-o", persist)
        return await asyncio.create_subprocess_exec(
            *("ssh", "-F", str(self._folder / "config"), *options, "-T", "--", destination(host)),
            command,
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            # A pipe of our own, not read to its end: the background process of a shared
            # connection inherits it from an old ssh and holds it open.
            stderr=errors,
            env={**os.environ, "SSH_ASKPASS_REQUIRE": "never"},
            # No terminal to prompt for a password; and one process group, to kill all of it.
            start_new_session=True,
        )

    async def _communicate(
        self, child: asyncio.subprocess.Process, script: bytes
    ) -> tuple[bytes, int | None]:
        assert child.stdin and child.stdout  # noqa: S101  # both are pipes
        body = bytearray()
        try:
            async with timeout(self._timeout_seconds):
                # ssh may have ended by now, as where nothing listens. Only uvloop notices before
                # the first write, and raises.
                if not child.stdin.is_closing():
                    child.stdin.write(script)
                    child.stdin.close()
                while len(body) <= self._max_bytes and (chunk := await child.stdout.read(1 << 16)):
                    body += chunk
                if len(body) <= self._max_bytes:  # else it still prints: killed below
                    await child.wait()
        except TimeoutError:
            return bytes(body), None
        finally:  # when cancelled too: no ssh outlives its poll
            await _kill(child)
        return bytes(body), child.returncode

    async def _end_master(self, control_path: str, host: str = "any") -> None:
        # Only the local socket is contacted; ssh requires a host name all the same.
        await self._run_locally("-o", control_path, "-O", "exit", "--", destination(host))

    async def _run_locally(self, *arguments: str) -> bytes | None:
        """The output of ssh where it connects to no other machine; `None` after a few seconds."""
        child = await asyncio.create_subprocess_exec(
            *("ssh", "-F", str(self._folder / "config"), *arguments),
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.DEVNULL,
            start_new_session=True,
        )
        try:
            async with timeout(_CLOSE_SECONDS):
                output, _ = await child.communicate()
        except TimeoutError:
            return None
        finally:
            await _kill(child)
        return output


async def _kill(child: asyncio.subprocess.Process) -> None:
    """Kill ssh and its proxy commands if they still run, and reap it."""
    if child.returncode is None:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(child.pid, signal.SIGKILL)
    # Read to its end: asyncio keeps the transport of the process open until then.
    if child.stdout is not None:
        await child.stdout.read()
    await child.wait()


@contextlib.contextmanager
def _pipe() -> Iterator[tuple[int, int]]:
    """A pipe with a non-blocking read end, closed afterwards."""
    ends = os.pipe()
    os.set_blocking(ends[0], False)
    try:
        yield ends
    finally:
        for end in ends:
            os.close(end)


def _read_available(pipe: int) -> str:
    try:
        return os.read(pipe, _MAX_STDERR_BYTES).decode("utf-8", "replace")
    except BlockingIOError:
        return ""


def destination(host: str) -> str:
    """The host as an argument of ssh, which takes a port only in a URL."""
    # More than one colon is a bare IPv6 address.
    return f"ssh://{host}" if host.count(":") == 1 else host


def resolve_config_path(path: str) -> str:
    """The absolute path of an ssh_config; raise `UsageError` if missing, which ssh would ignore."""
    return _require_readable(path, "ssh_config")


def resolve_key_path(path: str) -> str:
    """The absolute path of a key; raise `UsageError` if unreadable: ssh would try others."""
    return _require_readable(path, "ssh key")


def _require_readable(path: str, noun: str) -> str:
    absolute = Path(path).expanduser().absolute()
    # os.path: pathlib raises for a file in a folder that this user may not enter.
    if not (os.path.isfile(absolute) and os.access(absolute, os.R_OK)):  # noqa: PTH113
        raise UsageError(f"there is no {noun} {path} that this user can read")
    return str(absolute)


def _quote(path: str) -> str:
    escaped = path.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'


def _short_folder() -> str:
    """A folder for temporary files with a path short enough for sockets in it."""
    candidates = (
        os.environ.get("XDG_RUNTIME_DIR", ""),
        tempfile.gettempdir(),
        "/tmp",  # noqa: S108
    )
    max_length = _MAX_FOLDER_LENGTH - len("/fleet-smi-12345678")
    return next(
        path for path in candidates if path and len(path) <= max_length and os.access(path, os.W_OK)
    )
