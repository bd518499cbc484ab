"""`fleet-smi run` in a real terminal: as if the command had been started without it."""

import fcntl
import os
import pty
import re
import signal
import struct
import subprocess
import sys
import termios
from collections.abc import Iterator
from pathlib import Path

import pytest

from sim.scenario import Scenario, SimGpu
from tests.machines import wait_until
from tests.node.leases.held import held_uuids
from tests.sim.fixtures import Simulated

_BASH = ["bash", "--norc", "--noprofile", "-i"]


class Shell:
    """An interactive shell in a terminal of its own, driven by what is typed into it."""

    def __init__(self, env: dict[str, str]) -> None:
        self.screen = ""
        self.pid, self._terminal = pty.fork()
        if self.pid == 0:
            # As a login shell has it: what starts the tests (nohup) may ignore it.
            signal.signal(signal.SIGHUP, signal.SIG_DFL)
            os.execvpe(_BASH[0], _BASH, env | {"PS1": "ready> ", "TERM": "dumb"})
        self.wait_for("ready> ")

    def type(self, text: str) -> None:
        """Type, and forget what is on the screen."""
        self.screen = ""
        os.write(self._terminal, text.encode())

    def wait_for(self, text: str) -> str:
        """Read the screen until it has a text."""
        while text not in self.screen:
            self.screen += os.read(self._terminal, 4096).decode(errors="replace")
        return self.screen

    def wait_for_number(self, text: str) -> int:
        """Return the number that follows a text on the screen."""
        while (match := re.search(rf"{re.escape(text)}(\d+)\r\n", self.screen)) is None:
            self.screen += os.read(self._terminal, 4096).decode(errors="replace")
        return int(match[1])

    def resize(self, rows: int, columns: int) -> None:
        fcntl.ioctl(self._terminal, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))

    def hang_up(self) -> None:
        """Close the terminal, as a lost ssh session does."""
        os.close(self._terminal)
        self._terminal = -1

    def close(self) -> None:
        if self._terminal >= 0:
            os.close(self._terminal)
        os.kill(self.pid, signal.SIGKILL)
        os.waitpid(self.pid, 0)


@pytest.fixture
def lease_dir(tmp_path: Path) -> Path:
    return tmp_path / "leases"


@pytest.fixture
def shell(simulated: Simulated, lease_dir: Path) -> Iterator[Shell]:
    env = simulated(Scenario(gpus=[SimGpu()])) | {"FLEET_SMI_NODE_LEASE_DIR": str(lease_dir)}
    started = Shell(env | {"RUN": f"{sys.executable} -m fleet_smi run --nowait --"})
    yield started
    started.close()


def python(code: str) -> str:
    return f"{sys.executable} -c '{code}'"


COUNT = (
    "import os, signal, sys, time\n"
    "got = []\n"
    "for name in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT):\n"
    "    signal.signal(name, lambda number, _: got.append(number))\n"
    'print("up" + "!", os.getppid(), flush=True)\n'
    "while not got: time.sleep(0.01)\n"
    "time.sleep(0.3)\n"
    'print("got", len(got), flush=True)\n'
    "sys.exit(5)"
)
"""Counts the signals that it gets, until 0.3 s after the first one."""


@pytest.mark.parametrize("key", ["\x03", "\x1c"])
def test_ctrl_c_reaches_the_command_once_and_its_exit_code_the_shell(
    shell: Shell, key: str
) -> None:
    shell.type(f"$RUN {python(COUNT)}; echo code=$?\n")
    shell.wait_for_number("up! ")
    shell.type(key)
    assert "got 1\r\n" in shell.wait_for("code=5\r\n")


def test_a_signal_reaches_the_command_once_whether_it_is_sent_to_its_group_or_not(
    shell: Shell,
) -> None:
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        for send in (os.kill, os.killpg):
            shell.type(f"$RUN {python(COUNT)}; echo code=$?\n")
            # The supervisor, which is the leader of the group that the shell has made.
            send(shell.wait_for_number("up! "), number)
            assert "got 1\r\n" in shell.wait_for("code=5\r\n"), (send, number)
    # As a shell does: `kill %1` is a signal to the group.
    shell.type(f"$RUN {python(COUNT)} &\n")
    shell.wait_for_number("up! ")
    shell.type("kill %1; wait; echo ov''er\n")
    assert "got 1\r\n" in shell.wait_for("over\r\n")


