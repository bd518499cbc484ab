"""The command as a user runs it: a program, its output and its exit code."""

import subprocess
import sys
from collections.abc import Mapping, Sequence
from typing import Any

import msgspec


def fleet_smi(
    *arguments: str, env: Mapping[str, str], seconds: float = 30.0, within: Sequence[str] = ()
) -> subprocess.CompletedProcess[str]:
    """Run the command to its end; `within` stands before it where it runs on another host."""
    return subprocess.run(
        [*within, sys.executable, "-m", "fleet_smi", *arguments],
        env=dict(env),
        capture_output=True,
        text=True,
        timeout=seconds,
        check=False,
    )


def fleet_json(*arguments: str, env: Mapping[str, str]) -> dict[str, Any]:
    """Run it with `--json` and read what it says."""
    done = fleet_smi(*arguments, "--json", env=env)
    assert done.returncode == 0, done.stderr
    answer: dict[str, Any] = msgspec.json.decode(done.stdout)
    return answer


def gpus(*arguments: str, env: Mapping[str, str]) -> list[dict[str, Any]]:
    """The GPUs of the one node there is."""
    (node,) = fleet_json(*arguments, env=env)["nodes"]
    found: list[dict[str, Any]] = node["gpus"]
    return found


def assert_one_line(done: subprocess.CompletedProcess[str], code: int, words: str) -> None:
    """The command failed with that code and said why in one line, and nothing on stdout."""
    assert done.returncode == code, done
    assert done.stdout == ""
    assert done.stderr.count("\n") == 1
    assert done.stderr.startswith("fleet-smi: ")
    assert words in done.stderr
