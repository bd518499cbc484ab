"""The nvgpu codec: decoding agents and masters."""

from typing import Any

import msgspec
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from fleet_smi.compat.nvgpu.codec import decode_gpu_status
from fleet_smi.errors import DeliveryError, Undecodable
from fleet_smi.model.privacy import mask_commands
from fleet_smi.model.snapshot import Fault
from fleet_smi.wire.report import decode_report, encode_report_json
from tests.builders import NOON
from tests.compat.nvgpu.statuses import IDLE, SHARED, node_views, read_gpu, read_status
from tests.compat.seed_samples import seed_sample


def test_an_agent_of_0_9_is_decoded_as_captured() -> None:
    node = decode_gpu_status(seed_sample("nvgpu/agent-gpu_status.json"), NOON)
    assert (node.node_id, node.name, node.taken_at) == ("nvgpu-gpu01", "gpu01", NOON)
    assert [each.index for each in node.gpus] == [0, 1, 2, 3]
    assert [each.busy_percent for each in node.gpus] == [0, 97, 43, 0]
    assert [each.sm_clock_mhz for each in node.gpus] == [210, 1905, 1410, 210]
    assert [each.temperature_celsius for each in node.gpus] == [34, 71, 52, 29]
    people = [[(one.pid, one.user) for one in each.processes or ()] for each in node.gpus]
    assert people[0] == []
    assert people[1:3] == [[(510, "alice"), (511, "bob")], [(512, "alice"), (513, "carol")]]
    assert people[3] == [(999999, None)]


def test_a_gpu_is_identified_by_its_index_and_nothing_unknown_is_zero() -> None:
    first, second = read_status(IDLE, SHARED).gpus
    assert (first.uuid, first.uuid_is_made) == ("nvidia-gpu0@nvgpu-gpu01", True)
    assert second.index == 1
    assert first.memory_used_bytes is first.memory_total_bytes is first.power_watts is None


def test_the_collector_run_states_what_the_format_lacks() -> None:
    (run,) = read_status(IDLE, SHARED).runs
    assert (run.name, run.outcome) == ("nvgpu", "ok")
    assert run.detail == "does not report memory, power, UUIDs, or the start of each process"
    (run,) = read_status(IDLE | {"memory": {"used": 4, "total": 8, "free": 4}}).runs
    assert run.detail == "does not report power, UUIDs, or the start of each process"


def test_the_command_is_the_first_process() -> None:
    first, second = read_status(SHARED).gpus[0].processes or ()
    assert (first.command, second.command) == ("train.py", None)


@pytest.mark.parametrize(
    ("since", "seconds"),
    [
        ("just now", 0),
        ("seconds ago", 10),
        ("30 seconds ago", 30),
        ("a minute ago", 60),
        ("8 minutes ago", 480),
        ("an hour ago", 3600),
        ("14 hours ago", 14 * 3600),
        ("a day ago", 86_400),
        ("2 weeks ago", 14 * 86_400),
        ("a month ago", 30 * 86_400),
        ("3 years ago", 3 * 365 * 86_400),
        ("in 5 minutes", None),
        ("8 Minuten", None),
        ("99999999999999999999 years ago", None),
        (8, None),
        (None, None),
    ],
)
def test_the_words_of_running_since_are_a_start_time(since: Any, seconds: float | None) -> None:
    used = SHARED | {"pids": "510", "users": "alice", "running_since": since}
    (only,) = read_status(used).gpus[0].processes or ()
    assert only.started_at == (None if seconds is None else NOON - seconds)


def test_the_start_is_of_the_oldest_process_and_of_nobody_where_users_differ() -> None:
    first, second = read_gpu(**SHARED | {"pids": "511,510", "users": "bob,bob"}).processes or ()
    assert (first.started_at, second.started_at) == (None, NOON - 14 * 86_400)
    assert [each.started_at for each in read_gpu(**SHARED).processes or ()] == [None, None]


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
    (node,) = node_views(read_status(SHARED | {"cmd": cmd}))
    (first, _) = mask_commands(node, "name").gpus[0].processes or ()
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


def test_in_use_without_a_listed_process_is_not_idle() -> None:
    decoded = read_gpu(is_available=False)
    assert decoded.processes is None
    assert "processes" in decoded.unread


def test_a_pid_that_is_none_hides_no_other() -> None:
    decoded = read_gpu(pids="12abc,,-1,99999999999,13", users="a,b,c,d,e")
    assert [(one.pid, one.user) for one in decoded.processes or ()] == [(13, "e")]
    assert decoded.unread["processes"] == "not all could be read"


@pytest.mark.parametrize("memory", [None, "14.24GB", 7, []])
def test_memory_that_is_no_object_is_unknown(memory: object) -> None:
    assert read_gpu(memory=memory).memory_used_bytes is None


def test_the_memory_of_0_10_is_read_where_it_is_present() -> None:
    decoded = read_gpu(memory={"used": 1 << 30, "total": 1 << 36, "free": 0})
    assert (decoded.memory_used_bytes, decoded.memory_total_bytes) == (1 << 30, 1 << 36)


@pytest.mark.parametrize("unknown", ["N/A", None, "", [], {}, True, 4294967295])
def test_a_figure_that_is_none_is_unknown_and_hides_no_other(unknown: object) -> None:
    decoded = read_gpu(utilization=unknown, temperature=unknown)
    assert decoded.busy_percent is decoded.temperature_celsius is None
    assert decoded.sm_clock_mhz == 210


def test_one_gpu_that_is_invalid_hides_no_other() -> None:
    broken, fine = read_status("lost", IDLE).gpus
    assert broken.fault == Fault(kind="unreadable", detail="its status is not an object")
    assert fine.busy_percent == 0


def test_secrets_and_control_characters_are_removed() -> None:
    decoded = read_gpu(type="A\x1b[31m100", pids="1", users="al\x07ice", cmd="x --password=hunter2")
    assert (decoded.name, decoded.processes[0].user) == ("A [31m100", "al ice")  # type: ignore[index]
    assert decoded.processes[0].command == "x --password=•••"  # type: ignore[index]


@pytest.mark.parametrize(
    "body, message",
    [
        (b"", "it breaks off"),
        (b"<html>", "it is not JSON"),
        (b"[]", "must be an object"),
        (b"{}", "has no list of gpus"),
        (b'{"gpus": []}', "has no hostname"),
        (b'{"hostname": "gpu01"}', "no list of gpus"),
        (b'{"hostname": "gpu01", "gpus": {}}', "no list of gpus"),
        (b"[" * 100_000, "nested too deep"),
        (b" " * (9 << 20), "larger than 8 MiB"),
    ],
)
def test_what_is_not_a_status_is_undecodable(body: bytes, message: str) -> None:
    with pytest.raises(Undecodable, match=message):
        decode_gpu_status(body, NOON)


names = st.text(st.characters(codec="utf-8", exclude_characters=","), min_size=1, max_size=20)
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
@example({"hostname": "lab:", "gpus": []})  # an id must not begin like "pull:"
def test_any_json_is_sanitised_or_reported_as_undecodable(decoded: Any) -> None:
    try:
        node = decode_gpu_status(msgspec.json.encode(decoded), NOON)
    except DeliveryError as error:
        assert isinstance(error, Undecodable)
    else:
        report = encode_report_json([node], NOON)
        assert decode_report(report, json=True).snapshots == (node,)


@given(st.binary())
def test_random_bytes_are_reported_as_undecodable(body: bytes) -> None:
    with pytest.raises(Undecodable):
        decode_gpu_status(body, NOON)
