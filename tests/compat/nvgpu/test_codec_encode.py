"""The nvgpu codec: encoding as agents and masters do."""

from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from fleet_smi.compat.nvgpu.codec import (
    decode_gpu_status,
    encode_cluster_status,
    encode_gpu_status,
    machine_status,
)
from fleet_smi.fleet.fleet import FleetState
from fleet_smi.model.snapshot import Fault, Gpu, Process, Snapshot
from tests.builders import HOUR, MINUTE, NOON, gpu, instance, process, snapshot
from tests.compat.masters import read_cluster_status
from tests.compat.nvgpu.statuses import IDLE, node_views
from tests.compat.seed_samples import seed_sample


def written(*gpus: Gpu) -> list[dict[str, Any]]:
    encoded: list[dict[str, Any]] = msgspec.json.decode(encode_gpu_status(snapshot(*gpus)))["gpus"]
    return encoded


def test_what_is_written_of_a_captured_agent_equals_the_capture() -> None:
    body = seed_sample("nvgpu/agent-gpu_status.json")
    sent_text = msgspec.json.decode(body)
    for each in sent_text["gpus"]:
        if len(set(each["users"].split(","))) > 1:
            each["running_since"] = None  # of which of them is not known
    assert msgspec.json.decode(encode_gpu_status(decode_gpu_status(body, NOON))) == sent_text


def test_it_is_written_with_the_keys_of_0_9_in_their_order() -> None:
    (encoded,) = written(gpu(0, sm_clock_mhz=1980))
    assert list(encoded) == list(IDLE)
    assert encoded == IDLE | {
        "type": "NVIDIA H100 80GB HBM3",
        "clock_mhz": 1980,
        "temperature": 33,
    }


def test_users_pids_and_command_are_written_as_nvgpu_joins_them() -> None:
    train = process(510, "alice", command="python train.py --epochs 90")
    (encoded,) = written(gpu(0, processes=(process(9, None, hidden=True), train)))
    assert (encoded["pids"], encoded["users"], encoded["cmd"]) == ("9,510", "?,alice", "train.py")
    assert encoded["is_available"] is False


def test_a_gpu_with_only_a_display_has_no_compute_users() -> None:
    (encoded,) = written(gpu(0, processes=(process(9, kind="graphics"),)))
    assert (encoded["is_available"], encoded["pids"]) == (True, "")


def test_a_gpu_that_is_lost_or_not_readable_is_not_available_and_stops_no_other() -> None:
    lost = gpu(0, fault=Fault(kind="lost", detail="GPU is lost"), busy_percent=None)
    encoded = written(lost, gpu(1, processes=None), gpu(2))
    assert [each["is_available"] for each in encoded] == [False, False, True]
    assert (encoded[0]["utilization"], encoded[0]["type"]) == (None, f"{lost.name} (lost)")
    # And where such an agent is polled, it is lost there too.
    read_back = decode_gpu_status(encode_gpu_status(snapshot(lost, gpu(1))), NOON).gpus
    assert [each.fault and each.fault.kind for each in read_back] == ["lost", None]
    assert read_back[0].name == lost.name


@pytest.mark.parametrize(
    "fields",
    [
        {"memory_used_bytes": None},
        {"memory_used_bytes": 20 << 30},
        {"compute_mode": "prohibited"},
        {"ecc_uncorrected": 3},
    ],
    ids=["memory unknown", "a ghost's memory", "closed", "broken"],
)
def test_a_gpu_without_visible_processes_is_available_only_if_free(fields: dict[str, Any]) -> None:
    card = gpu(0, **fields)
    assert written(card)[0]["is_available"] is False
    (node,) = node_views(snapshot(card))
    status = machine_status(node)
    assert isinstance(status.gpus, tuple)
    assert status.gpus[0].is_available is False


def test_the_processes_of_instances_are_the_gpus() -> None:
    divided = gpu(0, mig_mode=True, instances=(instance(1, processes=(process(7),)),))
    (encoded,) = written(divided)
    assert (encoded["pids"], encoded["is_available"]) == ("7", False)


