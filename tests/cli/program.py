"""The command as a user runs it: a program, its output and its exit code."""

import subprocess
import sys
from collections.abc import Mapping, Sequence
from typing import Any

import msgspec


def run_fleet_smi(
    *arguments: str,
    env: Mapping[str, str],
    timeout_seconds: float = 30.0,
    command_prefix: Sequence[str] = (),
) -> subprocess.CompletedProcess[str]:
    """Run the command to its end; `within` stands before it where it runs on another host."""
    return subprocess.run(
        [*command_prefix, sys.executable, "-m", "fleet_smi", *arguments],
        env=dict(env),
        capture_output=True,
        text=True,
        timeout=timeout_seconds,
        check=False,
    )


def run_json(*arguments: str, env: Mapping[str, str]) -> dict[str, Any]:
    """Run it with `--json` and read what it says."""
    done = run_fleet_smi(*arguments, "--json", env=env)
    assert done.returncode == 0, done.stderr
    answer: dict[str, Any] = msgspec.json.decode(done.stdout)
    return answer


def run_gpus(*arguments: str, env: Mapping[str, str]) -> list[dict[str, Any]]:
    """The GPUs of the one node there is."""
    (node,) = run_json(*arguments, env=env)["nodes"]
    found: list[dict[str, Any]] = node["gpus"]
    return found


def assert_error_line(done: subprocess.CompletedProcess[str], code: int, text: str) -> None:
    """The command failed with that code and said why in one line, and nothing on stdout."""
    assert done.returncode == code, done
    assert done.stdout == ""
    assert done.stderr.count("\n") == 1
    assert done.stderr.startswith("fleet-smi: ")
    assert text in done.stderr
