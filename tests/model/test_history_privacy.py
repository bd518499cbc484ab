"""Command lines in history are masked like live ones: in full, by script, by name or not at all."""

import msgspec
import pytest
from msgspec.structs import replace

from fleet_smi.model.command_visibility import CommandVisibility
from fleet_smi.model.history import (
    GpuOccupancies,
    GpuOfNode,
    GpuPeriods,
    Holder,
    Job,
    JobPart,
    Occupancy,
    Period,
    Sums,
)
from fleet_smi.model.history_privacy import (
    mask_job_commands,
    mask_occupancy_commands,
    mask_period_commands,
)

HOLDER = Holder(pid=1, user="bob", name="python", command="python /data/alpha/train.py --key beta")
GPU = GpuOfNode(uuid="GPU-1", node_id="one", node="gpu01", index=0)
OCCUPANCY = Occupancy(holder=HOLDER, start=1.0, end=None)
PERIOD = Period(start=1.0, end=None, state="busy", reason="bob", holders=(HOLDER,))
EMPTY = Period(start=0.0, end=1.0, state="free", reason="nobody")
JOB = Job(
    id="1-a", user="bob", command=HOLDER.command, start=1.0, end=None, gpus=1, sums=Sums(),
    parts=(JobPart(gpu=GPU, occupancy=OCCUPANCY),),
)  # fmt: skip


@pytest.mark.parametrize("commands", ["full", "script", "name", "hidden"])
def test_command_lines_are_masked_by_visibility(commands: CommandVisibility) -> None:
    for shown in (
        mask_period_commands([GpuPeriods(gpu=GPU, periods=(EMPTY, PERIOD))], commands),
        mask_occupancy_commands([GpuOccupancies(gpu=GPU, occupancies=(OCCUPANCY,))], commands),
        mask_job_commands(JOB, commands),
    ):
        text = msgspec.json.encode(shown).decode()
        assert ("alpha" in text) == ("beta" in text) == (commands == "full")
        assert ("train.py" in text) == (commands in ("full", "script"))
        assert ('"python"' in text) == (commands != "hidden")
        assert "bob" in text


def test_a_masked_job_is_named_by_its_script_or_its_program() -> None:
    assert mask_job_commands(JOB, "full").command == "python /data/alpha/train.py --key beta"
    assert mask_job_commands(JOB, "script").command == "python train.py"
    assert mask_job_commands(replace(JOB, command="./a.out x"), "script").command == "python"
    assert mask_job_commands(JOB, "name").command == "python"
    assert mask_job_commands(JOB, "hidden").command is None
