"""Host keys of many machines: scanned, compared with known_hosts, and added to it."""

import binascii
import os
import re
import subprocess
from base64 import b64decode, b64encode
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from hashlib import sha256
from pathlib import Path
from typing import Literal

from msgspec import Struct

from fleet_smi.errors import Unmet
from fleet_smi.hub.ssh_program import destination

SYSTEM_KNOWN_HOSTS = "/etc/ssh/ssh_known_hosts"
USER_KNOWN_HOSTS = "~/.ssh/known_hosts"
_SCAN_SECONDS = 10
_MAX_CONCURRENT = 32
_MAX_KEYS = 8
_KEY = re.compile(r"[\w@.-]{1,64} [A-Za-z0-9+/]{16,8192}={0,2}")


class HostKeys(Struct, frozen=True):
    """The keys that a host presents, as lines of known_hosts, and how they compare with it."""

    host: str
    status: Literal["new", "known", "changed", "failed"]
    lines: tuple[str, ...] = ()
    message: str = ""

    @property
    def fingerprints(self) -> tuple[tuple[str, str], ...]:
        """The type and the fingerprint of each key, as `ssh-keygen -l` prints them."""
        keys = (line.split()[1:3] for line in self.lines)
        return tuple((key_type, _fingerprint(key)) for key_type, key in keys)


def scan_hosts(hosts: Sequence[str], known_hosts: str, config: str | None) -> list[HostKeys]:
    """Ask every host for its keys, many at a time; a failure is a result."""
    with ThreadPoolExecutor(_MAX_CONCURRENT, "ssh-trust") as pool:
        return list(pool.map(partial(_scan, known_hosts=known_hosts, config=config), hosts))


def add_known_hosts(known_hosts: str, lines: Sequence[str]) -> None:
    """Append lines to a known_hosts file, created if missing; raise `Unmet` if that fails."""
    path = Path(known_hosts).expanduser()
    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        # Readable by all: keys of hosts are public, and the system's file is for every user.
        flags = os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_NOFOLLOW | os.O_CLOEXEC
        with os.fdopen(os.open(path, flags, 0o644), "r+b") as file:
            old = file.read()
            # A last line without its end would run into ours.
            start = b"\n" if old and not old.endswith(b"\n") else b""
            file.write(start + "".join(f"{line}\n" for line in lines).encode())
    except OSError as error:
        raise Unmet(f"{path} cannot be written: {error.strerror}") from None


def _scan(host: str, known_hosts: str, config: str | None) -> HostKeys:
    options = _ssh_options(host, config)
    if isinstance(options, str):
        return HostKeys(host, "failed", message=options)
    if not {options.get("proxyjump", "none"), options.get("proxycommand", "none")} <= {"none"}:
        message = "is behind a jump host, where ssh-keyscan cannot look: ssh to it once by hand"
        return HostKeys(host, "failed", message=message)
    address, port = options["hostname"], options["port"]
    name = options.get("hostkeyalias") or (address if port == "22" else f"[{address}]:{port}")
    scan = _run("ssh-keyscan", "-T", str(_SCAN_SECONDS), "-p", port, "--", address)
    # From a machine that is not trusted yet: only what looks like a key, and only a few.
    keys = [line.partition(" ")[2] for line in scan.splitlines() if not line.startswith("#")]
    found = sorted({key for key in keys if _KEY.fullmatch(key)})[:_MAX_KEYS]
    if not found:
        return HostKeys(host, "failed", message="did not answer with a host key: is it on?")
    return _compare(host, name, [f"{name} {key}" for key in found], known_hosts)


def _compare(host: str, name: str, lines: list[str], known_hosts: str) -> HostKeys:
    files = {str(Path(path).expanduser()) for path in (known_hosts, SYSTEM_KNOWN_HOSTS)}
    found = [_run("ssh-keygen", "-F", name, "-f", file) for file in sorted(files)]
    known = [line.split()[1:3] for text in found for line in text.splitlines() if line[:1] != "#"]
    new = [line for line in lines if line.split()[1:3] not in known]
    if not new:
        return HostKeys(host, "known", tuple(lines))
    types = {key[0] for key in known}
    if any(line.split()[1] in types for line in new):
        message = (
            f"has another key than known_hosts says: it was reinstalled, or the connection is "
            f"intercepted; compare them on the machine itself, then ssh-keygen -R '{name}'"
        )
        return HostKeys(host, "changed", tuple(new), message)
    return HostKeys(host, "new", tuple(new))


def _ssh_options(host: str, config: str | None) -> dict[str, str] | str:
    """What ssh would do for this host by its own settings, or why it would not."""
    own = () if config is None else ("-F", config)
    text = _run("ssh", *own, "-G", "--", destination(host))
    options = dict(line.partition(" ")[::2] for line in text.splitlines())
    return options if {"hostname", "port"} <= options.keys() else "ssh does not accept its name"


def _run(*command: str) -> str:
    """The output of a program, empty if it failed; raise `Unmet` if it is not installed."""
    try:
        done = subprocess.run(
            command,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=3 * _SCAN_SECONDS,
            check=False,
        )
    except FileNotFoundError:
        raise Unmet(f"{command[0]} is not installed: install OpenSSH's client") from None
    except subprocess.TimeoutExpired:
        return ""
    return done.stdout.decode("utf-8", "replace")


def _fingerprint(key: str) -> str:
    try:
        blob = b64decode(key, validate=True)
    except binascii.Error:
        return "not a key"
    return f"SHA256:{b64encode(sha256(blob).digest()).decode().rstrip('=')}"
