"""The Python builder, the scenario file and its description agree."""

from __future__ import annotations

import re
import subprocess
from dataclasses import fields
from pathlib import Path

import sim
from sim.scenario import Scenario, SimGpu
from tests.sim.fixtures import Simulated

HERE = Path(sim.__file__).parent


def documented_keys() -> set[str]:
    rows = [line.split(" | ")[0] for line in (HERE / "README.md").read_text().splitlines()]
    return {name for row in rows if row.startswith("| `") for name in re.findall(r"`([\w]+)`", row)}


def test_a_gpu_without_keys_is_the_builders_default(simulated: Simulated) -> None:
    env = simulated(Scenario(gpus=[SimGpu()]))
    command = ["nvidia-smi", "-q", "-x"]
    built = subprocess.run(command, env=env, capture_output=True, text=True, check=True).stdout
    Path(env["FLEET_SMI_SIM"]).write_text("gpu\n")
    bare = subprocess.run(command, env=env, capture_output=True, text=True, check=True).stdout
    time = re.compile("<timestamp>.*</timestamp>")
    assert time.sub("", built) == time.sub("", bare)


def test_every_key_of_a_gpu_is_documented() -> None:
    names = {item.name for item in fields(SimGpu)} - {"processes", "instances", "faults"}
    assert names <= documented_keys()


def test_every_documented_key_is_one_of_the_builder() -> None:
    top = {"driver", "cuda", "init", "quirk", "fault", "instance", "process"}
    others = {"lost", "unknown", "timeout", "mismatch", "deprecated", "never", "uninitialized"}
    assert documented_keys() - top - others == {item.name for item in fields(SimGpu)} - {
        "processes",
        "instances",
        "faults",
    }


def test_a_hand_written_file_may_have_indentation_and_comments(simulated: Simulated) -> None:
    env = simulated(Scenario())
    Path(env["FLEET_SMI_SIM"]).write_text(
        "# a small machine\ndriver 550.54.14\n\ngpu\n\tmemory_total 1.5GiB\n  # none\n  pstate P8\n"
    )
    command = ["nvidia-smi", "--query-gpu=memory.total,pstate", "--format=csv,noheader"]
    shown = subprocess.run(command, env=env, capture_output=True, text=True, check=True)
    assert shown.stdout == "1536 MiB, P8\n"
