"""Commands that ask a hub, or machines over ssh, without anything that only Linux has."""

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cli.program import NO_HUB_HERE, assert_error_line
from tests.cli.tmux import Tmux
from tests.install.test_pythons import CLIENT_COMMANDS
from tests.machines import require_program
from tests.server.routes.sample_history import report_history
from tests.server.threaded_hub import ThreadedHub
from tests.sshd import SshNetwork

BLOCKER = Path(__file__).with_name("without_linux")
PASSWORD = "correct horse battery"
PROOF = """
import os, select, socket, sys
assert sys.platform == "darwin" and not os.path.exists("/proc/self")
assert not (hasattr(select, "epoll") or hasattr(os, "pipe2") or hasattr(socket, "SO_PEERCRED"))
open("/proc/self/stat")
"""


@pytest.fixture(scope="module")
def hub(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ThreadedHub]:
    with ThreadedHub(tmp_path_factory.mktemp("hub")) as running:
        running.server.credentials.users.add("ada", PASSWORD, "viewer")
        running.server.credentials.refresh()
        report_history(running)
        yield running


@pytest.fixture
def env(tmp_path: Path) -> dict[str, str]:
    home = {**NO_HUB_HERE, "HOME": str(tmp_path), "XDG_STATE_HOME": str(tmp_path / "state")}
    return {"PATH": os.environ["PATH"], "PYTHONPATH": str(BLOCKER), "COLUMNS": "100", **home}


def run(*arguments: str, env: dict[str, str], typed: str = "") -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, *arguments],
        env=env,
        input=typed,
        capture_output=True,
        text=True,
        timeout=90,
        check=False,
    )


def run_command(*arguments: str, env: dict[str, str], typed: str = "") -> str:
    done = run("-m", "fleet_smi", *arguments, env=env, typed=typed)
    assert (done.returncode, done.stderr) == (0, ""), done
    return done.stdout


def test_what_only_linux_has_is_gone(env: dict[str, str]) -> None:
    assert "FileNotFoundError" in run("-c", PROOF, env=env).stderr.splitlines()[-1]


def test_commands_ask_a_hub(env: dict[str, str], hub: ThreadedHub, tmp_path: Path) -> None:
    for arguments, word in CLIENT_COMMANDS.items():
        assert word in run_command(*arguments, "--hub", hub.url, env=env), arguments
    run("-m", "fleet_smi", "render", "--out", str(tmp_path / "site"), "--hub", hub.url, env=env)
    assert "gpu01" in (tmp_path / "site/index.html").read_text()
    assert "client.hub" in run_command("config", "show", env=env)
    program = f"import fleet_smi; print(len(fleet_smi.Fleet({hub.url!r}).gpus()))"
    assert int(run("-c", program, env=env).stdout) > 0


def test_a_person_logs_in_and_acts(env: dict[str, str], hub: ThreadedHub) -> None:
    env |= {"FLEET_SMI_CLIENT_HUB": hub.url}
    run_command("login", "--name", "ada", env=env, typed=PASSWORD)
    booked = run_command("reserve", "--node", "gpu01", "-n", "1", "--for", "1h", env=env)
    assert "gpu01" in booked
    assert "ada" in run_command("reserve", "list", env=env)
    run_command("logout", env=env)


def test_commands_read_machines_over_ssh(env: dict[str, str], ssh_network: SshNetwork) -> None:
    plain = {"PATH": "/usr/bin:/bin", "HOME": "/nonexistent"}
    ssh_network.add_host("quick", ssh_network.start_server(env=plain))
    env |= {"FLEET_SMI_HUB_SSH_CONFIG": str(ssh_network.config)}
    assert "1 of 1 node " in run_command("nodes", "--ssh", "quick", env=env)
    assert os.uname().nodename in run_command("--ssh", "quick", env=env)


@pytest.mark.parametrize("screen", [("-i", "1"), ("top",)], ids=["-i", "top"])
def test_live_screens_show_a_hub(
    screen: tuple[str, ...], env: dict[str, str], hub: ThreadedHub, tmp_path: Path
) -> None:
    require_program("tmux")
    command = [sys.executable, "-m", "fleet_smi", *screen, "--hub", hub.url]
    terminal = Tmux(tmp_path, command, env | {"TERM": "xterm-256color"}, (100, 30))
    try:
        assert "gpu01" in terminal.wait_for("gpu02")
        terminal.press("q")
        terminal.wait_for("code=0")
    finally:
        terminal.close()


@pytest.mark.parametrize("command", ["status", "free", "agent", "doctor", "run"])
def test_reading_this_machine_says_what_to_do_instead(command: str, env: dict[str, str]) -> None:
    arguments = {"agent": ("--stdout", "--once"), "run": ("true",)}.get(command, ())
    done = run("-m", "fleet_smi", command, *arguments, env=env)
    assert_error_line(done, 2, "give --hub URL, or --ssh HOST")
