"""`fleet-smi status`: filters, order, invalid arguments, help."""

import os
from pathlib import Path

import pytest

from sim.scenario import GIB, Scenario, SimGpu, SimProcess
from tests.cli.program import assert_error_line, run_fleet_smi, run_gpus, run_json
from tests.cli.status_tables import states, taken
from tests.machines import UserProcesses, require_root
from tests.sim.fixtures import Simulated


def test_the_table_has_one_row_per_gpu_in_index_order(env: dict[str, str]) -> None:
    assert states(run_fleet_smi(env=env)) == ["free", "busy", "broken"]


def test_sort_attention_puts_problems_first(env: dict[str, str]) -> None:
    done = run_fleet_smi("--sort", "attention", env=env)
    assert states(done) == ["broken", "free", "busy"]


def test_state_filters_and_counts_the_rest(env: dict[str, str]) -> None:
    done = run_fleet_smi("--state", "free,BUSY", env=env)
    assert states(done) == ["free", "busy"]
    assert "1 of 3 GPUs do not match" in done.stdout


def test_filter_filters_and_counts_the_rest(env: dict[str, str]) -> None:
    done = run_fleet_smi("--filter", "-broken load>50", env=env)
    assert states(done) == ["busy"]
    assert "2 of 3 GPUs do not match" in done.stdout


def test_an_invalid_filter_is_refused_with_a_suggestion(env: dict[str, str]) -> None:
    done = run_fleet_smi("--filter", "modle:H100", env=env)
    assert_error_line(done, 2, "did you mean 'model'?")


def test_user_shows_only_the_gpus_of_that_user(people: UserProcesses, simulated: Simulated) -> None:
    require_root()
    of_nobody, of_games = (people.start(user=user) for user in ("nobody", "games"))
    both = taken(of_nobody, 5, 50)
    both.processes.append(SimProcess(pid=of_games, memory=2 * GIB))
    env = simulated(Scenario(gpus=[SimGpu(), taken(of_games, 5, 50), both]))
    gpus = run_gpus("-u", "nobody", env=env)
    assert [gpu["index"] for gpu in gpus] == [2]
    assert [process["user"] for process in gpus[0]["processes"]] == ["nobody"]


def test_node_shows_only_matching_nodes(env: dict[str, str]) -> None:
    named = env | {"FLEET_SMI_NODE_NAME": "gpu07"}
    assert len(run_json("-n", "gpu0[0-9]", env=named)["nodes"]) == 1
    assert run_json("-n", "^other$", env=named)["nodes"] == []


def test_processes_are_listed_below_their_gpu(env: dict[str, str]) -> None:
    assert "sleep 600" in run_fleet_smi("-p", env=env).stdout


def test_why_shows_the_reason(env: dict[str, str]) -> None:
    assert "nobody on it" in run_fleet_smi("-v", env=env).stdout


def test_the_overview_has_one_row_per_node(env: dict[str, str]) -> None:
    done = run_fleet_smi("-o", env=env | {"FLEET_SMI_NODE_NAME": "gpu07"})
    assert sum(line.startswith("gpu07") for line in done.stdout.splitlines()) == 1


def test_a_machine_without_gpus_suggests_doctor_and_demo(tmp_path: Path) -> None:
    env = dict(os.environ) | {"PATH": "/nonexistent", "LD_LIBRARY_PATH": str(tmp_path)}
    done = run_fleet_smi(env=env | {"FLEET_SMI_NODE_ROOT": str(tmp_path)})
    assert done.returncode == 0
    assert "no GPU" in done.stdout
    assert "fleet-smi doctor" in done.stdout
    assert "fleet-smi demo" in done.stdout


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["-n", "["], "is not a regular expression"),
        (["--state", "idle"], "the states are free, leased"),
        (["--sort", "colour"], "invalid choice: 'colour'"),
        (["-i", "0"], "must be 0.1 to 86400 seconds"),
        (["--nonsense"], "unrecognized arguments: --nonsense"),
        (["--json", "--csv"], "not allowed with"),
        (["stauts"], "did you mean `status`?"),
        (["help", "fre"], "did you mean `free`?"),
        (["free", "-n", "many"], "invalid int value"),
    ],
)
def test_invalid_arguments_are_refused_in_one_line(arguments: list[str], message: str) -> None:
    assert_error_line(run_fleet_smi(*arguments, env=os.environ), 2, message)


@pytest.mark.parametrize("arguments", [("help", "free"), ("free", "--help")])
def test_help_command_and_help_flag_are_the_same(arguments: tuple[str, ...]) -> None:
    done = run_fleet_smi(*arguments, env=os.environ)
    assert done.returncode == 0
    assert "--min-free" in done.stdout


def test_the_help_lists_commands_and_exit_codes() -> None:
    done = run_fleet_smi("--help", env=os.environ)
    assert done.returncode == 0
    for word in ("free", "who", "doctor", "demo", "completion", "exit codes", "examples"):
        assert word in done.stdout
