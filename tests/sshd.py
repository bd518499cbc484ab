"""Real sshd servers on free ports, with their own keys and logs, and an ssh_config for them."""

import os
import pwd
import shutil
import socket
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import pytest

from tests.machines import require_program, wait_until


def find_sshd() -> str:
    """Return the path of sshd; skip the test without it."""
    # sshd re-executes itself and refuses to start by a relative path.
    found = shutil.which("sshd")
    if found is None:
        require_program("sshd")
    require_program("ssh")
    return found or ""


def make_key(path: Path) -> str:
    """Create a key pair at `path`; return the public key."""
    keygen = ["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", "test", "-f", str(path)]
    subprocess.run(keygen, check=True)
    return path.with_suffix(".pub").read_text().strip()


class Sshd:
    """One server that accepts `user_key` for the user who runs the tests.

    `env` is the environment of the programs that run on it. Their home is empty: what the user's
    own shell runs at each login is not tested here. `command_prefix` runs it on another host, as
    in a network namespace.
    """

    def __init__(
        self,
        folder: Path,
        user_key: Path,
        *lines: str,
        env: Mapping[str, str] | None = None,
        address: str = "127.0.0.1",
        command_prefix: Sequence[str] = (),
    ) -> None:
        folder.mkdir()
        home = folder / "home"
        home.mkdir()
        variables = {"HOME": str(home), **(env or {})}
        self._folder = folder
        self._user_key = user_key
        self._lines = (
            *lines,
            "SetEnv " + " ".join(f"{key}={value}" for key, value in variables.items()),
        )
        self._command_prefix = command_prefix
        self.address = address
        self._process: subprocess.Popen[bytes] | None = None
        self.host_key = make_key(folder / "host_key")
        self.log = folder / "log"
        self.port = _free_port()

    def start(self) -> None:
        """Start it, and wait until it listens."""
        if os.geteuid() == 0:
            Path("/run/sshd").mkdir(exist_ok=True)  # root's sshd does not start without it
        self._write_config()
        command = [find_sshd(), "-D", "-f", str(self._folder / "config"), "-E", str(self.log)]
        self._process = subprocess.Popen(
            [*self._command_prefix, *command], stdin=subprocess.DEVNULL
        )
        wait_until(self._answers)

    def stop(self) -> None:
        """Accept no more connections; open ones continue."""
        if self._process is not None:
            self._process.terminate()
            self._process.wait()

    def logins(self) -> int:
        """Return the number of connections accepted so far."""
        return self.log.read_text().count("Accepted publickey")

    def known_host(self, name: str = "") -> str:
        """Return the known_hosts line for this server, by its address or a name."""
        return f"{name or f'[{self.address}]:{self.port}'} {self.host_key}\n"

    def _write_config(self) -> None:
        shutil.copy(self._user_key.with_suffix(".pub"), self._folder / "authorized_keys")
        lines = (
            *self._lines,
            f"Port {self.port}",
            f"ListenAddress {self.address}",
            f"HostKey {self._folder / 'host_key'}",
            f"AuthorizedKeysFile {self._folder / 'authorized_keys'}",
            f"PidFile {self._folder / 'pid'}",
            "StrictModes no",  # the files are below /tmp, which all users can write to
            "UsePAM no",
            "PermitRootLogin yes",
            "PasswordAuthentication no",
            "KbdInteractiveAuthentication no",
            "MaxStartups 200",  # or sshd drops connections of tests that open many
            "KexAlgorithms curve25519-sha256",  # the fastest
        )
        (self._folder / "config").write_text("\n".join(lines) + "\n")

    def _answers(self) -> bool:
        return self.log.exists() and "Server listening" in self.log.read_text()


class SshNetwork:
    """Several servers, and the client's files for them: a key, known_hosts, an ssh_config."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._servers: list[Sshd] = []
        self.key = folder / "user_key"
        self.config = folder / "ssh_config"
        self.known_hosts = folder / "known_hosts"
        make_key(self.key)
        self.known_hosts.touch()
        user = pwd.getpwuid(os.geteuid()).pw_name
        self._config = [
            f"User {user}",
            f"IdentityFile {self.key}",
            "IdentitiesOnly yes",
            f"UserKnownHostsFile {self.known_hosts}",
            "GlobalKnownHostsFile /dev/null",
        ]
        self._hosts: list[str] = []

    def start_server(
        self,
        *lines: str,
        env: Mapping[str, str] | None = None,
        address: str = "127.0.0.1",
        command_prefix: Sequence[str] = (),
    ) -> Sshd:
        """Start a server; `env` is the environment of the programs that run on it."""
        folder = self._folder / f"sshd-{len(self._servers)}"
        started = Sshd(
            folder, self.key, *lines, env=env, address=address, command_prefix=command_prefix
        )
        started.start()
        self._servers.append(started)
        return started

    def add_host(
        self, host: str, server: Sshd, *lines: str, known_hosts_line: str | None = None
    ) -> None:
        """Add a server to ssh_config under a name, and its key to known_hosts."""
        place = (f"HostName {server.address}", f"Port {server.port}")
        own = (f"Host {host}", *place, f"HostKeyAlias {host}")
        self._hosts.append("\n  ".join((*own, *lines)))
        # ssh takes the first value it finds: the defaults for all hosts come last.
        self.config.write_text("\n".join((*self._hosts, "Host *", *self._config)) + "\n")
        with self.known_hosts.open("a") as file:
            file.write(server.known_host(host) if known_hosts_line is None else known_hosts_line)

    def close(self) -> None:
        """Stop the servers."""
        for server in self._servers:
            server.stop()


@pytest.fixture
def ssh_network(tmp_path: Path) -> Iterator[SshNetwork]:
    """Real servers on loopback, and the client's files to reach them."""
    find_sshd()
    network = SshNetwork(tmp_path)
    yield network
    network.close()


def _free_port() -> int:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        port: int = listener.getsockname()[1]
        return port
