"""Fixtures for tests that need an NVIDIA driver: the simulated one, built once per session."""

from __future__ import annotations

import fcntl
import os
from collections.abc import Callable
from pathlib import Path

import pytest

from sim.build import build
from sim.scenario import Scenario, scenario_env

Simulated = Callable[[Scenario], dict[str, str]]


@pytest.fixture(scope="session")
def sim_lib(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder with `libnvidia-ml.so.1` and `nvidia-smi`, compiled once for all workers."""
    base = tmp_path_factory.getbasetemp()
    folder = (base.parent if "PYTEST_XDIST_WORKER" in os.environ else base) / "driver"
    folder.mkdir(exist_ok=True)
    # The folder is shared by all xdist workers: the first one compiles, the others wait.
    with (folder / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        build(folder)
    return folder


@pytest.fixture
def simulated(sim_lib: Path, tmp_path: Path) -> Simulated:
    """Write a scenario and return the environment for programs; call it again to change it."""
    path = tmp_path / "scenario"

    def play(scenario: Scenario) -> dict[str, str]:
        scenario.write(path)
        return os.environ | scenario_env(sim_lib, path)

    return play
