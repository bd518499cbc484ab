"""`fleet-smi capture` and `--replay`: a machine in a file, without what is private."""

import os
import socket
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fleet_smi.errors import UsageError
from fleet_smi.model.fleet import FleetView
from fleet_smi.model.verdict.thresholds import DEFAULT_THRESHOLDS
from fleet_smi.replay import ReplayFleet
from sim.scenario import GIB, MIB, Scenario, SimGpu, SimInstance, SimProcess
from tests.cli.program import assert_error_line, run_fleet_smi, run_json
from tests.machines import UserProcesses, require_root
from tests.sim.fixtures import Simulated
from tests.wire.parsers.vendor_samples import amd_smi_outputs, install_program

SECRETS = {
    "serial": "1652021098765",
    "uuid": "8f6b2c1e-77aa-4d0e-9a1b-c0ffee123456",
    "address": "10.77.12.34",
    "mail": "carol@secretlab.example",
    "folder": "/projects/secretlab/paper",
}


def judged(document: dict[str, Any]) -> list[tuple[Any, ...]]:
    """What matters of each GPU and instance: state, notes, memory, who works on it."""
    parts = [
        part
        for node in document["nodes"]
        for gpu in node["gpus"]
        for part in (gpu, *gpu.get("instances", ()))
    ]
    # GPUs of several vendors with one index are in the order of their UUIDs.
    found = [
        (
            part["verdict"]["state"],
            [note["kind"] for note in part["verdict"]["notes"]],
            part["memory_used_bytes"],
            len({process["user"] for process in part["processes"] or ()}),
            [process["container"] is None for process in part["processes"] or ()],
        )
        for part in parts
    ]
    return sorted(found, key=repr)


@pytest.fixture
def machine(people: UserProcesses, simulated: Simulated, tmp_path: Path) -> dict[str, str]:
    """A machine with a GPU of each kind, whose processes say what they should not."""
    require_root()
    secrets = f"--out={SECRETS['folder']} {SECRETS['mail']} {SECRETS['address']}"
    programs = tmp_path / "programs"
    programs.mkdir()
    work = [
        SimProcess(
            pid=people.start("sh", "-c", f"sleep 600; : {secrets}", user=user), memory=20 * GIB
        )
        for user in ("games", "nobody")
    ]
    display = SimProcess(
        pid=people.start_named("Xorg", programs), kind="graphics", memory=200 * MIB
    )
    sliced = SimInstance(profile="1g.10gb", gi=7, memory_used=9 * GIB)
    return simulated(
        Scenario(
            gpus=[
                SimGpu(uuid=f"GPU-{SECRETS['uuid']}", serial=SECRETS["serial"]),
                SimGpu(memory_used=41 * GIB, util_gpu=95, processes=work),
                SimGpu(memory_used=300 * MIB, processes=[display]),
                SimGpu(memory_used=71 * GIB),
                SimGpu(faults={"*": "lost"}),
                SimGpu(mig=True, instances=[sliced]),
            ]
        )
    )


def test_a_replay_shows_what_the_machine_showed_and_nothing_private(
    machine: dict[str, str], tmp_path: Path
) -> None:
    file = tmp_path / "machine.json"
    here = run_json(env=machine)
    done = run_fleet_smi("capture", "-o", str(file), env=machine)
    assert done.returncode == 0, done.stderr
    # Who decides whether to send it sees what is in it.
    assert "nvidia-smi -q -x" in done.stdout
    assert "2 serial numbers," in done.stdout
    assert file.stat().st_mode & 0o777 == 0o600
    text = file.read_text()
    private = (*SECRETS.values(), "games", f'"{socket.gethostname()}"', str(tmp_path), "--out=")
    assert [secret for secret in private if secret.lower() in text.lower()] == []
    # On another machine: without the driver, the files or the people of the first.
    env = {"HOME": str(tmp_path), "PATH": os.environ["PATH"], "COLUMNS": "120"}
    replayed = run_json("--replay", str(file), env=env)
    assert judged(replayed) == judged(here)
    assert [node["via"] for node in replayed["nodes"]] == ["replay"]
    table = run_fleet_smi("--replay", str(file), "-p", env=env)
    assert "replay of" in table.stderr
    assert table.stdout.startswith("replay-host-1 ")
    assert "Xorg" in table.stdout
    assert (
        run_fleet_smi("free", "--replay", str(file), env=env).stdout
        == "replay-host-1:0,replay-host-1:2\n"
    )
    people = run_json("who", "--replay", str(file), env=env)["people"]
    assert len(people) == 2
    hostile_replays(msgspec.json.decode(text), tmp_path)


