"""Machines to install an agent on: network, processes, files and an sshd of their own.

Each is a network namespace with an overlay of this machine's files, in memory: what is installed
there reaches no other, and ends with it. None runs systemd.
"""

import shutil
import subprocess
from collections.abc import Mapping
from pathlib import Path

from tests.machines import require_program, wait_until
from tests.network_namespaces import NetworkHost
from tests.sshd import find_sshd, make_key

PATH = "/usr/sbin:/usr/bin:/sbin:/bin"
_BOOT = """\
set -e
mount -t tmpfs -o mode=755,size="$SIZE" tmpfs /mnt
mkdir /mnt/upper /mnt/work /mnt/root
mount -t overlay -o lowerdir=/,upperdir=/mnt/upper,workdir=/mnt/work overlay /mnt/root
cp /etc/hosts /etc/machine-id /mnt/root/etc/
cd /mnt/root
mount -t proc proc proc
mount --rbind /dev dev
mount -t tmpfs -o mode=755 tmpfs run
mount -t tmpfs -o mode=1777 tmpfs tmp
rm -rf etc/fleet-smi etc/systemd/system/fleet-smi* var/lib/fleet-smi opt/fleet-smi-agent
rm -f usr/local/bin/fleet-smi usr/local/bin/fsmi root/.bash* root/.profile
mkdir -p run/sshd opt/shared
mount --bind "$SHARED" opt/shared
grep -q ^alice: etc/passwd || chroot . useradd -m -s /bin/sh alice
chroot . usermod -p '*' alice # without a password, and not locked
sh -c "$PREPARE"
# Its users must reach the interpreters, wherever this machine has them.
for base in $BASES; do
    while [ "$base" != / ]; do chmod o+x ".$base"; base=$(dirname "$base"); done
done
exec env -i PATH="$HOST_PATH" chroot . "$SSHD" -D -f /opt/shared/sshd_config -E /opt/shared/log
"""
_SSHD_CONFIG = """\
Port 22
ListenAddress {address}
HostKey /opt/shared/host_key
AuthorizedKeysFile /opt/shared/authorized_keys
PidFile none
StrictModes no
UsePAM no
PermitRootLogin yes
PasswordAuthentication no
KbdInteractiveAuthentication no
KexAlgorithms curve25519-sha256
SetEnv PATH={path}
"""


class NodeMachine:
    """A machine that accepts a key over ssh, for root and for alice."""

    def __init__(self, host: NetworkHost, folder: Path) -> None:
        self.host = host
        self.name = host.name
        self.shared = folder / host.name
        self._process: subprocess.Popen[bytes] | None = None

    def start(
        self,
        key: Path,
        *,
        path: str = PATH,
        size: str = "400m",
        prepare: str = "",
    ) -> None:
        """Start it, with this `PATH` and size of its disk; `prepare` is run in its root folder."""
        self.shared.mkdir()
        make_key(self.shared / "host_key")
        shutil.copy(key.with_suffix(".pub"), self.shared / "authorized_keys")
        (self.shared / "authorized_keys").chmod(0o644)
        self.shared.chmod(0o755)
        config = _SSHD_CONFIG.format(address=self.host.address, path=path)
        (self.shared / "sshd_config").write_text(config)
        namespaces = ("--mount", "--propagation", "private", "--pid", "--fork", "--kill-child")
        self._process = subprocess.Popen(
            [*self.host.command_prefix, "unshare", *namespaces, "sh", "-c", _BOOT],
            env={
                "PATH": PATH,
                "SHARED": str(self.shared),
                "SIZE": size,
                "SSHD": find_sshd(),
                "HOST_PATH": path,
                "PREPARE": prepare or ":",
                "BASES": " ".join(path.split(":")),
            },
            stdin=subprocess.DEVNULL,
        )
        wait_until(self._listens)

    def known_host(self) -> str:
        """The line of known_hosts for it."""
        return f"{self.name} {(self.shared / 'host_key.pub').read_text()}"

    def close(self) -> None:
        """End it, with all that runs there."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()

    def _listens(self) -> bool:
        assert self._process is None or self._process.poll() is None, "it did not start"
        log = self.shared / "log"
        return log.exists() and "Server listening" in log.read_text()


class MachineRoom:
    """Machines, and the files by which an admin at another host logs in to them."""

    def __init__(self, folder: Path, hosts: Mapping[str, NetworkHost], admin: str) -> None:
        for program in ("unshare", "mount", "chroot", "useradd"):
            require_program(program)
        self._folder = folder
        self._hosts = hosts
        self._admin = hosts[admin]
        self._machines: list[NodeMachine] = []
        self._lines: list[str] = []
        self._key, self._known_hosts = folder / "admin_key", folder / "known_hosts"
        make_key(self._key)
        self._known_hosts.touch()
        self.config = folder / "ssh_config"

    def start(
        self,
        name: str,
        *,
        user: str = "root",
        is_known: bool = True,
        path: str = PATH,
        size: str = "400m",
        prepare: str = "",
    ) -> NodeMachine:
        """Start the machine of a host, and add it to the admin's ssh_config."""
        machine = NodeMachine(self._hosts[name], self._folder)
        self._machines.append(machine)
        machine.start(self._key, path=path, size=size, prepare=prepare)
        self.add_host(name, f"User {user}")
        if is_known:
            with self._known_hosts.open("a") as file:
                file.write(machine.known_host())
        return machine

    def add_host(self, name: str, *lines: str) -> None:
        """Add a host to the admin's ssh_config."""
        self._lines += [f"Host {name}", *(f"  {line}" for line in lines)]
        common = (
            f"IdentityFile {self._key}",
            "IdentitiesOnly yes",
            f"UserKnownHostsFile {self._known_hosts}",
            "GlobalKnownHostsFile /dev/null",
        )
        self.config.write_text("\n  ".join(["\n".join([*self._lines, "Host *"]), *common]) + "\n")

    def run(self, name: str, script: str) -> subprocess.CompletedProcess[str]:
        """Run a script there, as the admin does over ssh."""
        ssh = ("ssh", "-F", str(self.config), "-T", name, "exec sh")
        return subprocess.run(
            [*self._admin.command_prefix, *ssh],
            input=script,
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )

    def close(self) -> None:
        """End all machines."""
        for machine in self._machines:
            machine.close()
