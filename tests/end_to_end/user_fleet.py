"""A hub, nodes with GPUs and a machine to log in to, each in a network namespace, with real users.

Users exist on these hosts only: each host has a `passwd` of its own. They reach the nodes by their
own ssh keys, and have one home on all hosts, as with NFS.
"""

import contextlib
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

from fleet_smi.client.agent_socket import is_listening
from fleet_smi.client.hub import HubClient
from fleet_smi.errors import FleetError
from fleet_smi.model.fleet import FleetView
from sim.scenario import Scenario
from tests.cli.program import run_fleet_smi
from tests.end_to_end.programs import AgentMachine, FleetSmiProcess, Lab
from tests.machines import wait_until
from tests.network_namespaces import NetworkHost, network
from tests.sshd import find_sshd, make_key

_FIRST_UID = 23_001
_HUB, _DESK = "hub", "desk"
_SSHD_CONFIG = """\
ListenAddress {address}
HostKey {folder}/host_key
PidFile none
AuthorizedKeysFile {home}/%u/.ssh/authorized_keys
StrictModes no
UsePAM no
PasswordAuthentication no
KbdInteractiveAuthentication no
MaxStartups 200
KexAlgorithms curve25519-sha256
SetEnv {variables}
"""
_SSH_CONFIG = "UserKnownHostsFile {folder}/known_hosts\nKexAlgorithms curve25519-sha256\n"


