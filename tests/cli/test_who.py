"""`fleet-smi who` on one machine."""

import msgspec
import pytest

from sim.scenario import GIB, Scenario, SimGpu, SimProcess
from tests.cli.program import run_fleet_smi
from tests.machines import UserProcesses, require_root
from tests.sim.fixtures import Simulated


@pytest.fixture
def env(people: UserProcesses, simulated: Simulated) -> dict[str, str]:
    """User nobody has two GPUs, games one; one is free."""
    require_root()
    owners = ("nobody", "nobody", "games")
    taken = [
        SimGpu(
            memory_used=11 * GIB,
            util_gpu=80,
            processes=[SimProcess(pid=people.start(user=owner), memory=10 * GIB)],
        )
        for owner in owners
    ]
    return simulated(Scenario(gpus=[*taken, SimGpu()]))


def test_users_are_listed_by_number_of_gpus(env: dict[str, str]) -> None:
    rows = [line.split() for line in run_fleet_smi("who", env=env).stdout.splitlines()]
    assert rows[0][0] == "WHO"
    assert [(row[0], row[1]) for row in rows[1:]] == [("nobody", "2"), ("games", "1")]


def test_one_user_is_shown_with_every_process(env: dict[str, str]) -> None:
    text = run_fleet_smi("who", "nobody", env=env).stdout
    assert text.count("sleep 600") == 2
    assert "games" not in text


def test_json_lists_the_users(env: dict[str, str]) -> None:
    done = run_fleet_smi("who", "--json", env=env)
    people = msgspec.json.decode(done.stdout)
    assert [person["user"] for person in people["people"]] == ["nobody", "games"]


def test_people_on_a_gpu_that_needs_a_reset_stay_listed(
    people: UserProcesses, simulated: Simulated
) -> None:
    require_root()
    process = SimProcess(pid=people.start(user="games"), memory=10 * GIB)
    sick = SimGpu(memory_used=11 * GIB, util_gpu=80, processes=[process], recovery="gpu-reset")
    env = simulated(Scenario(gpus=[sick, SimGpu()]))
    who = run_fleet_smi("who", env=env).stdout.splitlines()
    assert who[1].split()[:2] == ["games", "1"]
    assert "broken" in run_fleet_smi("who", "games", env=env).stdout
    assert "games" in run_fleet_smi(env=env).stdout
    line = run_fleet_smi("like", "gpustat", env=env).stdout.splitlines()[1]
    assert line.endswith("11264 / 81559 MB | games(10240M)")


def test_unused_gpus_are_a_message(simulated: Simulated) -> None:
    done = run_fleet_smi("who", env=simulated(Scenario(gpus=[SimGpu()])))
    assert done.returncode == 0
    assert done.stdout.strip()