def hostile_replays(document: dict[str, Any], tmp_path: Path) -> None:
    """Whatever a file says, it is shown or refused in one line."""
    path = tmp_path / "hostile.json"
    leaves = list(places(document["samples"][0]["readings"]))
    values = st.none() | st.integers() | st.text() | st.lists(st.integers()) | st.floats()
    changes = st.lists(st.tuples(st.sampled_from(leaves), values), min_size=1, max_size=8)

    @given(changes)
    def replays(changed: list[tuple[tuple[Any, ...], Any]]) -> None:
        copy = msgspec.json.decode(msgspec.json.encode(document))
        for place, value in changed:
            set_at(copy["samples"][0]["readings"], place, value)
        path.write_bytes(msgspec.json.encode(copy))
        try:
            view = ReplayFleet(str(path), DEFAULT_THRESHOLDS).view()
        except UsageError as error:
            assert str(path) in str(error)
        else:
            assert isinstance(view, FleetView)
            msgspec.json.encode(view)

    replays()


def places(value: Any, above: tuple[Any, ...] = ()) -> Any:
    """Yield the path of every value in a document."""
    items = value.items() if isinstance(value, dict) else enumerate(value)
    for key, item in items:
        yield (*above, key)
        if isinstance(item, dict | list):
            yield from places(item, (*above, key))


def set_at(document: Any, place: tuple[Any, ...], value: Any) -> None:
    for key in place[:-1]:
        try:
            document = document[key]
        except (LookupError, TypeError):  # replaced before
            return
    if isinstance(document, dict) or (
        isinstance(document, list) and place[-1] in range(len(document))
    ):
        document[place[-1]] = value


@pytest.mark.parametrize(
    "scenario",
    [
        Scenario(init="no-driver"),
        Scenario(gpus=[SimGpu()], init="mismatch"),
        Scenario(gpus=[SimGpu(), SimGpu(faults={"PowerUsage": "never"})]),
    ],
    ids=["no driver", "mismatch", "hung"],
)
def test_a_machine_whose_driver_fails_can_be_captured(
    simulated: Simulated, tmp_path: Path, scenario: Scenario
) -> None:
    programs = tmp_path / "bin"
    programs.mkdir()
    install_program(programs, "amd-smi", amd_smi_outputs(os.getpid()))
    env = simulated(scenario)
    env["PATH"] = f"{programs}:{env['PATH']}"
    env |= {"FLEET_SMI_NODE_DRIVER_TIMEOUT": "1s", "FLEET_SMI_NODE_DRIVER_INIT_TIMEOUT": "2s"}
    file = str(tmp_path / "machine.json")
    here = run_json(env=env)
    assert run_fleet_smi("capture", "-o", file, "--samples", "1", env=env).returncode == 0
    replayed = run_json("--replay", file, env={"HOME": str(tmp_path), "PATH": "/usr/bin:/bin"})
    assert judged(replayed) == judged(here) != []
    outcomes = [
        [(run["name"], run["outcome"]) for run in each["nodes"][0]["runs"]]
        for each in (here, replayed)
    ]
    assert outcomes[0] == outcomes[1]


def test_what_is_no_capture_is_refused_in_one_line(tmp_path: Path) -> None:
    env = {"HOME": str(tmp_path), "PATH": os.environ["PATH"]}
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "text").write_text("GPU 0: H100\n")
    for name, reason in (
        ("missing", "No such file"),
        ("pipe", "is not a file"),
        ("", "Is a directory"),
        ("text", "is not a capture"),
    ):
        done = run_fleet_smi("--replay", str(tmp_path / name), env=env)
        assert_error_line(done, 2, reason)
    done = run_fleet_smi("nodes", "--replay", "x.json", "remove", "gpu07", env=env)
    assert_error_line(done, 2, "a captured machine cannot be changed")
    done = run_fleet_smi("capture", "--samples", "0", env=env)
    assert_error_line(done, 2, "must be 1 to 60")