class UserFleet:
    """Starts everything; commands run as users on the machine `desk`, jobs on the nodes."""

    def __init__(
        self, lab: Lab, hosts: dict[str, NetworkHost], nodes: Sequence[str], users: Sequence[str]
    ) -> None:
        self.folder = lab.folder
        self.hosts = hosts
        self.nodes = nodes
        self.users = {name: _FIRST_UID + at for at, name in enumerate(users)}
        self.log = lab.folder / "jobs"
        self.hub_url = f"http://{hosts[_HUB].address}:7070"
        self._lab = lab
        self._home = lab.folder / "home"
        self._machines = {name: AgentMachine(lab, name) for name in (*nodes, _DESK)}
        self._machines[_DESK].set_scenario(Scenario(gpus=[]))
        self._sshd: dict[str, subprocess.Popen[bytes]] = {}
        self.hub: FleetSmiProcess | None = None
        self.viewer = ""

    def begin(self, *, by_token: Sequence[str] = ()) -> None:
        """Start the hub and the nodes; for users who do not log in `by_token`, an agent vouches."""
        self.log.mkdir()
        self.log.chmod(0o1777)
        for host in self.hosts.values():
            self._prepare(host)
        self._add_homes()
        self.viewer = self._new_token("--role", "viewer")
        join = self._new_token("--role", "join")
        self.start_hub()
        for name in (*self.nodes, _DESK):
            self._start_node(name, join)
        for user in by_token:
            self._log_in(user)
        desk = str(self._socket(_DESK))
        wait_until(lambda: self.reporting() == {*self.nodes, _DESK} and is_listening(desk))

    def start_hub(self) -> None:
        """Start the hub, or start it again after it was killed."""
        env = os.environ | {
            "FLEET_SMI_HUB_STREAM_INTERVAL": "0.2",
            "FLEET_SMI_HUB_REMEMBER_INTERVAL": "0.2",
        }
        flags = ("hub", "--listen", ":7070", "--state", self._state)
        self.hub = self._lab.start(
            *flags,
            env=env,
            log=self.folder / "hub-log",
            command_prefix=self.hosts[_HUB].command_prefix,
        )
        wait_until(lambda: self.view() is not None)

    def start_job(self, user: str, *arguments: str) -> subprocess.Popen[str]:
        """Start `fleet-smi` as a user on the machine `desk`."""
        uid = str(self.users[user])
        become = ("setpriv", "--reuid", uid, "--regid", uid, "--clear-groups", "--")
        env = {
            "HOME": str(self._home / user),
            "PATH": f"{Path(sys.executable).parent}:/usr/bin:/bin",
            "FLEET_SMI_AGENT_SOCKET": str(self._socket(_DESK)),
            "FLEET_SMI_HUB_SSH_CONFIG": str(self._home / user / ".ssh/config"),
            "FLEET_SMI_HUB_STATE": "/nonexistent",
        }
        return subprocess.Popen(
            [*self.hosts[_DESK].command_prefix, *become, "fleet-smi", *arguments],
            env=env,
            cwd=self._home / user,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def view(self) -> FleetView | None:
        """Return the fleet; `None` while the hub does not answer."""
        with contextlib.suppress(FleetError), self.client() as client:
            return client.fleet()
        return None

    def reporting(self) -> set[str]:
        """Return the names of the nodes that report."""
        view = self.view()
        return set() if view is None else {node.name for node in view.nodes if not node.silent}

    @contextlib.contextmanager
    def client(self) -> Iterator[HubClient]:
        """A client in the network of the hub."""
        with self.hosts[_HUB].entered():
            client = HubClient(self.hub_url, token=self.viewer)
            try:
                yield client
            finally:
                client.close()

    def close(self) -> None:
        """End the servers of the nodes; the rest ends with its hosts."""
        for server in self._sshd.values():
            server.kill()
            server.wait()

    @property
    def _state(self) -> str:
        return str(self.folder / "hub-state")

    def _socket(self, name: str) -> Path:
        return self.folder / name / "agent.sock"

    def _prepare(self, host: NetworkHost) -> None:
        host.setup = _open_to_users(Path(sys.base_prefix))
        rows = {name: f"{name}:x:{uid}" for name, uid in self.users.items()}
        for file, ending in (("passwd", ":{uid}::{home}:/bin/sh"), ("group", ":")):
            lines = [
                f"{row}{ending.format(uid=self.users[name], home=self._home / name)}\n"
                for name, row in rows.items()
            ]
            host.add_file(file, Path("/etc", file).read_text() + "".join(lines))
        host.add_file("shadow", "".join(f"{name}:*:19000:0:99999:7:::\n" for name in self.users))

    def _add_homes(self) -> None:
        keys = {name: self.folder / f"{name}_host_key" for name in self.nodes}
        known = "".join(
            f"{name},{self.hosts[name].address} {make_key(path)}\n" for name, path in keys.items()
        )
        for name, uid in self.users.items():
            ssh = self._home / name / ".ssh"
            ssh.mkdir(parents=True, mode=0o755)
            (ssh / "authorized_keys").write_text(make_key(ssh / "id_ed25519"))
            (ssh / "known_hosts").write_text(known)
            (ssh / "config").write_text(
                f"IdentityFile {ssh}/id_ed25519\n{_SSH_CONFIG.format(folder=ssh)}"
            )
            for path in (ssh.parent, ssh, *ssh.iterdir()):
                os.chown(path, uid, uid)

    def _start_node(self, name: str, join: str) -> None:
        machine, leases = self._machines[name], self.folder / name / "leases"
        leases.mkdir()
        leases.chmod(0o1777)
        machine.env |= {
            "FLEET_SMI_NODE_LEASE_DIR": str(leases),
            "FLEET_SMI_AGENT_SOCKET": str(self._socket(name)),
        }
        flags = ("--interval", "0.3", "--to", self.hub_url, "--join", join)
        machine.start_agent(*flags, command_prefix=self.hosts[name].command_prefix)
        if name != _DESK:
            self._start_sshd(name)

    def _start_sshd(self, name: str) -> None:
        machine, host, folder = self._machines[name], self.hosts[name], self.folder / f"{name}.sshd"
        folder.mkdir()
        shutil.move(self.folder / f"{name}_host_key", folder / "host_key")
        kept = ("LD_LIBRARY_PATH", "FLEET_SMI_SIM", "FLEET_SMI_NODE_LEASE_DIR")
        variables = {key: machine.env[key] for key in kept} | {
            "PATH": f"{Path(sys.executable).parent}:/usr/bin:/bin",
            "FLEET_SMI_HUB_STATE": "/nonexistent",
        }
        text = _SSHD_CONFIG.format(
            address=host.address,
            folder=folder,
            home=self._home,
            variables=" ".join(f"{key}={value}" for key, value in variables.items()),
        )
        (folder / "config").write_text(text)
        Path("/run/sshd").mkdir(exist_ok=True)
        log = folder / "log"
        command = [find_sshd(), "-D", "-f", str(folder / "config"), "-E", str(log)]
        self._sshd[name] = subprocess.Popen(
            [*host.command_prefix, *command], stdin=subprocess.DEVNULL
        )
        wait_until(lambda: log.exists() and "Server listening" in log.read_text())

    def _new_token(self, *flags: str) -> str:
        done = run_fleet_smi("hub", "token", "add", "--state", self._state, *flags, env=os.environ)
        assert done.returncode == 0, done.stderr
        return done.stdout.strip()

    def _log_in(self, user: str) -> None:
        token = self._home / user / "token"
        token.write_text(self._new_token("--role", "viewer", "--person", user))
        os.chown(token, self.users[user], self.users[user])

        def is_in() -> bool:
            # The hub reads what another process has changed every second.
            flags = ("login", "--hub", self.hub_url, "--token-file", str(token))
            with self.start_job(user, *flags) as process:
                return process.wait(60) == 0

        wait_until(is_in)


def _open_to_users(prefix: Path) -> str:
    """Return the commands that show a Python which only root can reach to everybody."""
    closed = [each for each in prefix.parents if not each.stat().st_mode & 0o001]
    if not closed:
        return ""
    top = closed[-1]
    return (
        f"mount --bind {prefix} /mnt && mount -t tmpfs -o mode=755 tmpfs {top} && "
        f"mkdir -p {prefix} && mount --bind /mnt {prefix} && umount /mnt && "
    )


@contextlib.contextmanager
def user_fleet(
    folder: Path, driver: Path, nodes: Sequence[str], users: Sequence[str]
) -> Iterator[UserFleet]:
    """Create the hosts; `folder` must be one that every user can enter."""
    find_sshd()
    # The one of the tests may be in a folder of root's.
    shutil.copytree(driver, folder / "driver")
    with contextlib.ExitStack() as stack:
        hosts = stack.enter_context(network(_HUB, _DESK, *nodes))
        lab = Lab(folder, folder / "driver")
        stack.callback(lab.close)
        fleet = UserFleet(lab, hosts, nodes, users)
        stack.callback(fleet.close)
        yield fleet
