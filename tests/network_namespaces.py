"""Network namespaces as hosts: each has a veth link to one bridge, and its own identity."""

import contextlib
import ctypes
import os
import secrets
import shutil
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.machines import require_program, require_root

_NEW_NETWORK = 0x40000000
_NETNS_FILES = Path("/etc/netns")
"""`ip netns exec` mounts the files below <namespace>/ here over those in /etc."""


class NetworkHost:
    """One host of the network: its name, address and machine-id."""

    def __init__(self, name: str, address: str, switch: str) -> None:
        self.name = name
        self.address = address
        self.setup = ""
        """Shell commands that each command on this host runs first, in mounts of its own."""
        self._switch = switch
        self._namespace = f"{switch}-{name}"

    @property
    def command_prefix(self) -> tuple[str, ...]:
        """Return the prefix that runs a command on this host."""
        # By exec: the pid of the started process is that of the command, so signals reach it.
        script = f'{self.setup}hostname "$0" && exec "$@"'
        named = ("unshare", "--uts", "sh", "-c", script, self.name)
        return ("ip", "netns", "exec", self._namespace, *named)

    def add_file(self, name: str, text: str) -> None:
        """Replace a file of /etc on this host."""
        (_NETNS_FILES / self._namespace / name).write_text(text)

    @property
    def machine_id(self) -> str:
        """Return its machine-id."""
        return (_NETNS_FILES / self._namespace / "machine-id").read_text()

    def isolate(self, other: "NetworkHost") -> None:
        """Leave it a route to one other host, and to nothing else."""
        _ip("-n", self._namespace, "address", "flush", "dev", "eth0")
        _ip("-n", self._namespace, "address", "add", f"{self.address}/32", "dev", "eth0")
        _ip("-n", self._namespace, "route", "add", f"{other.address}/32", "dev", "eth0")

    def create(self, hosts: str) -> None:
        """Create the namespace: its files, veth link, address and loopback."""
        folder = _NETNS_FILES / self._namespace
        folder.mkdir(parents=True)
        (folder / "hosts").write_text(hosts)
        (folder / "machine-id").write_text(f"{secrets.token_hex(16)}\n")
        _ip("netns", "add", self._namespace)
        ends = ("eth0", "netns", self._namespace, "type", "veth", "peer", "name", self.name)
        _ip("link", "add", *ends, "netns", self._switch)
        _ip("-n", self._switch, "link", "set", self.name, "master", "bridge", "up")
        _ip("-n", self._namespace, "address", "add", f"{self.address}/24", "dev", "eth0")
        for device in ("lo", "eth0"):
            _ip("-n", self._namespace, "link", "set", device, "up")

    def disconnect(self) -> None:
        """Take its link down, as if the cable were pulled."""
        _ip("-n", self._switch, "link", "set", self.name, "down")

    def reconnect(self) -> None:
        """Bring the link up again."""
        _ip("-n", self._switch, "link", "set", self.name, "up")

    @contextlib.contextmanager
    def entered(self) -> Iterator[None]:
        """Move this thread, and those that it starts, into the network of this host."""
        with Path("/proc/thread-self/ns/net").open("rb") as home:
            _enter_network(Path(f"/run/netns/{self._namespace}"))
            try:
                yield
            finally:
                _enter_network(Path(f"/proc/self/fd/{home.fileno()}"))

    def kill_all(self) -> None:
        """Kill its processes, of all users."""
        for pid in self.pids():
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)

    def pids(self) -> list[int]:
        """Return the pids of the processes in the namespace."""
        return [int(word) for word in _ip("netns", "pids", self._namespace).split()]

    def remove(self) -> None:
        """Kill its processes and delete it; works on a half-created host too."""
        shutil.rmtree(_NETNS_FILES / self._namespace, ignore_errors=True)
        with contextlib.suppress(subprocess.CalledProcessError):
            for pid in self.pids():
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
            _ip("netns", "del", self._namespace)


@contextlib.contextmanager
def network(*names: str) -> Iterator[dict[str, NetworkHost]]:
    """Create hosts on one bridge that resolve each other by name; needs root."""
    require_root("make network namespaces")
    for program in ("ip", "unshare", "hostname"):
        require_program(program)
    switch = f"fleet-smi-{secrets.token_hex(3)}"
    hosts = {name: NetworkHost(name, f"10.0.0.{at}", switch) for at, name in enumerate(names, 1)}
    listed = "".join(f"{host.address} {host.name}\n" for host in hosts.values())
    with contextlib.ExitStack() as stack:
        _add_switch(switch)
        stack.callback(_ip, "netns", "del", switch)
        if not _NETNS_FILES.exists():
            stack.callback(_remove_empty, _NETNS_FILES)
        for host in hosts.values():
            stack.callback(host.remove)  # before `create`, which may fail half-way
            host.create(f"127.0.0.1 localhost\n{listed}")
        yield hosts


def _remove_empty(folder: Path) -> None:
    with contextlib.suppress(OSError):  # another run of the tests has hosts in it
        folder.rmdir()


def _enter_network(path: Path) -> None:
    libc = ctypes.CDLL(None, use_errno=True)
    with path.open("rb") as namespace:
        if libc.setns(namespace.fileno(), _NEW_NETWORK):
            raise OSError(ctypes.get_errno(), "setns")


def _add_switch(name: str) -> None:
    try:
        _ip("netns", "add", name)
    except subprocess.CalledProcessError as error:
        assert not os.environ.get("CI"), f"no network namespaces: {error.stderr}"
        pytest.skip(f"no network namespaces can be made here: {error.stderr.strip()}")
    _ip("-n", name, "link", "add", "bridge", "type", "bridge")
    _ip("-n", name, "link", "set", "bridge", "up")


def _ip(*arguments: str) -> str:
    return subprocess.run(["ip", *arguments], capture_output=True, text=True, check=True).stdout
