"""`fleet-smi status` on terminals and pipes: width, colour, encoding, closed and full outputs."""

import os
import pty
import subprocess
import sys
from pathlib import Path

import pytest

from tests.cli.program import run_fleet_smi
from tests.cli.status_tables import states


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
