"""`fleet-smi top` in a real terminal: start, keys, size, end; and why it does not start."""

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from sim.scenario import Scenario
from tests.cli.program import assert_error_line, run_fleet_smi
from tests.cli.status_tables import taken
from tests.cli.tmux import Tmux
from tests.machines import UserProcesses, require_program, wait_until
from tests.sim.fixtures import Simulated

TOP = [sys.executable, "-m", "fleet_smi", "top"]


@pytest.fixture
def terminals(tmp_path: Path) -> Iterator[list[Tmux]]:
    require_program("tmux")
    started: list[Tmux] = []
    yield started
    for each in started:
        each.close()


def test_this_machine_is_shown_follows_the_window_and_restores_the_terminal(
    env: dict[str, str], tmp_path: Path, terminals: list[Tmux]
) -> None:
    # What a shell has exported is not the size of this window.
    terminal = Tmux(tmp_path, [*TOP, "--here"], env | {"LINES": "24", "COLUMNS": "80"}, (100, 30))
    terminals.append(terminal)
    screen = terminal.wait_for("processes ─")
    assert "this machine" in screen
    assert " 1  busy     90%" in screen
    wait_until(lambda: "q quit" in terminal.screen.splitlines()[29])
    terminal.resize(60, 20)
    wait_until(lambda: "q quit" in terminal.screen.splitlines()[19])
    terminal.press("?")
    terminal.wait_for("Move")
    terminal.press("q")
    # The shell's own screen is back, without the program's, and typing is echoed.
    screen = terminal.wait_for("code=0")
    assert "fleet-smi" not in screen
    terminal.wait_for("mode=line")


def test_a_process_is_ended_after_a_question(
    simulated: Simulated, people: UserProcesses, tmp_path: Path, terminals: list[Tmux]
) -> None:
    pid = people.start()
    env = simulated(Scenario(gpus=[taken(pid, 10, 90)]))
    terminal = Tmux(tmp_path, [*TOP, "--here"], env, (100, 30))
    terminals.append(terminal)
    terminal.wait_for(str(pid))
    terminal.press("Tab", "t")
    terminal.wait_for(f"Terminate {pid}")
    terminal.press("y")
    terminal.wait_for(f"process {pid} was asked to end")
    wait_until(lambda: Path(f"/proc/{pid}/stat").read_text().split()[2] in "ZX")


@pytest.mark.parametrize(("number", "code"), [("TERM", 143), ("HUP", 129), ("INT", 130)])
def test_a_signal_ends_it_and_restores_the_terminal(
    env: dict[str, str], tmp_path: Path, terminals: list[Tmux], number: str, code: int
) -> None:
    # The program writes its own pid, and the shell sends the signal.
    command = ["sh", "-c", f'echo $$ > {tmp_path}/pid; exec "$@"', "sh", *TOP, "--here"]
    terminal = Tmux(tmp_path, command, env, (80, 24))
    terminals.append(terminal)
    terminal.wait_for("processes ─")
    pid = (tmp_path / "pid").read_text().strip()
    subprocess.run(["kill", "-s", number, pid], check=True)
    terminal.wait_for(f"code={code}")
    terminal.wait_for("mode=line")


def test_ctrl_z_suspends_it_and_fg_draws_all_of_it_again(
    env: dict[str, str], tmp_path: Path, terminals: list[Tmux]
) -> None:
    prompt = {"PROMPT_COMMAND": "PS1='ready> '"}
    shell = Tmux(tmp_path, ["bash", "--norc", "-i"], env | prompt, (80, 24))
    terminals.append(shell)
    shell.wait_for("ready>")
    shell.press(f"{' '.join(TOP)} --here", "Enter")
    # The heading of the table never changes by itself.
    before = shell.wait_for("processes ─").splitlines()[2]
    shell.press("C-z")
    shell.wait_for("Stopped")
    shell.press("fg", "Enter")
    shell.wait_for("q quit")
    wait_until(lambda: shell.screen.splitlines()[2] == before)


def test_a_machine_without_a_gpu_says_so(
    simulated: Simulated, tmp_path: Path, terminals: list[Tmux]
) -> None:
    terminal = Tmux(tmp_path, [*TOP, "--here"], simulated(Scenario(gpus=[])), (80, 24))
    terminals.append(terminal)
    terminal.wait_for("has no GPU that fleet-smi can see")
    terminal.press("q")
    terminal.wait_for("code=0")


def test_without_utf8_the_screen_is_ascii(
    env: dict[str, str], tmp_path: Path, terminals: list[Tmux]
) -> None:
    terminal = Tmux(tmp_path, ["env", "LC_ALL=C", *TOP, "--here"], env, (100, 30))
    terminals.append(terminal)
    screen = terminal.wait_for("-- processes --")
    assert screen.isascii()
    assert "##" in screen


def test_the_theme_that_was_chosen_is_remembered(
    env: dict[str, str], tmp_path: Path, terminals: list[Tmux]
) -> None:
    own = env | {"XDG_STATE_HOME": str(tmp_path / "state"), "COLORTERM": "truecolor"}
    for number, said in enumerate(("theme: light", "theme: terminal")):
        folder = tmp_path / str(number)
        folder.mkdir()
        terminal = Tmux(folder, [*TOP, "--here"], own, (100, 30))
        terminals.append(terminal)
        terminal.wait_for("q quit")
        terminal.press("c")
        terminal.wait_for(said)
        terminal.press("q")
        terminal.wait_for("code=0")


def test_it_needs_a_terminal() -> None:
    assert_error_line(run_fleet_smi("top", env={}), 2, "top needs a terminal")


def test_a_missing_extra_gives_the_line_to_install_it(
    env: dict[str, str], tmp_path: Path, terminals: list[Tmux]
) -> None:
    (tmp_path / "textual").mkdir()
    (tmp_path / "textual/__init__.py").write_text(
        "raise ModuleNotFoundError(\"No module named 'textual'\", name='textual')"
    )
    terminal = Tmux(tmp_path, TOP, env | {"PYTHONPATH": str(tmp_path)}, (200, 24))
    terminals.append(terminal)
    assert "-m pip install 'fleet-smi[top]'" in terminal.wait_for("code=2")


def test_a_bad_filter_is_refused_at_the_start(
    env: dict[str, str], tmp_path: Path, terminals: list[Tmux]
) -> None:
    terminal = Tmux(tmp_path, [*TOP, "--filter", "nodes:a"], env, (120, 24))
    terminals.append(terminal)
    assert "there is no key 'nodes'" in terminal.wait_for("code=2")
