"""What nvgpu's agents and masters answer, read and written."""

from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from fleet_smi.errors import DeliveryError, Undecodable, Unreachable
from fleet_smi.hub.fleet import Fleet
from fleet_smi.model.fleet import NodeView
from fleet_smi.model.privacy import shown_to
from fleet_smi.model.snapshot import Fault, Gpu, Process, Snapshot
from fleet_smi.wire.dialects.nvgpu import (
    decode_cluster_status,
    decode_gpu_status,
    encode_cluster_status,
    encode_gpu_status,
    machine_status,
)
from fleet_smi.wire.report import decode_report, encode_report_json
from tests.builders import HOUR, MINUTE, NOON, gpu, instance, process, snapshot
from tests.seed_samples import sample

IDLE = {
    "type": "NVIDIA A100-SXM4-80GB",
    "is_available": True,
    "pids": "",
    "users": "",
    "running_since": None,
    "utilization": 0,
    "clock_mhz": 210,
    "temperature": 34,
    "cmd": None,
}
SHARED = IDLE | {
    "is_available": False,
    "pids": "510,511",
    "users": "alice,bob",
    "running_since": "2 weeks ago",
    "utilization": 97,
    "cmd": "train.py",
}


def read(*gpus: Any, hostname: Any = "gpu01") -> Snapshot:
    body = msgspec.json.encode({"hostname": hostname, "gpus": gpus})
    return decode_gpu_status(body, NOON)


def read_gpu(**fields: Any) -> Gpu:
    (found,) = read(IDLE | fields).gpus
    return found


def written(*gpus: Gpu) -> list[dict[str, Any]]:
    told: list[dict[str, Any]] = msgspec.json.decode(encode_gpu_status(snapshot(*gpus)))["gpus"]
    return told


def view_of(*snapshots: Snapshot, now: float = NOON) -> tuple[NodeView, ...]:
    fleet = Fleet()
    for each in snapshots:
        fleet.apply(each, each.taken_at)
    return fleet.view(now).nodes


def test_an_agent_of_0_9_is_read_as_it_was_captured() -> None:
    node = decode_gpu_status(sample("nvgpu/agent-gpu_status.json"), NOON)
    assert (node.node_id, node.name, node.taken_at) == ("nvgpu-gpu01", "gpu01", NOON)
    assert [each.index for each in node.gpus] == [0, 1, 2, 3]
    assert [each.busy_percent for each in node.gpus] == [0, 97, 43, 0]
    assert [each.sm_clock_mhz for each in node.gpus] == [210, 1905, 1410, 210]
    assert [each.temperature_celsius for each in node.gpus] == [34, 71, 52, 29]
    people = [[(one.pid, one.user) for one in each.processes or ()] for each in node.gpus]
    assert people[0] == []
    assert people[1:3] == [[(510, "alice"), (511, "bob")], [(512, "alice"), (513, "carol")]]
    assert people[3] == [(999999, None)]


def test_a_master_is_read_as_it_was_captured_its_errors_included() -> None:
    one, same, error = decode_cluster_status(sample("nvgpu/master-cluster_status.json"), NOON)
    assert one == same == decode_gpu_status(sample("nvgpu/agent-gpu_status.json"), NOON)
    assert isinstance(error, Unreachable)
    assert "Host not available" in error.words


def test_what_is_written_of_a_captured_agent_is_what_it_said() -> None:
    body = sample("nvgpu/agent-gpu_status.json")
    said = msgspec.json.decode(body)
    for each in said["gpus"]:
        each["running_since"] = None  # prose is not a time
        each["is_available"] = False  # without its memory no GPU is known to be free
    assert msgspec.json.decode(encode_gpu_status(decode_gpu_status(body, NOON))) == said


def test_a_gpu_goes_by_its_place_and_nothing_unknown_is_zero() -> None:
    first, second = read(IDLE, SHARED).gpus
    assert (first.uuid, first.uuid_is_made) == ("nvidia-gpu0@nvgpu-gpu01", True)
    assert second.index == 1
    assert first.memory_used_bytes is first.memory_total_bytes is first.power_watts is None


def test_it_says_once_what_this_way_cannot_tell() -> None:
    (run,) = read(IDLE, SHARED).runs
    assert (run.name, run.outcome) == ("nvgpu", "ok")
    assert run.detail == "cannot tell memory, power, UUIDs, or when a process was started"
    (run,) = read(IDLE | {"memory": {"used": 4, "total": 8, "free": 4}}).runs
    assert run.detail == "cannot tell power, UUIDs, or when a process was started"


def test_the_command_is_the_first_process_and_prose_is_not_a_time() -> None:
    first, second = read(SHARED).gpus[0].processes or ()
    assert (first.command, second.command) == ("train.py", None)
    assert first.started_at is second.started_at is None


