"""The gpu-cluster-monitor codec: nodes and the main node, both ways."""

from datetime import UTC, timedelta, timezone
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from fleet_smi.compat.node_info.codec import (
    decode_status,
    encode_main_status,
    encode_status,
)
from fleet_smi.errors import DeliveryError, Undecodable
from fleet_smi.fleet.fleet import FleetState, Via
from fleet_smi.model.fleet import FleetView
from fleet_smi.model.privacy import mask_commands
from fleet_smi.model.snapshot import Fault, Gpu, Host, Process, Snapshot
from fleet_smi.model.units import MIB
from fleet_smi.wire.report import decode_report, encode_report_json
from tests.builders import NOON, gpu, process, snapshot
from tests.compat.masters import read_main_status
from tests.compat.seed_samples import seed_sample

BOB = {"command": "python evaluate.py", "mem(MiB)": 2310, "pid": 1259, "username": "bob"}
BUSY = {
    "index": 1,
    "name": "NVIDIA GeForce RTX 3090",
    "temp": 71,
    "tot_mem": 24576,
    "use_mem": 13578,
    "users": [BOB],
    "utilize": 97,
}
NODE = {
    "gpus": [BUSY],
    "hostname": "gpu01",
    "ips": [["eno1", "192.168.0.3"]],
    "last_update": "2026-11-15T19:26:06.867498",
}


def read(**fields: Any) -> Snapshot:
    return decode_status(msgspec.json.encode(NODE | fields), NOON).snapshot


def read_gpu(**fields: Any) -> Gpu:
    (found,) = read(gpus=[BUSY | fields]).gpus
    return found


def written(node: Snapshot) -> dict[str, Any]:
    decoded: dict[str, Any] = msgspec.json.decode(encode_status(node, UTC))
    return decoded


def main_of(view: FleetView) -> list[dict[str, Any]]:
    decoded: list[dict[str, Any]] = msgspec.json.decode(encode_main_status(view, UTC))["Nodes"]
    return decoded


def test_a_node_is_decoded_as_captured() -> None:
    node, last_update = decode_status(seed_sample("node_info/get-status.json"), NOON)
    assert (node.node_id, node.name, node.taken_at) == ("node_info-gpu01", "gpu01", NOON)
    assert node.host.addresses == ("192.168.0.3",)
    assert node.host.interfaces == {"192.168.0.3": "eno1"}
    assert last_update == "2026-11-15T19:26:06.867498"
    assert [each.memory_used_bytes for each in node.gpus] == [
        each * MIB for each in (4, 13578, 41476, 4)
    ]
    assert [each.busy_percent for each in node.gpus] == [0, 97, 43, 0]
    people = [[(one.pid, one.user) for one in each.processes or ()] for each in node.gpus]
    assert people == [[], [(1258, "alice"), (1259, "bob")], [(1260, "alice"), (1261, "carol")], []]


@pytest.mark.parametrize("name", ["get-status", "get-status.pretty"])
def test_what_is_written_of_a_captured_node_equals_the_capture(name: str) -> None:
    body = seed_sample(f"node_info/{name}.json")
    decoded = written(decode_status(body, NOON).snapshot)
    sent_text = msgspec.json.decode(body)
    assert decoded["gpus"] == sent_text["gpus"]
    assert list(decoded) == list(sent_text)
    assert [each[1] for each in decoded["ips"]] == [each[1] for each in sent_text["ips"]]


def test_a_gpu_without_a_serial_number_is_identified_by_its_index() -> None:
    decoded = read_gpu(index=3)
    assert (decoded.uuid, decoded.index, decoded.uuid_is_made) == (
        "nvidia-gpu3@node_info-gpu01",
        3,
        True,
    )


def test_the_collector_run_states_what_the_format_lacks() -> None:
    (run,) = read().runs
    assert (run.name, run.outcome) == ("node_info", "ok")
    assert run.detail.startswith("does not report power, clocks, UUIDs")


def test_a_process_is_read_with_its_memory_owner_and_command() -> None:
    (bob,) = read_gpu().processes or ()
    assert (bob.pid, bob.user, bob.gpu_memory_bytes) == (1259, "bob", 2310 * MIB)
    assert bob.command == "python evaluate.py"


def test_who_may_see_programs_alone_sees_the_program() -> None:
    users = [BOB | {"command": "/usr/bin/python3 evaluate.py"}, BOB | {"command": ""}]
    bob, nameless = (
        mask_commands(read(gpus=[BUSY | {"users": users}]), "name").gpus[0].processes or ()
    )
    assert (bob.name, bob.command) == ("python3", None)
    assert (nameless.name, nameless.command) == (None, None)


def test_secrets_are_redacted_in_command_lines() -> None:
    users = [BOB | {"command": "serve --api-key=abc123 --port 80"}]
    (bob,) = read_gpu(users=users).processes or ()
    assert bob.command == "serve --api-key=••• --port 80"


