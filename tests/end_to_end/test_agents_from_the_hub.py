"""Agents that a hub hands out: `join` over ssh, the pasted line, upgrade and its rollback.

The machines have no route but to each other: what they install comes from the hub.
"""

import contextlib
import re
import shutil
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest

from fleet_smi import __version__
from fleet_smi.hub.wheel_builder import build_installed_wheel
from fleet_smi.hub.wheelhouse import Wheelhouse
from tests.cli.program import run_fleet_smi
from tests.end_to_end.programs import FleetSmiProcess, Lab
from tests.install.environments import PROJECT, find_python, make_environment
from tests.machines import wait_until
from tests.network_namespaces import NetworkHost, network
from tests.node_machines import PATH, MachineRoom

OWN_PATH = f"{Path(sys.base_prefix) / 'bin'}:{PATH}"
"""Where a machine finds the Python of these tests first: the hub has its wheels."""
URL = "https://hub:7070"
NO_PYTHON = "rm -f usr/bin/python3*"
OLD_PYTHON = f"""{NO_PYTHON}
mkdir -p usr/local/old
printf '#!/bin/sh\\ncase "$2" in *print*) echo 3.9;; *) exit 1;; esac\\n' > usr/local/old/python3
chmod +x usr/local/old/python3"""
# A stand-in for sudo that asks for no password: a shell that keeps the rights of its owner.
SUDO = """cp bin/dash usr/bin/rootsh
chmod u+s usr/bin/rootsh
cat > usr/bin/sudo <<'END'
#!/usr/bin/rootsh -p
shift; exec setpriv --reuid 0 --regid 0 --clear-groups "$@"
END
chmod +x usr/bin/sudo"""
CRONTAB = """cat > usr/bin/crontab <<'END'
#!/bin/sh
if [ "$1" = -l ]; then cat ~/crontab; else cat > ~/crontab; fi
END
chmod +x usr/bin/crontab"""
MACHINES = (
    "gpu01",
    "alice01",
    "sudo01",
    "py310",
    "island",
    "old",
    "bare",
    "full",
    "stranger",
    "clone",
)
OTHERS = ("closed", "hung", "pasted", "up01", "up02")