@pytest.mark.parametrize(
    "cmd, name",
    [
        ("train.py", "train.py"),
        ("/home/bob/train.py", "train.py"),
        ("./simulate --steps 100000...", "simulate"),
        ("jupyter", "jupyter"),
    ],
)
def test_who_may_see_programs_alone_sees_the_program(cmd: str, name: str) -> None:
    (node,) = view_of(read(SHARED | {"cmd": cmd}))
    (first, _) = shown_to(node, "name").gpus[0].processes or ()
    assert (first.name, first.command) == (name, None)


def test_the_command_is_of_the_first_process_that_could_be_read() -> None:
    hidden, seen = read_gpu(pids="7,8", users="?,bob", cmd="a.py").processes or ()
    assert (hidden.user, hidden.hidden, hidden.command) == (None, True, None)
    assert (seen.user, seen.hidden, seen.command) == ("bob", False, "a.py")


def test_an_owner_in_a_container_is_unknown_and_the_process_is_still_there() -> None:
    owners = [(one.pid, one.user) for one in read_gpu(pids="7,8", users="?,?").processes or ()]
    assert owners == [(7, None), (8, None)]


def test_owners_that_cannot_be_matched_are_unknown() -> None:
    owners = [one.user for one in read_gpu(pids="7,8", users="alice").processes or ()]
    assert owners == [None, None]


def test_in_use_by_nobody_who_is_told_is_not_idle() -> None:
    told = read_gpu(is_available=False)
    assert told.processes is None
    assert "processes" in told.unread


def test_a_pid_that_is_none_hides_no_other() -> None:
    told = read_gpu(pids="12abc,,-1,99999999999,13", users="a,b,c,d,e")
    assert [(one.pid, one.user) for one in told.processes or ()] == [(13, "e")]
    assert told.unread["processes"] == "not all could be read"


@pytest.mark.parametrize("memory", [None, "14.24GB", 7, []])
def test_memory_that_is_no_object_is_unknown(memory: object) -> None:
    assert read_gpu(memory=memory).memory_used_bytes is None


def test_the_memory_of_0_10_is_read_where_it_is_told() -> None:
    told = read_gpu(memory={"used": 1 << 30, "total": 1 << 36, "free": 0})
    assert (told.memory_used_bytes, told.memory_total_bytes) == (1 << 30, 1 << 36)


@pytest.mark.parametrize("unknown", ["N/A", None, "", [], {}, True, 4294967295])
def test_a_figure_that_is_none_is_unknown_and_hides_no_other(unknown: object) -> None:
    told = read_gpu(utilization=unknown, temperature=unknown)
    assert told.busy_percent is told.temperature_celsius is None
    assert told.sm_clock_mhz == 210


def test_one_gpu_that_makes_no_sense_hides_no_other() -> None:
    broken, fine = read("lost", IDLE).gpus
    assert broken.fault == Fault(kind="unreadable", detail="its status is no object")
    assert fine.busy_percent == 0


def test_secrets_and_control_characters_are_taken_out() -> None:
    told = read_gpu(type="A\x1b[31m100", pids="1", users="al\x07ice", cmd="x --password=hunter2")
    assert (told.name, told.processes[0].user) == ("A [31m100", "al ice")  # type: ignore[index]
    assert told.processes[0].command == "x --password=•••"  # type: ignore[index]


@pytest.mark.parametrize(
    "body, words",
    [
        (b"", "it breaks off"),
        (b"<html>", "it is not JSON"),
        (b"[]", "must be an object"),
        (b"{}", "does not tell its name"),
        (b'{"hostname": "gpu01"}', "no list of gpus"),
        (b'{"hostname": "gpu01", "gpus": {}}', "no list of gpus"),
        (b"[" * 100_000, "nested too deep"),
        (b" " * (9 << 20), "more than 8 MiB"),
    ],
)
def test_what_is_no_status_is_told_in_words(body: bytes, words: str) -> None:
    with pytest.raises(Undecodable, match=words):
        decode_gpu_status(body, NOON)


def test_a_cluster_with_an_entry_that_makes_no_sense_has_the_others() -> None:
    body = msgspec.json.encode([7, {"hostname": "gpu01", "gpus": [IDLE]}, {"error": 7}])
    kinds = [type(each) for each in decode_cluster_status(body, NOON)]
    assert kinds == [Undecodable, Snapshot, Unreachable]
    with pytest.raises(Undecodable, match="must be a list"):
        decode_cluster_status(b"{}", NOON)


def test_it_is_written_with_the_keys_of_0_9_in_their_order() -> None:
    (told,) = written(gpu(0, sm_clock_mhz=1980))
    assert list(told) == list(IDLE)
    assert told == IDLE | {
        "type": "NVIDIA H100 80GB HBM3",
        "clock_mhz": 1980,
        "temperature": 33,
    }


