"""The list of `nvidia-smi -L`, and any text in place of it."""

import contextlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fleet_smi.errors import CollectError, NotPresent, ReadFailed
from fleet_smi.wire.parsers._nvidia_list import ListedGpu, ListedInstance, parse_list
from tests.captures import capture_files
from tests.wire.parsers.nvidia_check import CHECKS

UUID = "GPU-11111111-2222-3333-4444-555555555555"


def test_a_list_names_devices_and_their_mig_instances() -> None:
    text = (
        f"GPU 0: NVIDIA H100 (PCIe) (UUID: {UUID})\n"
        "  MIG 3g.40gb     Device  0: (UUID: MIG-1)\n"
        "  MIG 1c.3g.40gb  Device  1: (UUID: MIG-2)\n"
        "Unable to determine the device handle for gpu 0000:0B:00.0: GPU is lost.\n"
        "GPU 2: Tesla T4 (UUID: GPU-t)\n"
    )
    assert parse_list(text) == (
        ListedGpu(
            index=0,
            uuid=UUID,
            name="NVIDIA H100 (PCIe)",
            instances=(
                ListedInstance(index=0, uuid="MIG-1", profile="3g.40gb"),
                ListedInstance(index=1, uuid="MIG-2", profile="1c.3g.40gb"),
            ),
        ),
        ListedGpu(index=2, uuid="GPU-t", name="Tesla T4"),
    )


@pytest.mark.parametrize("text, kind", [("", ReadFailed), ("No devices were found", NotPresent)])
def test_text_that_is_no_list_is_refused(text: str, kind: type[CollectError]) -> None:
    with pytest.raises(kind):
        parse_list(text)


@given(st.text())
def test_any_text_is_parsed_or_refused(text: str) -> None:
    with contextlib.suppress(CollectError):
        parse_list(text)


@pytest.mark.parametrize("folder", ["nvidia/topology", "nvidia/capture"])
def test_captured_lists_agree_with_a_second_naive_parser(folder: str) -> None:
    tallies = [CHECKS[folder](path) for path in capture_files(folder)]
    assert [line for tally in tallies for line in tally.wrong] == []
