"""Fixtures for every test: the simulated driver, machines read through it, people's processes."""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import settings

from fleet_smi.config import SETTINGS
from tests.machines import SimulatedMachine, UserProcesses
from tests.sim.fixtures import sim_lib, simulated
from tests.sshd import ssh_network

# The shared suite is no test module by its name, and still wants readable assertions.
pytest.register_assert_rewrite("tests.delivery.suite")

__all__ = ["machine", "people", "sim_lib", "simulated", "ssh_network"]


# How long an example takes is the machine's business, not the test's.
settings.register_profile("fleet-smi", deadline=None)
settings.load_profile("fleet-smi")


def pytest_configure() -> None:
    # A developer's own settings must not decide what a test sees.
    for name in (*(setting.environment_variable for setting in SETTINGS), "FLEET_SMI_CONFIG"):
        os.environ.pop(name, None)
    os.environ["XDG_CONFIG_HOME"] = "/nonexistent"
    for name in ("COLUMNS", "NO_COLOR", "CUDA_DEVICE_ORDER"):
        os.environ.pop(name, None)


@pytest.fixture
def people() -> Iterator[UserProcesses]:
    """Starts real processes of real users; all of them end with the test."""
    with UserProcesses() as started:
        yield started


@pytest.fixture
def machine(
    sim_lib: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[SimulatedMachine]:
    """A machine with the simulated driver, read through the real binding by a real reader."""
    played = SimulatedMachine(sim_lib, tmp_path)
    for name, value in played.environment.items():
        monkeypatch.setenv(name, value)
    yield played
    played.close()