def test_users_pids_and_command_are_written_as_nvgpu_joins_them() -> None:
    train = process(510, "alice", command="python train.py --epochs 90")
    (told,) = written(gpu(0, processes=(process(9, None, hidden=True), train)))
    assert (told["pids"], told["users"], told["cmd"]) == ("9,510", "?,alice", "train.py")
    assert told["is_available"] is False


def test_nobody_computes_where_there_is_only_a_screen() -> None:
    (told,) = written(gpu(0, processes=(process(9, kind="graphics"),)))
    assert (told["is_available"], told["pids"]) == (True, "")


def test_a_gpu_that_is_lost_or_not_readable_is_not_available_and_stops_no_other() -> None:
    lost = gpu(0, fault=Fault(kind="lost", detail="GPU is lost"), busy_percent=None)
    told = written(lost, gpu(1, processes=None), gpu(2))
    assert [each["is_available"] for each in told] == [False, False, True]
    assert told[0]["utilization"] is None


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
def test_what_nobody_is_seen_on_is_available_only_if_it_is_free(fields: dict[str, Any]) -> None:
    card = gpu(0, **fields)
    assert written(card)[0]["is_available"] is False
    (node,) = view_of(snapshot(card))
    status = machine_status(node)
    assert isinstance(status.gpus, tuple)
    assert status.gpus[0].is_available is False


def test_the_processes_of_instances_are_the_gpus() -> None:
    divided = gpu(0, mig_mode=True, instances=(instance(1, processes=(process(7),)),))
    (told,) = written(divided)
    assert (told["pids"], told["is_available"]) == ("7", False)


@pytest.mark.parametrize(
    "seconds, words",
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
def test_since_is_that_of_the_oldest_process_in_words(seconds: float, words: str) -> None:
    young, old = process(1, started_at=NOON), process(2, started_at=NOON - seconds)
    (told,) = written(gpu(0, processes=(young, old)))
    assert told["running_since"] == ("just now" if seconds < 0 else words)


def test_since_is_told_by_the_nodes_own_clock_however_wrong() -> None:
    begun = process(1, started_at=NOON - HOUR)
    fleet = Fleet()
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
    (told,) = written(gpu(0, processes=(process(1, command=command),)))
    assert told["cmd"] == shown


def test_without_a_command_line_the_name_of_the_program_will_do() -> None:
    (told,) = written(gpu(0, processes=(process(1, command=None, name="python"),)))
    assert told["cmd"] == "python"


def test_a_silent_node_is_an_error_in_its_place() -> None:
    nodes = view_of(snapshot(gpu(0), node="a"), snapshot(gpu(0), node="b", taken_at=NOON + 600))
    late = view_of(
        snapshot(gpu(0), node="a"), snapshot(gpu(1), node="b", taken_at=NOON + 600), now=NOON + 600
    )
    first, second = msgspec.json.decode(encode_cluster_status(late))
    assert first == {"error": "Host not available (a: silent for 10 min)"}
    assert second["hostname"] == "b"
    assert [type(each) for each in decode_cluster_status(encode_cluster_status(nodes), NOON)] == [
        Snapshot,
        Snapshot,
    ]


names = st.text(st.characters(codec="utf-8", exclude_characters=","), min_size=1, max_size=20)
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
def test_what_is_written_reads_back(told: list[Gpu]) -> None:
    node = snapshot(*(_at(place, each) for place, each in enumerate(told)), node="gpu01")
    back = decode_gpu_status(encode_gpu_status(node), NOON)
    assert [replace(each, unread={}) for each in back.gpus] == list(node.gpus)


def _at(place: int, told: Gpu) -> Gpu:
    # That nobody is on it cannot be told of a GPU whose memory is not known.
    known = told.processes or None
    if known is not None:
        known = tuple([replace(one, hidden=one.user is None) for one in known])
    uuid = f"nvidia-gpu{place}@nvgpu-gpu01"
    return replace(told, uuid=uuid, uuid_is_made=True, index=place, processes=known)


anything = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner),
    max_leaves=5,
)
statuses = st.fixed_dictionaries(
    {"hostname": names | anything},
    optional={
        "gpus": anything
        | st.lists(
            anything
            | st.fixed_dictionaries({}, optional=dict.fromkeys([*IDLE, "memory"], anything))
        )
    },
)


@given(statuses | anything)
def test_whatever_comes_is_harmless_or_told_as_no_status(told: Any) -> None:
    try:
        node = decode_gpu_status(msgspec.json.encode(told), NOON)
    except DeliveryError as error:
        assert isinstance(error, Undecodable)
    else:
        report = encode_report_json([node], NOON)
        assert decode_report(report, json=True).snapshots == (node,)


@given(st.binary())
def test_random_bytes_are_told_as_no_status(body: bytes) -> None:
    with pytest.raises(Undecodable):
        decode_gpu_status(body, NOON)
