"""Run `fleet-smi` as a subprocess, as a user does, and check its output and exit code."""

import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from tests.machines import MISSING_FOLDER

PYTHON = os.environ.get("FLEET_SMI_TEST_PYTHON", sys.executable)
"""The interpreter that runs the command: another one shows how the light part does there."""

NO_HUB_HERE = {"FLEET_SMI_HUB_STATE": MISSING_FOLDER}
"""Keeps a command that root runs from the hub that may run on this machine."""


def run_fleet_smi(
    *arguments: str,
    env: Mapping[str, str],
    timeout_seconds: float = 90.0,
    command_prefix: Sequence[str] = (),
) -> subprocess.CompletedProcess[str]:
    """Run the command to its end; `command_prefix` runs it elsewhere, as in a namespace."""
    has_settings = "FLEET_SMI_CONFIG" in env or "--config" in arguments
    return subprocess.run(
        [*command_prefix, PYTHON, "-m", "fleet_smi", *arguments],
        env=dict(env) if has_settings else {**NO_HUB_HERE, **env},
        capture_output=True,
        text=True,
        timeout=timeout_seconds,
        check=False,
    )


class StartedPrograms:
    """Programs that run beside a test, with pipes to all their streams; killed at its end."""

    def __init__(self) -> None:
        self._started: list[subprocess.Popen[str]] = []

    def start(self, *arguments: str, env: Mapping[str, str]) -> subprocess.Popen[str]:
        """Start Python with these arguments, as `-m fleet_smi run`."""
        process = subprocess.Popen(
            [PYTHON, *arguments],
            env=dict(env),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        self._started.append(process)
        return process

    def close(self) -> None:
        """Kill those that still run."""
        for process in self._started:
            process.kill()
            process.communicate()


def first_line(process: subprocess.Popen[str]) -> str:
    """Wait for the next line that a started program prints."""
    assert process.stdout is not None
    return process.stdout.readline().strip()


def run_json(*arguments: str, env: Mapping[str, str]) -> dict[str, Any]:
    """Run the command with `--json` and decode its output."""
    done = run_fleet_smi(*arguments, "--json", env=env)
    assert done.returncode == 0, done.stderr
    document: dict[str, Any] = msgspec.json.decode(done.stdout)
    return document


def run_gpus(*arguments: str, env: Mapping[str, str]) -> list[dict[str, Any]]:
    """Return the GPUs of the only node, from the JSON output."""
    (node,) = run_json(*arguments, env=env)["nodes"]
    gpus: list[dict[str, Any]] = node["gpus"]
    return gpus


def assert_error_line(done: subprocess.CompletedProcess[str], code: int, text: str) -> None:
    """Check that the command failed with one line on stderr and nothing on stdout."""
    assert done.returncode == code, done
    assert done.stdout == ""
    assert done.stderr.count("\n") == 1
    assert done.stderr.startswith("fleet-smi: ")
    assert text in done.stderr
