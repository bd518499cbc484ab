"""The line that is pasted on a node: a valid command, with the token on standard input."""

import shlex
import subprocess
from pathlib import Path

import pytest

from fleet_smi.server.join_line import describe_limits, join_command


def test_the_join_command_is_valid_for_an_agent() -> None:
    line = join_command("https://gpuhub:7070", "fsmi_join_x", "sha256:ab")
    assert line == (
        "echo fsmi_join_x | "
        "fleet-smi agent --to https://gpuhub:7070 --join-file - --fingerprint sha256:ab"
    )
    assert join_command("http://gpuhub:7070", "fsmi_join_x").endswith("--join-file -")


@pytest.mark.parametrize(
    ("seconds", "uses", "text"),
    [
        (86400.0, 100, "valid for 24 hours and 100 machines"),
        (3600.0, 1, "valid for 1 hour and 1 machine"),
        (7 * 86400.0, 20, "valid for 7 d and 20 machines"),
    ],
)
def test_its_limits_are_said(seconds: float, uses: int, text: str) -> None:
    assert describe_limits(seconds, uses) == text


@pytest.mark.parametrize(
    "evil", ["http://x; touch pwned", "$(touch pwned)", "`touch pwned`", "'\n"]
)
def test_nothing_in_the_join_line_is_run_by_the_shell(tmp_path: Path, evil: str) -> None:
    line = join_command(evil, evil, evil)
    words = shlex.split(line)
    assert (words[1], words[6], words[10]) == (evil, evil, evil)
    script = f"fleet-smi() {{ printf '%s\\n' \"$3\"; }}; {line}".replace("fleet-smi", "fleet_smi")
    done = subprocess.run(
        ["sh", "-c", script], cwd=tmp_path, capture_output=True, text=True, check=True
    )
    assert done.stdout == f"{evil}\n"
    assert list(tmp_path.iterdir()) == []