@pytest.mark.parametrize("unknown", [None, "[N/A]", [], True, -1, 10**30])
def test_a_figure_that_is_none_is_unknown_and_hides_no_other(unknown: object) -> None:
    decoded = read_gpu(use_mem=unknown, utilize=unknown, temp="hot")
    assert decoded.memory_used_bytes is decoded.busy_percent is decoded.temperature_celsius is None
    assert decoded.memory_total_bytes == 24576 * MIB


def test_a_user_that_is_invalid_hides_no_other() -> None:
    decoded = read_gpu(users=[7, {"pid": "x"}, BOB])
    assert [one.user for one in decoded.processes or ()] == ["bob"]
    assert decoded.unread["processes"] == "not all could be read"


@pytest.mark.parametrize("users", [None, "bob", [7]])
def test_unreadable_users_are_not_an_empty_list(users: object) -> None:
    assert read_gpu(users=users).processes is None


def test_one_gpu_that_is_invalid_hides_no_other() -> None:
    broken, fine = read(gpus=[None, BUSY]).gpus
    assert broken.fault == Fault(kind="unreadable", detail="its status is not an object")
    assert fine.busy_percent == 97


def test_a_null_last_update_is_harmless() -> None:
    decoded = decode_status(msgspec.json.encode(NODE | {"last_update": None}), NOON)
    assert (decoded.last_update, decoded.snapshot.name) == (None, "gpu01")


def test_a_node_that_has_not_read_its_gpus_yet_is_undecodable() -> None:
    first: dict[str, Any] = {"gpus": [], "hostname": None, "ips": [], "last_update": None}
    with pytest.raises(Undecodable, match="may not have read its GPUs yet"):
        decode_status(msgspec.json.encode(first), NOON)


@pytest.mark.parametrize(
    "body, message",
    [
        (b"", "it breaks off"),
        (b"<!doctype html>", "it is not JSON"),
        (b"[]", "must be an object"),
        (b'{"hostname": "gpu01"}', "no list of gpus"),
        (b'{"hostname": "gpu01", "gpus": 4}', "no list of gpus"),
    ],
)
def test_what_is_not_a_status_is_undecodable(body: bytes, message: str) -> None:
    with pytest.raises(Undecodable, match=message):
        decode_status(body, NOON)


def test_a_node_is_written_with_sorted_keys_as_its_own_answer_has_them() -> None:
    bob = process(1259, "bob", gpu_memory_bytes=2310 * MIB, command="python evaluate.py")
    node = snapshot(gpu(1, processes=(bob,)), host=Host(addresses=("192.168.0.3", "fd00::1")))
    assert encode_status(node, UTC) == (
        b'{"gpus":[{"index":1,"name":"NVIDIA H100 80GB HBM3","temp":33,"tot_mem":81559,'
        b'"use_mem":4,"users":[{"command":"python evaluate.py","mem(MiB)":2310,"pid":1259,'
        b'"username":"bob"}],"utilize":0}],"hostname":"gpu01","ips":[["","192.168.0.3"]],'
        b'"last_update":"2025-06-15T15:06:40.000000"}'
    )


def test_the_last_update_is_local_time_without_a_zone() -> None:
    east = timezone(timedelta(hours=9))
    decoded = msgspec.json.decode(encode_status(snapshot(), east))
    assert decoded["last_update"] == "2025-06-16T00:06:40.000000"


def test_addresses_are_sorted_as_text_and_of_the_fourth_version_alone() -> None:
    addresses = ("192.168.0.3", "10.0.0.7", "fd00::1", "not one")
    host = Host(addresses=addresses, interfaces={"192.168.0.3": "eno1", "fd00::1": "eno1"})
    assert written(snapshot(host=host))["ips"] == [["", "10.0.0.7"], ["eno1", "192.168.0.3"]]


def test_a_lost_gpu_is_drawn_as_such_by_the_page() -> None:
    unread = {"memory_used_bytes": None, "busy_percent": None, "temperature_celsius": None}
    lost = gpu(0, fault=Fault(kind="lost", detail="GPU is lost"), processes=None, **unread)
    sick = gpu(1, fault=Fault(kind="needs_reset", detail="reset it"), busy_percent=7)
    first, second = written(snapshot(lost, sick))["gpus"]
    # The page joins the two with a slash.
    assert (first["use_mem"], first["tot_mem"], first["utilize"]) == ("lost", 81559, "?")
    assert (second["use_mem"], second["tot_mem"], second["utilize"]) == (4, 81559, 7)
    body = encode_status(snapshot(lost, sick))
    assert decode_status(body, NOON).snapshot.gpus[0].memory_used_bytes is None


def test_what_is_not_known_is_null_and_an_unseen_owner_is_not_left_out() -> None:
    unseen = process(9, None, hidden=True, gpu_memory_bytes=None, name=None)
    blind = gpu(
        0,
        name=None,
        memory_used_bytes=None,
        memory_total_bytes=None,
        busy_percent=None,
        temperature_celsius=None,
        processes=(unseen,),
    )
    (decoded,) = written(snapshot(blind))["gpus"]
    assert decoded == {
        "index": 0,
        "name": None,
        "temp": None,
        "tot_mem": None,
        "use_mem": None,
        "users": [{"command": "", "mem(MiB)": None, "pid": 9, "username": "?"}],
        "utilize": None,
    }


