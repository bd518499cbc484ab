"""`fleet-smi status`: filters, order, refresh, terminals and pipes, errors, help."""

import os
import pty
import re
import select
import signal
import subprocess
import sys
import termios
import time
from pathlib import Path
from typing import Any

import msgspec
import pytest

from sim.scenario import GIB, Scenario, SimGpu, SimProcess
from tests.cli.program import assert_error_line, run_fleet_smi, run_gpus, run_json
from tests.machines import UserProcesses, require_program, require_root, wait_until
from tests.sim.fixtures import Simulated


def taken(pid: int, gib: int, load: int) -> SimGpu:
    process = SimProcess(pid=pid, memory=gib * GIB)
    return SimGpu(processes=[process], memory_used=(gib + 1) * GIB, util_gpu=load)


@pytest.fixture
def env(people: UserProcesses, simulated: Simulated) -> dict[str, str]:
    """One free GPU, one busy, one lost."""
    machine = [SimGpu(), taken(people.start(), 10, 90), SimGpu(faults={"*": "lost"})]
    return simulated(Scenario(gpus=machine))


def states(done: subprocess.CompletedProcess[str]) -> list[str]:
    rows = (line.split() for line in done.stdout.splitlines())
    return [row[1] for row in rows if len(row) > 1 and row[0].isdigit()]


def test_the_table_has_one_row_per_gpu_in_index_order(env: dict[str, str]) -> None:
    assert states(run_fleet_smi(env=env)) == ["free", "busy", "broken"]


def test_sort_attention_puts_problems_first(env: dict[str, str]) -> None:
    done = run_fleet_smi("--sort", "attention", env=env)
    assert states(done) == ["broken", "free", "busy"]


def test_state_filters_and_counts_the_rest(env: dict[str, str]) -> None:
    done = run_fleet_smi("--state", "free,BUSY", env=env)
    assert states(done) == ["free", "busy"]
    assert "1 of 3 GPUs do not match" in done.stdout


def test_filter_filters_and_counts_the_rest(env: dict[str, str]) -> None:
    done = run_fleet_smi("--filter", "-broken load>50", env=env)
    assert states(done) == ["busy"]
    assert "2 of 3 GPUs do not match" in done.stdout


def test_an_invalid_filter_is_refused_with_a_suggestion(env: dict[str, str]) -> None:
    done = run_fleet_smi("--filter", "modle:H100", env=env)
    assert_error_line(done, 2, "did you mean 'model'?")


def test_user_shows_only_the_gpus_of_that_user(people: UserProcesses, simulated: Simulated) -> None:
    require_root()
    of_nobody, of_games = (people.start(user=user) for user in ("nobody", "games"))
    both = taken(of_nobody, 5, 50)
    both.processes.append(SimProcess(pid=of_games, memory=2 * GIB))
    env = simulated(Scenario(gpus=[SimGpu(), taken(of_games, 5, 50), both]))
    gpus = run_gpus("-u", "nobody", env=env)
    assert [gpu["index"] for gpu in gpus] == [2]
    assert [process["user"] for process in gpus[0]["processes"]] == ["nobody"]


def test_node_shows_only_matching_nodes(env: dict[str, str]) -> None:
    named = env | {"FLEET_SMI_NODE_NAME": "gpu07"}
    assert len(run_json("-n", "gpu0[0-9]", env=named)["nodes"]) == 1
    assert run_json("-n", "^other$", env=named)["nodes"] == []


def test_processes_are_listed_below_their_gpu(env: dict[str, str]) -> None:
    assert "sleep 600" in run_fleet_smi("-p", env=env).stdout


def test_why_shows_the_reason(env: dict[str, str]) -> None:
    assert "nobody on it" in run_fleet_smi("-v", env=env).stdout


def test_the_overview_has_one_row_per_node(env: dict[str, str]) -> None:
    done = run_fleet_smi("-o", env=env | {"FLEET_SMI_NODE_NAME": "gpu07"})
    assert sum(line.startswith("gpu07") for line in done.stdout.splitlines()) == 1


@pytest.mark.parametrize("columns", [60, 80, 100, 120, 200])
def test_no_line_is_wider_than_the_terminal(env: dict[str, str], columns: int) -> None:
    done = run_fleet_smi("-p", "-v", env=env | {"COLUMNS": str(columns)})
    assert max(len(line) for line in done.stdout.splitlines()) <= columns


@pytest.mark.parametrize("columns", ["²", "x", "-5", "0", "9" * 5000])
def test_an_invalid_columns_variable_is_ignored(env: dict[str, str], columns: str) -> None:
    done = run_fleet_smi(env=env | {"COLUMNS": columns})
    assert done.returncode == 0, done.stderr
    assert states(done) == ["free", "busy", "broken"]


def test_piped_output_has_no_colour_without_the_flag(env: dict[str, str]) -> None:
    assert "\x1b[" not in run_fleet_smi(env=env).stdout
    assert "\x1b[" in run_fleet_smi("--color", env=env).stdout
    assert "\x1b[" not in run_fleet_smi("--color", "--no-color", env=env).stdout


def on_a_terminal(*arguments: str, env: dict[str, str]) -> str:
    """What the command writes to a terminal of 24 lines by 80 columns."""
    ours, theirs = pty.openpty()
    os.set_blocking(ours, False)
    command = [sys.executable, "-m", "fleet_smi", *arguments]
    with subprocess.Popen(command, env=env, stdout=theirs, stderr=theirs) as running:
        os.close(theirs)
        written = b""
        while True:
            try:
                if not (data := os.read(ours, 65536)):
                    break
                written += data
            except BlockingIOError:
                continue
            except OSError:  # the other end is closed
                break
        running.wait()
    os.close(ours)
    return written.decode()


