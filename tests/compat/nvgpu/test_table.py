"""The table of `nvgpu list`."""

import msgspec
import pytest

from fleet_smi.compat.nvgpu.codec import DeviceStatus, MachineStatus
from fleet_smi.compat.nvgpu.table import render, status_mark
from tests.compat.seed_samples import seed_sample

IDLE = DeviceStatus(
    type="NVIDIA A100",
    is_available=True,
    pids="",
    users="",
    running_since=None,
    utilization=0,
    clock_mhz=210,
    temperature=34,
    cmd=None,
)


def row(**fields: object) -> DeviceStatus:
    return msgspec.structs.replace(IDLE, **fields)


@pytest.mark.parametrize("colour, name", [(False, "plain"), (True, "ansi")])
def test_it_is_the_table_of_nvgpu_to_the_letter(colour: bool, name: str) -> None:
    body = seed_sample("nvgpu/agent-gpu_status.json")
    rows = msgspec.json.decode(body, type=MachineStatus).gpus
    assert isinstance(rows, tuple)
    shown = render(rows, colour=colour, memory_used_bytes=None)
    assert shown.encode() == seed_sample(f"nvgpu/nvgpu-0.9.0-list.{name}.txt")


def test_each_column_is_as_wide_as_it_must_be() -> None:
    busy = row(is_available=False, users="alice", pids="7", utilization=97, cmd="train.py")
    assert render([IDLE, busy], colour=False, memory_used_bytes=[None, 14_240_000_000]) == (
        "    status    type         util.    mem. used      temp.    MHz  users    since      pids"
        "  cmd\n"
        "--  --------  -----------  -------  -----------  -------  -----  -------  -------  ------"
        "  --------\n"
        " 0  [ ]       NVIDIA A100  0 %                        34    210\n"
        " 1  [~]       NVIDIA A100  97 %     14.24GB           34    210  alice                  7"
        "  train.py\n"
    )


@pytest.mark.parametrize(
    "fields, shown",
    [
        ({}, "[ ]"),
        ({"is_available": False, "users": "alice", "pids": "7"}, "[~]"),
        ({"is_available": False, "users": "?", "pids": "7"}, "[!]"),
        ({"is_available": False, "users": "?,?", "pids": "7,8"}, "[!]"),
        ({"is_available": False, "users": "?,bob", "pids": "7,8"}, "[~]"),
        ({"is_available": False}, "[?]"),
    ],
)
def test_a_gpu_whose_every_process_has_no_known_owner_is_stuck(
    fields: dict[str, object], shown: str
) -> None:
    assert status_mark(row(**fields)) == shown


def test_what_is_not_known_is_blank_or_not_available() -> None:
    blind = row(type=None, utilization=None, temperature=None, clock_mhz=None)
    line = render([blind], colour=False, memory_used_bytes=None).splitlines()[-1]
    assert line.split() == ["0", "[", "]", "N/A"]


def test_no_name_reaches_the_terminal_as_a_command() -> None:
    assert "\x1b" not in render(
        [row(type="\x1b[2J", users="\x07")], colour=False, memory_used_bytes=None
    )


def test_a_machine_without_gpus_has_a_head_and_no_rows() -> None:
    assert render([], colour=True, memory_used_bytes=None).count("\n") == 2


def test_memory_is_rounded_as_in_nvgpu() -> None:
    shown = render([IDLE, IDLE], colour=False, memory_used_bytes=[503_316_480, 0])
    assert [line.split()[7] for line in shown.splitlines()[2:]] == ["0.5GB", "0.0GB"]