@pytest.mark.parametrize(
    "seconds, message",
    [
        (-5.0, "just now"),
        (9.0, "just now"),
        (30.0, "30 seconds ago"),
        (MINUTE, "a minute ago"),
        (10 * MINUTE, "10 minutes ago"),
        (HOUR, "an hour ago"),
        (14 * HOUR, "14 hours ago"),
        (24 * HOUR, "a day ago"),
        (48 * HOUR, "2 days ago"),
        (7 * 24 * HOUR, "a week ago"),
        (14 * 24 * HOUR, "2 weeks ago"),
        (31 * 24 * HOUR, "a month ago"),
        (100 * 24 * HOUR, "3 months ago"),
        (365 * 24 * HOUR, "a year ago"),
        (800 * 24 * HOUR, "2 years ago"),
    ],
)
def test_since_is_the_age_of_the_oldest_process(seconds: float, message: str) -> None:
    young, old = process(1, started_at=NOON), process(2, started_at=NOON - seconds)
    (encoded,) = written(gpu(0, processes=(young, old)))
    assert encoded["running_since"] == ("just now" if seconds < 0 else message)


def test_since_is_counted_by_the_nodes_own_clock_however_wrong() -> None:
    begun = process(1, started_at=NOON - HOUR)
    fleet = FleetState()
    fleet.apply(snapshot(gpu(0, processes=(begun,)), interval_seconds=600.0), NOON + 9 * HOUR)
    (node,) = fleet.view(NOON + 9 * HOUR + 120.0).nodes
    status = machine_status(node)
    assert isinstance(status.gpus, tuple)
    assert status.gpus[0].running_since == "an hour ago"


@pytest.mark.parametrize(
    "command, shown",
    [
        ("/opt/bin/python -m ipykernel_launcher -f /tmp/kernel-1.json", "jupyter"),
        ("python -u train.py eval.py", "train.py"),
        ("./a.out --steps 10", "./a.out --steps 10"),
        ("./simulate --steps 1000000 --dt 1e-6", "./simulate --steps 100000..."),
    ],
)
def test_a_command_line_is_shortened_as_nvgpu_does(command: str, shown: str) -> None:
    (encoded,) = written(gpu(0, processes=(process(1, command=command),)))
    assert encoded["cmd"] == shown


def test_without_a_command_line_the_name_of_the_program_will_do() -> None:
    (encoded,) = written(gpu(0, processes=(process(1, command=None, name="python"),)))
    assert encoded["cmd"] == "python"


def test_a_silent_node_is_an_error_in_its_place() -> None:
    nodes = node_views(snapshot(gpu(0), node="a"), snapshot(gpu(0), node="b", taken_at=NOON + 600))
    late = node_views(
        snapshot(gpu(0), node="a"), snapshot(gpu(1), node="b", taken_at=NOON + 600), now=NOON + 600
    )
    first, second = msgspec.json.decode(encode_cluster_status(late))
    assert first == {"error": "Host not available"}
    assert second["hostname"] == "b"
    read_back = read_cluster_status(encode_cluster_status(nodes))
    assert [isinstance(each, Snapshot) for each in read_back] == [True, True]


processes = st.builds(
    Process,
    pid=st.integers(0, 2**32 - 2),
    kind=st.just("compute"),
    user=st.sampled_from([None, "alice", "bob"]),
    command=st.none(),
)
gpus = st.builds(
    Gpu,
    uuid=st.just(""),
    index=st.just(0),
    vendor=st.just("nvidia"),
    name=st.sampled_from([None, "NVIDIA T4"]),
    busy_percent=st.none() | st.integers(0, 100).map(float),
    temperature_celsius=st.none() | st.integers(0, 120).map(float),
    sm_clock_mhz=st.none() | st.integers(0, 5000),
    processes=st.none() | st.lists(processes, max_size=4).map(tuple),
)


@given(st.lists(gpus, max_size=4))
def test_what_is_written_reads_back(encoded: list[Gpu]) -> None:
    node = snapshot(*(_at(place, each) for place, each in enumerate(encoded)), node="gpu01")
    back = decode_gpu_status(encode_gpu_status(node), NOON)
    assert {each.reported_by for each in back.gpus} <= {"nvgpu"}
    assert [replace(each, unread={}, reported_by=None) for each in back.gpus] == list(node.gpus)


def _at(place: int, encoded: Gpu) -> Gpu:
    # A GPU whose memory is not known cannot be called unused.
    known = encoded.processes or None
    if known is not None:
        known = tuple([replace(one, hidden=one.user is None) for one in known])
    uuid = f"nvidia-gpu{place}@nvgpu-gpu01"
    return replace(encoded, uuid=uuid, uuid_is_made=True, index=place, processes=known)