def test_terminal_output_is_coloured(env: dict[str, str]) -> None:
    terminal = env | {"TERM": "xterm"}
    assert "\x1b[" in on_a_terminal(env=terminal)
    assert "\x1b[" not in on_a_terminal(env=terminal | {"NO_COLOR": "1"})
    assert "\x1b[" not in on_a_terminal(env=env | {"TERM": "dumb"})


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


@pytest.mark.parametrize("closing", ["<&-", "2>&-", "<&- 2>&-"])
def test_closed_standard_streams_do_not_break_the_reader(env: dict[str, str], closing: str) -> None:
    script = f'exec "{sys.executable}" -m fleet_smi {closing}'
    done = subprocess.run(
        ["sh", "-c", script], env=env, capture_output=True, text=True, timeout=30, check=True
    )
    assert states(done) == ["free", "busy", "broken"]


def test_with_its_output_closed_it_ends_quietly(env: dict[str, str]) -> None:
    script = f'exec "{sys.executable}" -m fleet_smi >&-'
    done = subprocess.run(
        ["sh", "-c", script], env=env, capture_output=True, text=True, timeout=30, check=True
    )
    assert (done.stdout, done.stderr) == ("", "")


def test_a_full_disk_is_a_one_line_error(env: dict[str, str]) -> None:
    with Path("/dev/full").open("w") as full:
        done = subprocess.run(
            [sys.executable, "-m", "fleet_smi"],
            env=env,
            stdout=full,
            stderr=subprocess.PIPE,
            text=True,
            timeout=30,
            check=False,
        )
    assert done.returncode == 1
    assert done.stderr == "fleet-smi: cannot continue: No space left on device\n"


@pytest.mark.parametrize("encoding", ["ascii", "latin-1"])
def test_output_without_utf_8_uses_ascii_substitutes(env: dict[str, str], encoding: str) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "fleet_smi"],
        env=env | {"PYTHONIOENCODING": encoding, "PYTHONUTF8": "0"},
        capture_output=True,
        encoding=encoding,
        timeout=30,
        check=True,
    )
    assert done.stderr == ""
    assert states(done) == ["free", "busy", "broken"]
    assert "?" not in done.stdout


@pytest.mark.parametrize(
    "locale",
    [
        {"LC_ALL": "C"},
        {"LC_ALL": "POSIX", "LANG": "en_US.UTF-8"},
        {"LANG": "C"},
        {"LANG": "en_US.ISO-8859-1"},
        {"LC_CTYPE": "C", "LANG": "en_US.UTF-8"},
    ],
    ids=str,
)
def test_a_locale_without_utf_8_is_drawn_in_ascii(
    env: dict[str, str], locale: dict[str, str]
) -> None:
    names = ("LC_ALL", "LC_CTYPE", "LANG", "PYTHONUTF8", "PYTHONIOENCODING")
    bare = {name: value for name, value in env.items() if name not in names}
    bare["FLEET_SMI_NODE_NAME"] = "größe"

    def run(*flags: str, **settings: str) -> bytes:
        command = [sys.executable, "-m", "fleet_smi", "-v", *flags]
        done = subprocess.run(
            command, env=bare | settings, capture_output=True, timeout=60, check=True
        )
        return done.stdout

    drawn = run(**locale)
    assert drawn.isascii()
    assert b"gr??e" in drawn
    assert drawn.count(b"?") == drawn.count(b"gr??e") * 2
    # Programs read JSON and CSV, which are UTF-8 in any locale.
    assert "größe" in run("--json", **locale).decode()
    assert "größe" in run("--csv", **locale).decode()
    for utf8 in ({"LC_ALL": "C.UTF-8"}, {"LC_CTYPE": "C.UTF-8", "LANG": "C"}, {}):
        assert "größe" in run(**utf8).decode()


def test_a_machine_without_gpus_suggests_doctor_and_demo(tmp_path: Path) -> None:
    env = dict(os.environ) | {"PATH": "/nonexistent", "LD_LIBRARY_PATH": str(tmp_path)}
    done = run_fleet_smi(env=env | {"FLEET_SMI_NODE_ROOT": str(tmp_path)})
    assert done.returncode == 0
    assert "no GPU" in done.stdout
    assert "fleet-smi doctor" in done.stdout
    assert "fleet-smi demo" in done.stdout


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["-n", "["], "is not a regular expression"),
        (["--state", "idle"], "the states are free, leased"),
        (["--sort", "colour"], "invalid choice: 'colour'"),
        (["-i", "0"], "must be 0.1 to 86400 seconds"),
        (["--nonsense"], "unrecognized arguments: --nonsense"),
        (["--json", "--csv"], "not allowed with"),
        (["stauts"], "did you mean `status`?"),
        (["help", "fre"], "did you mean `free`?"),
        (["free", "-n", "many"], "invalid int value"),
    ],
)
def test_invalid_arguments_are_refused_in_one_line(arguments: list[str], message: str) -> None:
    assert_error_line(run_fleet_smi(*arguments, env=os.environ), 2, message)


@pytest.mark.parametrize("arguments", [("help", "free"), ("free", "--help")])
def test_help_command_and_help_flag_are_the_same(arguments: tuple[str, ...]) -> None:
    done = run_fleet_smi(*arguments, env=os.environ)
    assert done.returncode == 0
    assert "--min-free" in done.stdout


def test_the_help_lists_commands_and_exit_codes() -> None:
    done = run_fleet_smi("--help", env=os.environ)
    assert done.returncode == 0
    for word in ("free", "who", "doctor", "demo", "completion", "exit codes", "examples"):
        assert word in done.stdout
