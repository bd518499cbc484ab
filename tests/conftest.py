"""Fixtures for all tests: the simulated driver, machines that use it, processes of users."""

import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

from fleet_smi.config import SETTINGS
from tests.machines import MISSING_FOLDER, SimulatedMachine, UserProcesses
from tests.sim.fixtures import sim_lib, simulated
from tests.sshd import ssh_network

# pytest rewrites assertions only in modules named test_*; the shared suite needs it too.
pytest.register_assert_rewrite("tests.delivery.suite")

__all__ = ["machine", "people", "sim_lib", "simulated", "ssh_network"]


# A busy machine makes single examples slow: limits of time would only make tests flaky.
settings.register_profile(
    "fleet-smi",
    deadline=None,
    max_examples=int(os.environ.get("FLEET_SMI_EXAMPLES", "50")),
    suppress_health_check=[HealthCheck.too_slow],
)
settings.load_profile("fleet-smi")


def pytest_configure() -> None:
    # A shell starts a background job with SIGINT ignored, and every program that a test starts
    # and interrupts would inherit that.
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    # The developer's own settings must not change what tests see.
    for name in (*(setting.environment_variable for setting in SETTINGS), "FLEET_SMI_CONFIG"):
        os.environ.pop(name, None)
    os.environ["XDG_CONFIG_HOME"] = MISSING_FOLDER
    # Nor a hub that runs on this machine: as root its queue, token and nodes would be found.
    os.environ["FLEET_SMI_HUB_STATE"] = MISSING_FOLDER
    # Agents of tests run side by side, and none must serve the users of this machine.
    os.environ["FLEET_SMI_AGENT_SOCKET"] = "off"
    for name in ("COLUMNS", "NO_COLOR", "CUDA_DEVICE_ORDER", "CUDA_VISIBLE_DEVICES"):
        os.environ.pop(name, None)
    # Where Debian has servers that users can run too, but their PATH does not lead.
    os.environ["PATH"] += os.pathsep + "/usr/local/sbin:/usr/sbin:/sbin"


@pytest.fixture
def people() -> Iterator[UserProcesses]:
    """Starts real processes, also of other users; they are killed after the test."""
    with UserProcesses() as started:
        yield started


@pytest.fixture
def machine(
    sim_lib: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[SimulatedMachine]:
    """A machine with the simulated driver, read through the real NVML binding and reader."""
    simulated_machine = SimulatedMachine(sim_lib, tmp_path)
    for name, value in simulated_machine.environment.items():
        monkeypatch.setenv(name, value)
    yield simulated_machine
    simulated_machine.close()
