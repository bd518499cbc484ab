"""Fixtures for the tests of commands."""

import pytest

from sim.scenario import Scenario, SimGpu
from tests.cli.status_tables import taken
from tests.machines import UserProcesses
from tests.sim.fixtures import Simulated


@pytest.fixture
def env(people: UserProcesses, simulated: Simulated) -> dict[str, str]:
    """The environment of a machine with one free GPU, one busy and one lost."""
    machine = [SimGpu(), taken(people.start(), 10, 90), SimGpu(faults={"*": "lost"})]
    return simulated(Scenario(gpus=machine))
