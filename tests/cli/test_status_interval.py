"""`fleet-smi -i`: refresh, keys, the size of the window, signals."""

import os
import pty
import re
import select
import signal
import subprocess
import sys
import termios
import time
from typing import Any

import msgspec
import pytest

from fleet_smi.cli.live_screen import LiveScreen
from sim.scenario import GIB, Scenario, SimGpu
from tests.machines import require_program, wait_until
from tests.sim.fixtures import Simulated


def test_interval_shows_changes_until_interrupted(simulated: Simulated) -> None:
    env = simulated(Scenario(gpus=[SimGpu(memory_used=0)]))
    command = [sys.executable, "-m", "fleet_smi", "-i", "0.1", "--json"]
    with subprocess.Popen(command, env=env, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as on:
        assert on.stdout is not None
        assert on.stderr is not None
        first = msgspec.json.decode(on.stdout.readline())
        assert first["nodes"][0]["gpus"][0]["memory_used_bytes"] == 0
        simulated(Scenario(gpus=[SimGpu(memory_used=40 * GIB)]))
        wait_until(
            lambda: (
                msgspec.json.decode(on.stdout.readline())["nodes"][0]["gpus"][0][  # type: ignore[union-attr]
                    "memory_used_bytes"
                ]
                == 40 * GIB
            )
        )
        on.send_signal(signal.SIGINT)
        assert on.stderr.read() == b""
    assert on.returncode == 130


def test_interval_redraws_the_terminal_in_place(env: dict[str, str]) -> None:
    ours, theirs = pty.openpty()
    command = [sys.executable, "-m", "fleet_smi", "-i", "0.1"]
    terminal = env | {"TERM": "xterm"}
    with subprocess.Popen(command, env=terminal, stdout=theirs) as running:
        os.close(theirs)
        written = b""
        while written.count(b"\x1b[H") < 3:
            written += os.read(ours, 65536)
        running.send_signal(signal.SIGINT)
        while b"\x1b[?25h" not in written:
            written += os.read(ours, 65536)
    os.close(ours)
    assert written.count(b"\x1b[2J") == 1
    assert written.startswith(b"\x1b[?25l")


@pytest.mark.parametrize(
    ("flags", "term"), [(["--json"], "xterm"), (["--csv"], "xterm"), ([], "dumb")]
)
def test_interval_writes_no_escape_codes_to_a_pipe_or_dumb_terminal(
    env: dict[str, str], flags: list[str], term: str
) -> None:
    ours, theirs = pty.openpty()
    command = [sys.executable, "-m", "fleet_smi", "-i", "0.1", *flags]
    with subprocess.Popen(command, env=env | {"TERM": term}, stdout=theirs) as running:
        os.close(theirs)
        written = b""
        while written.count(b"GPU-") + written.count(b"free") < 8:
            written += os.read(ours, 65536)
        running.terminate()
    os.close(ours)
    assert b"\x1b" not in written


def test_interval_counts_the_lines_that_do_not_fit(
    env: dict[str, str],
) -> None:
    ours, theirs = pty.openpty()
    termios.tcsetwinsize(theirs, (3, 20))
    command = [sys.executable, "-m", "fleet_smi", "-i", "0.1", "--no-color"]
    with subprocess.Popen(command, env=env | {"TERM": "xterm"}, stdout=theirs) as running:
        os.close(theirs)
        written = b""
        while written.count(b"\x1b[H") < 2:
            written += os.read(ours, 65536)
        running.terminate()
    os.close(ours)
    (line,) = re.findall(r"lines .*", written.decode().split("\x1b[H")[1])
    assert re.fullmatch(r"lines 1-2 of \d+", line)


class LiveTable:
    """`fleet-smi -i` on a terminal of its own, at which somebody presses keys."""

    def __init__(
        self, env: dict[str, str], rows: int, seconds: str, shell: tuple[str, ...] = ()
    ) -> None:
        self._ours, self._theirs = pty.openpty()
        self.resize(rows)
        self.mode_before = termios.tcgetattr(self._theirs)
        command = [sys.executable, "-m", "fleet_smi", "-i", seconds, "--no-color"]
        # With that terminal as its own: otherwise it would be a job in the background.
        self.running = subprocess.Popen(
            ["setsid", "--ctty", *shell, *command],
            env=env | {"TERM": "xterm"},
            stdin=self._theirs,
            stdout=self._theirs,
            stderr=self._theirs,
        )
        self._written = b""

    def resize(self, rows: int) -> None:
        termios.tcsetwinsize(self._ours, (rows, 100))

    def press(self, keys: bytes) -> None:
        os.write(self._ours, keys)

    def wait_for(self, pattern: str, *, whole: bool = False) -> re.Match[str]:
        """Wait until the latest picture, or the `whole` output, shows this; return the match."""
        ends = time.monotonic() + 60
        while True:
            written = self._written.decode(errors="replace")
            picture = written if whole else written.rpartition("\x1b[H")[2]
            if match := re.search(pattern, picture):
                return match
            assert time.monotonic() < ends, f"{pattern} is not in {picture!r}"
            if select.select([self._ours], [], [], 1)[0]:
                self._written += os.read(self._ours, 65536)

    def mode(self) -> list[Any]:
        return termios.tcgetattr(self._theirs)

    def close(self) -> None:
        self.running.kill()
        self.running.wait()
        os.close(self._ours)
        os.close(self._theirs)


def test_a_live_table_scrolls_follows_the_window_and_ends_with_q(
    simulated: Simulated,
) -> None:
    require_program("setsid")
    env = simulated(Scenario(gpus=[SimGpu()] * 12))
    # A long interval: everything below happens between two refreshes.
    table = LiveTable(env, rows=5, seconds="3600")
    try:
        count = int(table.wait_for(r"lines 1-4 of (\d+).*q: quit")[1])
        assert count > 6
        for keys, first in (
            (b"j", 2),
            (b"\x1b[B", 3),
            (b"k", 2),
            (b"\x1bOA", 1),
            (b"k", 1),  # no further than the beginning
            (b"\x1b[6~", 4),
            (b"G", count - 3),
            (b" ", count - 3),  # no further than the end
            (b"b", count - 6),
            (b"g", 1),
        ):
            table.press(keys)
            table.wait_for(rf"lines {first}-{first + 3} of {count}\b")
        assert table.mode() != table.mode_before
        table.resize(count + 5)
        table.wait_for(r"\x1b\[J$")  # all of it fits: no position
        table.press(b"q")
        assert table.running.wait(60) == 0
        table.wait_for(r"\x1b\[\?25h")
        assert table.mode() == table.mode_before
    finally:
        table.close()


def test_a_live_table_gives_the_terminal_back_while_it_is_suspended(
    simulated: Simulated,
) -> None:
    require_program("setsid")
    env = simulated(Scenario(gpus=[SimGpu()] * 12))
    # Only a shell with job control can continue it.
    shell = ("bash", "-m", "-c", '"$@"; echo suspended; fg; exit $?', "bash")
    table = LiveTable(env, rows=5, seconds="3600", shell=shell)
    try:
        table.wait_for(r"lines 1-4 of")
        table.press(b"\x1a")  # Ctrl-Z
        table.wait_for(r"(?s)\x1b\[\?25h.*suspended.*\x1b\[H.*lines 1-4 of", whole=True)
        table.press(b"jq")
        assert table.running.wait(60) == 0
        assert table.mode() == table.mode_before
    finally:
        table.close()


def test_a_signal_ends_the_wait_for_a_key_before_its_handler_has_run() -> None:
    """One that comes just before the wait begins is handled only when the wait ends."""
    with LiveScreen() as screen:
        signal.signal(signal.SIGWINCH, lambda *_: None)
        os.kill(os.getpid(), signal.SIGWINCH)
        assert select.select([screen._wake_read], [], [], 0)[0]
    assert signal.set_wakeup_fd(-1) == -1


def test_interval_survives_hangup_under_nohup(env: dict[str, str]) -> None:
    command = ["nohup", sys.executable, "-m", "fleet_smi", "-i", "0.1", "--json"]
    with subprocess.Popen(command, env=env, stdout=subprocess.PIPE) as running:
        assert running.stdout is not None
        running.stdout.readline()
        running.send_signal(signal.SIGHUP)
        assert all(running.stdout.readline() for _ in range(3))
        running.terminate()


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_a_signal_restores_the_cursor(env: dict[str, str], number: signal.Signals) -> None:
    ours, theirs = pty.openpty()
    # The test run itself may be under nohup, which children inherit.
    command = ["env", "--default-signal=HUP", sys.executable, "-m", "fleet_smi", "-i", "0.1"]
    with subprocess.Popen(command, env=env | {"TERM": "xterm"}, stdout=theirs) as running:
        os.close(theirs)
        written = b""
        while b"\x1b[H" not in written:
            written += os.read(ours, 65536)
        running.send_signal(number)
        while b"\x1b[?25h" not in written:
            written += os.read(ours, 65536)
    os.close(ours)
    assert running.returncode == 128 + number