def test_a_lost_gpu_is_written_beside_the_others() -> None:
    lost = Gpu(uuid="x", index=0, vendor="nvidia", fault=Fault(kind="lost", detail="lost"))
    assert [each["use_mem"] for each in written(snapshot(lost, gpu(1)))["gpus"]] == ["lost", 4]


def test_a_command_is_cut_at_500_characters() -> None:
    long = process(9, command="x" * 600)
    (decoded,) = written(snapshot(gpu(0, processes=(long,))))["gpus"]
    assert len(decoded["users"][0]["command"]) == 500


def test_a_main_node_reports_silent_and_unreachable_nodes_as_down() -> None:
    fleet = FleetState()
    fleet.apply(snapshot(gpu(0), node="a", interval_seconds=600.0), NOON)
    fleet.apply(snapshot(gpu(1), node="b"), NOON)
    fleet.add_target(Via("node_info", "c"))
    here, silent, never = main_of(fleet.view(NOON + 60))
    assert (here["status"], here["version"]) == (True, "NVIDIA H100 80GB HBM3")
    assert (silent["status"], len(silent["gpus"])) == (False, 1)
    assert never == {"gpus": [], "hostname": "c", "status": False, "version": ""}


def test_the_last_update_of_a_main_node_is_by_its_own_clock() -> None:
    fleet = FleetState()
    behind = snapshot(gpu(0), taken_at=NOON - 86_400.0, interval_seconds=600.0)
    fleet.apply(behind, NOON)
    (decoded,) = main_of(fleet.view(NOON + 60))
    assert decoded["last_update"] == "2025-06-15T15:06:40.000000"


processes = st.builds(
    Process,
    pid=st.integers(0, 2**32 - 2),
    kind=st.just("compute"),
    user=st.sampled_from([None, "alice", "bob"]),
    command=st.sampled_from([None, "python train.py", "./a.out"]),
    gpu_memory_bytes=st.none() | st.integers(0, 80_000).map(lambda mib: mib * MIB),
)
gpus = st.builds(
    Gpu,
    uuid=st.just(""),
    index=st.integers(0, 15),
    vendor=st.just("nvidia"),
    name=st.sampled_from([None, "NVIDIA T4"]),
    reported_by=st.just("node_info"),
    busy_percent=st.none() | st.integers(0, 100).map(float),
    temperature_celsius=st.none() | st.integers(0, 120).map(float),
    memory_total_bytes=st.none() | st.just(90_000 * MIB),
    memory_used_bytes=st.none() | st.integers(0, 80_000).map(lambda mib: mib * MIB),
    processes=st.lists(processes, max_size=4).map(tuple),
)


@given(st.lists(gpus, max_size=4))
def test_what_is_written_reads_back(decoded: list[Gpu]) -> None:
    node = snapshot(*map(_known_by_index, decoded), node="gpu01")
    back, last_update = decode_status(encode_status(node, UTC), NOON)
    assert back.gpus == node.gpus
    assert last_update == "2025-06-15T15:06:40.000000"


def _known_by_index(decoded: Gpu) -> Gpu:
    programs = {"python train.py": "python", "./a.out": "a.out"}
    people = tuple(
        [
            replace(one, hidden=one.user is None, name=programs.get(one.command or ""))
            for one in decoded.processes or ()
        ]
    )
    uuid = f"nvidia-gpu{decoded.index}@node_info-gpu01"
    return replace(decoded, uuid=uuid, uuid_is_made=True, processes=people)


def test_what_is_written_of_a_fleet_reads_back_the_silent_as_lost() -> None:
    fleet = FleetState()
    fleet.apply(snapshot(gpu(0), node="a", interval_seconds=600.0), NOON)
    fleet.apply(snapshot(gpu(1), node="b"), NOON)
    present, lost = read_main_status(encode_main_status(fleet.view(NOON + 60)))
    assert isinstance(present, Snapshot) and lost == "b"


anything = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner),
    max_leaves=5,
)
users = st.fixed_dictionaries({}, optional=dict.fromkeys(BOB, anything))
cards = st.fixed_dictionaries(
    {},
    optional=dict.fromkeys(BUSY, anything) | {"users": anything | st.lists(anything | users)},
)
statuses = st.fixed_dictionaries(
    {"hostname": st.text(max_size=8) | anything, "gpus": anything | st.lists(anything | cards)},
    optional={"ips": anything, "last_update": anything},
)


@given(statuses | anything)
def test_any_json_is_sanitised_or_reported_as_undecodable(decoded: Any) -> None:
    try:
        node = decode_status(msgspec.json.encode(decoded), NOON).snapshot
    except DeliveryError as error:
        assert isinstance(error, Undecodable)
    else:
        back = decode_report(encode_report_json([node], NOON), json=True).snapshots[0]
        assert replace(back, gpus=()) == replace(node, gpus=())
        assert len(back.gpus) == len(node.gpus)