def test_ctrl_c_ends_a_plain_command_as_the_shell_expects(shell: Shell, lease_dir: Path) -> None:
    shell.type("$RUN sh -c 'echo up!; exec sleep 60'; echo not reached\n")
    shell.wait_for("up!\r\n")
    shell.type("\x03")
    shell.wait_for("ready> ")
    shell.type("echo code=$?\n")
    shell.wait_for("code=130\r\n")
    assert held_uuids(lease_dir) == []


def test_ctrl_z_suspends_the_command_and_fg_continues_it(shell: Shell, lease_dir: Path) -> None:
    shell.type("$RUN sh -c 'echo up!; read line; echo got $line'\n")
    shell.wait_for("up!\r\n")
    shell.type("\x1a")
    shell.wait_for("Stopped")
    # It keeps its GPU while it is suspended.
    assert len(held_uuids(lease_dir)) == 1
    shell.type("fg\n")
    shell.wait_for("up!")
    shell.type("more\n")
    shell.wait_for("got more\r\n")
    shell.wait_for("ready> ")
    assert held_uuids(lease_dir) == []


def test_the_command_follows_the_size_of_the_window(shell: Shell) -> None:
    code = (
        "import os, time\n"
        'print("up" + "!", flush=True)\n'
        "while os.get_terminal_size().columns != 97: time.sleep(0.01)\n"
        'print("size", *os.get_terminal_size())'
    )
    shell.type(f"$RUN {python(code)}\n")
    shell.wait_for("up!")
    shell.resize(31, 97)
    shell.wait_for("size 97 31\r\n")


def test_the_command_has_the_terminal(shell: Shell) -> None:
    shell.type("$RUN sh -c 'test -t 0 && test -t 1 && test -t 2 && echo terminal'\n")
    shell.wait_for("\nterminal\r\n")


def test_a_lost_session_ends_the_command_and_frees_the_gpu(shell: Shell, lease_dir: Path) -> None:
    shell.type("$RUN sh -c 'echo up!; exec sleep 600'\n")
    shell.wait_for("up!\r\n")
    assert len(held_uuids(lease_dir)) == 1
    shell.hang_up()
    wait_until(lambda: held_uuids(lease_dir) == [])


def test_a_command_that_ignores_the_hangup_keeps_its_gpu(shell: Shell, lease_dir: Path) -> None:
    shell.type("$RUN sh -c 'trap \"\" HUP; echo up! $$; exec sleep 60'\n")
    pid = shell.wait_for_number("up! ")
    shell.hang_up()
    wait_until(lambda: not Path(f"/proc/{shell.pid}/fd/0").exists())
    assert len(held_uuids(lease_dir)) == 1
    os.kill(pid, signal.SIGTERM)
    wait_until(lambda: held_uuids(lease_dir) == [])


def test_signals_to_the_supervisor_reach_the_command(simulated: Simulated, lease_dir: Path) -> None:
    env = simulated(Scenario(gpus=[SimGpu()])) | {"FLEET_SMI_NODE_LEASE_DIR": str(lease_dir)}
    script = "trap 'echo usr1' USR1; trap 'exit 9' TERM; echo up; while :; do sleep 0.05; done"
    job = subprocess.Popen(
        [sys.executable, "-m", "fleet_smi", "run", "--", "sh", "-c", script],
        env=env,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert job.stdout is not None
    assert job.stdout.readline() == "up\n"
    job.send_signal(signal.SIGUSR1)
    assert job.stdout.readline() == "usr1\n"
    job.send_signal(signal.SIGTERM)
    assert job.wait() == 9
    job.stdout.close()


def test_a_daemon_that_the_command_leaves_does_not_keep_the_gpu(
    shell: Shell, lease_dir: Path
) -> None:
    shell.type("$RUN sh -c 'setsid sleep 60 >/dev/null 2>&1 & echo daemon=$!'\n")
    pid = shell.wait_for_number("daemon=")
    shell.wait_for("ready> ")
    assert Path(f"/proc/{pid}").exists()
    assert held_uuids(lease_dir) == []
    os.kill(pid, signal.SIGKILL)
