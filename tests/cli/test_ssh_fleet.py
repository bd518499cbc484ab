"""`fleet-smi --ssh` against real servers: hosts that fail, hang, or have no address."""

import os
import pty
import pwd
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from mcp import Client

from tests.cli.program import assert_error_line, run_fleet_smi, run_json
from tests.machines import wait_until
from tests.mcp.assistants import ask, over_stdio
from tests.sshd import SshNetwork

PLAIN = {"PATH": "/usr/bin:/bin", "HOME": "/nonexistent"}
QUICK = os.uname().nodename


@pytest.fixture
def env(ssh_network: SshNetwork, tmp_path: Path) -> dict[str, str]:
    """The environment of a user with a host `quick`, one that hangs, and none that is `gone`."""
    ssh_network.add_host("quick", ssh_network.start_server(env=PLAIN))
    hangs = ssh_network.start_server("ForceCommand exec sleep 600", env=PLAIN)
    ssh_network.add_host("hung", hangs)
    return {
        "HOME": str(tmp_path),
        "PATH": os.environ["PATH"],
        "TERM": "xterm",
        "FLEET_SMI_HUB_SSH_CONFIG": str(ssh_network.config),
    }


class Terminal:
    """A program on a terminal of its own, and what it has written there so far."""

    def __init__(self, *arguments: str, env: dict[str, str]) -> None:
        self._main, end = pty.openpty()
        self.process = subprocess.Popen(
            [sys.executable, "-m", "fleet_smi", *arguments], env=env, stdout=end, stderr=end
        )
        os.close(end)
        self.text = ""
        self._reader = threading.Thread(target=self._read)
        self._reader.start()

    def _read(self) -> None:
        try:
            while chunk := os.read(self._main, 65_536):
                self.text += chunk.decode()
        except OSError:  # the program has closed its end
            os.close(self._main)

    def end(self) -> int:
        code = self.process.wait()
        self._reader.join()
        return code


@contextmanager
def on_terminal(*arguments: str, env: dict[str, str]) -> Iterator[Terminal]:
    started = Terminal(*arguments, env=env)
    try:
        yield started
    finally:
        started.process.send_signal(signal.SIGINT)
        started.end()


def test_a_hanging_host_does_not_delay_the_others_on_a_terminal(env: dict[str, str]) -> None:
    with on_terminal("--ssh", "quick,hung", env=env) as screen:
        wait_until(lambda: "waiting for hung" in screen.text)
        # Drawn again once it answers: the host that hangs has eight seconds left.
        wait_until(lambda: QUICK in screen.text)
        assert screen.process.poll() is None
        assert screen.end() == 0
    last = screen.text.rpartition("\x1b[J")[2]
    assert QUICK in last
    assert "did not answer in 10 s" in last
    assert "waiting for" not in last
    with on_terminal("--ssh", "quick,hung", "-i", "0.5", env=env) as screen:
        wait_until(lambda: QUICK in screen.text)
        drawn = screen.text.count("\x1b[H")
        wait_until(lambda: screen.text.count("\x1b[H") >= drawn + 4)
        assert "did not answer" not in screen.text
    assert screen.process.returncode == 130


def test_every_host_failing_is_an_error_after_the_output(env: dict[str, str]) -> None:
    failing = ("--ssh", "nosuch.invalid,127.0.0.1:1")
    for arguments in ((), ("nodes",), ("who",), ("free",), ("--json",), ("nodes", "--json")):
        done = run_fleet_smi(*arguments, *failing, env=env)
        assert done.returncode == 3, done
        assert "no answer from any machine" in done.stderr
        assert "nosuch.invalid: its name cannot be resolved" in done.stderr
        assert ("nosuch.invalid" in done.stdout) == (arguments not in (("free",),))
    some = run_json("--ssh", "quick,nosuch.invalid", env=env)
    assert some["summary"]["nodes_reporting"] == 1


def test_a_name_that_dns_does_not_resolve_in_time_is_named(
    env: dict[str, str], tmp_path: Path
) -> None:
    """An `ssh` that waits for DNS, as the real one does, until it is killed."""
    folder = tmp_path / "programs"
    folder.mkdir()
    program = folder / "ssh"
    program.write_text(
        '#!/bin/sh\ncase "$*" in *" -G "*) echo hostname nosuch.invalid ;; *) sleep 600 ;; esac\n'
    )
    program.chmod(0o755)
    env["PATH"] = f"{folder}:{env['PATH']}"
    done = run_fleet_smi("--ssh", "gpu01", env=env)
    assert done.returncode == 3
    assert "cannot be resolved" in done.stdout or "DNS does not answer" in done.stdout


def test_the_ssh_line_has_the_host_that_was_given(env: dict[str, str]) -> None:
    user = pwd.getpwuid(os.geteuid()).pw_name
    done = run_fleet_smi("free", "--ssh", f"{user}@quick", "--ssh-line", env=env)
    assert_error_line(done, 1, "no GPU is free")  # this machine has none


def test_one_line_of_numbers_and_an_assistant_over_ssh(env: dict[str, str]) -> None:
    line = "{total} GPUs, {silent} of {nodes} silent"
    done = run_fleet_smi("--format", line, "--ssh", "quick,gone", env=env)
    assert done.stdout == "0 GPUs, 1 of 2 silent\n", done.stderr
    # Of a fleet without any answer nothing is known: 0 would be a guess.
    done = run_fleet_smi("--format", line, "--ssh", "gone", env=env)
    assert (done.returncode, done.stdout) == (3, "- GPUs, - of - silent\n")

    async def session(client: Client) -> None:
        assert (await ask(client, "find_free_gpus"))["total"] == 0
        found = await ask(client, "why_is_it_slow", target=QUICK)
        assert (found["gpus"], found["findings"]) == (0, [])

    over_stdio(["--ssh", "quick"], env, session)