class HubOfAgents:
    """A hub in a network of machines, and the admin's commands at its host."""

    def __init__(self, lab: Lab, hosts: dict[str, NetworkHost], room: MachineRoom) -> None:
        self.room = room
        self._lab = lab
        self._host = hosts["hub"]
        self.state = lab.folder / "hub"
        self.env = {
            "PATH": PATH,
            "HOME": str(lab.folder),
            "FLEET_SMI_HUB_STATE": str(self.state),
            "FLEET_SMI_HUB_SSH_CONFIG": str(room.config),
        }
        self.program: FleetSmiProcess | None = None

    def start(self, version: str | None = None, change: str = "") -> None:
        """Start the hub; of another version, with a change to the agent's code, where given."""
        if self.program is not None:
            self.program.terminate()
        self.env.pop("PYTHONPATH", None)
        if version is not None:
            self.env["PYTHONPATH"] = str(self._other_version(version, change))
        flags = ("--listen", ":7070", "--tls", "self-signed")
        self.program = self._lab.start(
            "hub",
            *flags,
            env=self.env,
            log=self._lab.folder / "hub-log",
            command_prefix=self._host.command_prefix,
        )
        wait_until(lambda: self.run("nodes", "--hub", URL).returncode == 0)

    def _other_version(self, version: str, change: str) -> Path:
        folder = self._lab.folder / version
        shutil.copytree(PROJECT / "src", folder, ignore=shutil.ignore_patterns("__pycache__"))
        package = folder / "fleet_smi"
        for file, old, new in (
            ("__init__.py", f'"{__version__}"', f'"{version}"'),
            ("cli/commands/agent.py", "    args.join = take_join_token(args)\n", change),
        ):
            if new:
                text = (package / file).read_text()
                assert old in text
                (package / file).write_text(text.replace(old, new))
        return folder

    def run(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        """Run the command as the admin does, on the hub's machine."""
        return run_fleet_smi(*arguments, env=self.env, command_prefix=self._host.command_prefix)

    def join(self, *arguments: str) -> tuple[int, dict[str, str]]:
        """Run `fleet-smi join`; return its exit code and the line of each host."""
        done = self.run("join", *arguments)
        assert done.stderr == ""
        lines = [line.partition(" ") for line in done.stdout.splitlines()]
        return done.returncode, {host: text.strip() for host, _, text in lines}

    def versions(self) -> dict[str, str | None]:
        """The agents' versions of the nodes that report, by name."""
        done = self.run("nodes", "--hub", URL, "--json")
        assert done.returncode == 0, done.stderr
        nodes = msgspec.json.decode(done.stdout)["nodes"]
        return {node["name"]: node["agent_version"] for node in nodes if not node["silent"]}


@pytest.fixture(scope="module")
def hub(tmp_path_factory: pytest.TempPathFactory) -> Iterator[HubOfAgents]:
    """The hub and its machines, none of which has an agent yet."""
    folder = tmp_path_factory.mktemp("agents")
    with contextlib.ExitStack() as stack:
        hosts = stack.enter_context(network("hub", *MACHINES, *OTHERS))
        room = MachineRoom(folder, hosts, "hub")
        stack.callback(room.close)
        lab = Lab(folder, folder)
        stack.callback(lab.close)
        running = HubOfAgents(lab, hosts, room)
        stack.enter_context(start_machines(room, hosts))
        add_wheels_of_python_310(running.state)
        running.start()
        yield running


@contextlib.contextmanager
def start_machines(room: MachineRoom, hosts: dict[str, NetworkHost]) -> Iterator[None]:
    room.start("gpu01", path=OWN_PATH)
    room.start("alice01", path=OWN_PATH, user="alice")
    room.start("sudo01", path=OWN_PATH, user="alice", prepare=SUDO)
    old = find_python("3.10")
    room.start("py310", path=f"{Path(old).parent}:{PATH}" if old else OWN_PATH)
    room.start("island", path=OWN_PATH)
    hosts["island"].isolate(hosts["hub"])
    room.start("old", path=f"/usr/local/old:{PATH}", prepare=OLD_PYTHON)
    room.start("bare", prepare=NO_PYTHON)
    room.start("full", path=OWN_PATH, size="24m")
    room.start("stranger", path=OWN_PATH, is_known=False)
    same_id = f"printf '{hosts['gpu01'].machine_id}' > etc/machine-id"
    room.start("clone", path=OWN_PATH, prepare=same_id)
    room.start("pasted", path=OWN_PATH, user="alice")
    room.start("up01", path=OWN_PATH)
    room.start("up02", path=OWN_PATH, user="alice", prepare=CRONTAB)
    room.add_host("closed", "Port 22")
    room.add_host("hung", "Port 22")
    with hosts["hung"].entered():
        listener = socket.create_server((hosts["hung"].address, 22))
    with listener:  # it accepts nothing
        yield


def add_wheels_of_python_310(state: Path) -> None:
    """Add what `fleet-smi hub wheelhouse` downloads for Python 3.10, where the machine has one."""
    if find_python("3.10") is None:
        return
    python = Path(make_environment("light", "3.10"))
    site = python.parents[1] / "lib/python3.10/site-packages"
    state.mkdir(mode=0o700)
    wheelhouse = Wheelhouse(state / "wheelhouse")
    for project in ("msgspec", "tomli"):
        assert wheelhouse.add(*build_installed_wheel(project, str(site)))


def test_many_machines_join_in_one_command_and_each_says_what_became_of_it(
    hub: HubOfAgents,
) -> None:
    code, planned = hub.join("--dry-run", "gpu01,bare")
    assert (code, planned["bare"][:6]) == (1, "FAILED")
    assert planned["gpu01"].startswith(
        f"would install fleet-smi {__version__} in /opt/fleet-smi-ag"
    )
    assert "gpu01" not in hub.versions()

    good = {"gpu01", "alice01", "sudo01", "py310", "island"}
    code, told = hub.join(
        *good, "old", "bare", "full", "stranger", "close*", "hung", "--parallel=12"
    )
    assert code == 1
    assert {host for host, text in told.items() if text.startswith("joined as")} == good, told
    assert all("a background process" in told[host] for host in good)
    if find_python("3.10"):
        assert "Python 3.10" in told["py310"]
    for host, reason in {
        "old": "/usr/local/old/python3 is Python 3.9: install Python 3.10 or later",
        "bare": "there is no python3 here: install Python 3.10 or later",
        "full": "no space for /opt/fleet-smi-agent",
        "stranger": "its host key is not known: compare it, with `fleet-smi ssh trust stranger`",
        "closed": "connection refused: no sshd listens there",
        "hung": "the ssh connection timed out",
    }.items():
        assert told[host].startswith(f"FAILED: {reason}"), told[host]
    assert told["5"] == "of 11 joined"
    where = "ls -d /opt/fleet-smi-agent ~/.local/share/fleet-smi-agent 2>/dev/null"
    assert hub.room.run("sudo01", where).stdout == "/opt/fleet-smi-agent\n"
    assert hub.room.run("alice01", where).stdout == "/home/alice/.local/share/fleet-smi-agent\n"
    assert good <= hub.versions().keys()
    # The token was for these hosts, and is gone.
    assert "fleet-smi join" not in hub.run("hub", "token", "list").stdout

    code, again = hub.join("gpu0?")
    assert (code, again["gpu01"].partition(":")[0]) == (0, "already joined as gpu01")
    code, cloned = hub.join("clone")
    assert (code, cloned["clone"].partition(":")[0]) == (1, "FAILED")
    assert "systemd-machine-id-setup" in cloned["clone"]


def test_the_pasted_line_installs_joins_and_starts(hub: HubOfAgents) -> None:
    line = hub.run("hub", "join-command").stdout
    (checksum,) = re.findall(r" ([0-9a-f]{64}) https://hub:7070 ", line)
    tampered = hub.room.run("pasted", line.replace(checksum, "0" * 64))
    assert tampered.returncode == 1
    assert "FAILED" in tampered.stderr
    assert hub.room.run("pasted", "ls -A ~/.local").stdout == ""
    used = re.sub(r"fsmi_join_\S+", "fsmi_join_wrong", line)
    refused = hub.room.run("pasted", used).stderr
    assert "fleet-smi: the hub refuses the token" in refused
    done = hub.room.run("pasted", line)
    assert done.stdout.startswith("joined as pasted: a background process, fleet-smi"), done
    assert hub.versions()["pasted"] == __version__
    processes = hub.room.run("pasted", "ps -eo user,args; ls ~/.local/bin").stdout
    assert re.search(r"^alice .*fleet-smi agent$", processes, re.MULTILINE)
    assert "fsmi_join" not in processes
    assert {"fleet-smi", "fsmi"} <= set(processes.split())


@pytest.fixture
def upgraded(hub: HubOfAgents) -> Iterator[HubOfAgents]:
    """The hub, which is again of its own version afterwards."""
    hub.join("up01", "up02")
    yield hub
    hub.start()


def test_an_agent_is_upgraded_to_the_hubs_version_and_back_if_it_does_not_report(
    upgraded: HubOfAgents,
) -> None:
    hub = upgraded
    hub.start("7.8.9")
    screen = hub.run("nodes", "--hub", URL).stdout
    assert f"{__version__} behind" in screen
    assert "older than the hub (7.8.9)" in screen
    upgrade = "/opt/fleet-smi-agent/current/bin/fleet-smi agent upgrade"
    done = hub.room.run("up01", upgrade)
    assert done.stdout.startswith(f"upgraded from {__version__} to 7.8.9"), done.stderr
    assert hub.versions()["up01"] == "7.8.9"
    assert "already: 7.8.9" in hub.room.run("up01", upgrade).stdout
    # By `join`, as its user.
    assert "fleet-smi 7.8.9" in hub.join("up02")[1]["up02"]
    cron = hub.room.run("up02", "cat ~/crontab").stdout
    assert cron == "@reboot setsid /home/alice/.config/fleet-smi/agent-background\n"
    removed = hub.room.run("up02", "~/.local/bin/fleet-smi service uninstall agent --background")
    assert removed.returncode == 0, removed.stderr
    assert hub.room.run("up02", "cat ~/crontab; ps -eo args | grep '[s]mi agent'").stdout == ""

    hub.start("7.9.0", '    raise UsageError("broken on purpose")\n')
    failed = hub.room.run("up01", f"{upgrade} --wait 4")
    assert failed.returncode == 1
    last = failed.stderr.splitlines()[-1]
    assert last.startswith("fleet-smi: the agent is 7.8.9 as before: 7.9.0 did not report"), failed
    wait_until(lambda: hub.versions().get("up01") == "7.8.9")
