"""Encoding for routers and clients of cluster-smi."""

import struct
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from fleet_smi.compat.cluster_smi.codec import (
    decode_cluster,
    decode_node,
    encode_cluster,
    encode_node,
    encode_request,
    node_id_from_name,
    to_snapshot,
)
from fleet_smi.compat.json_status import compute_processes
from fleet_smi.fleet.fleet import FleetState, Via
from fleet_smi.model.fleet import FleetView
from fleet_smi.model.snapshot import Fault, Gpu, Process, Snapshot
from fleet_smi.model.units import GIB
from fleet_smi.model.verdict.last_known import mark_all_silent
from tests.builders import NOON, gpu, instance, process, snapshot
from tests.compat.seed_samples import seed_sample
from tests.terminal.fleet_strategies import FLEET


def raw(body: bytes) -> Any:
    return msgspec.msgpack.decode(body)


def believed(*snapshots: Snapshot, at: float = NOON, now: float = NOON) -> FleetView:
    fleet = FleetState()
    for one in snapshots:
        fleet.apply(one, at)
    return fleet.view(now)


def test_a_node_is_a_map_by_gos_names_in_gos_order() -> None:
    encoded = raw(encode_node(snapshot(gpu(processes=(process(command="python train.py"),)))))
    assert list(encoded) == ["Name", "Devices", "Time", "BootTime", "ClockTicks"]
    (device,) = encoded["Devices"]
    assert list(device) == [
        "Id",
        "Name",
        "Utilization",
        "MemoryUtilization",
        "FanSpeed",
        "Temperature",
        "PowerUsage",
        "Processes",
    ]
    assert list(device["MemoryUtilization"]) == ["Used", "Free", "Total", "Percentage"]
    (one,) = device["Processes"]
    assert list(one) == [
        "Pid",
        "UsedGpuMemory",
        "Name",
        "Username",
        "RunTime",
        "ExtendedCommand",
    ]
    assert (one["RunTime"], one["ExtendedCommand"]) == (86_400, "python train.py")


def test_a_command_line_that_may_not_be_seen_is_the_name_of_the_program() -> None:
    masked = process(name="python", command=None)
    (one,) = raw(encode_node(snapshot(gpu(processes=(masked,)))))["Devices"][0]["Processes"]
    assert (one["Name"], one["ExtendedCommand"]) == ("python", "python")


def test_its_time_is_msgpacks_own() -> None:
    body = encode_node(snapshot(gpu()))
    assert b"\xa4Time\xd6\xff" + struct.pack(">I", int(NOON)) in body


def test_empty_lists_are_encoded_as_nil_as_go_does() -> None:
    encoded = raw(encode_node(snapshot(gpu())))
    assert encoded["Devices"][0]["Processes"] is None
    assert raw(encode_node(snapshot()))["Devices"] is None
    assert encode_cluster(believed()) == bytes.fromhex("81a54e6f646573c0")


def test_a_request_is_what_a_client_sends() -> None:
    assert encode_request("REQ 3004").hex() == "81a84964656e74697479a85245512033303034"
    assert encode_request("REQ 3004") == seed_sample("cluster-smi/client-to-router.bin")


@pytest.mark.parametrize("name", ["node-to-router.real", "node-to-router.synthetic"])
def test_a_sample_that_is_read_is_written_the_same_again(name: str) -> None:
    body = seed_sample(f"cluster-smi/{name}.bin")
    encoded = decode_node(body)
    again = decode_node(encode_node(to_snapshot(encoded, NOON)))
    assert to_snapshot(again, NOON) == to_snapshot(encoded, NOON)
    was, now = raw(body), raw(encode_node(to_snapshot(encoded, NOON)))
    for device in was["Devices"]:
        for one in device["Processes"] or ():
            one["ExtendedCommand"] = one["ExtendedCommand"].strip("\0").replace("\0", " ")
    assert now["Devices"] == was["Devices"]


@pytest.mark.parametrize("total", [None, 0])
def test_no_total_is_zero_for_clients_would_divide_by_it(total: int | None) -> None:
    unknown = gpu(memory_used_bytes=None, memory_total_bytes=total)
    for encoded in (
        raw(encode_node(snapshot(unknown))),
        raw(encode_cluster(believed(snapshot(unknown))))["Nodes"][0],
    ):
        assert encoded["Devices"][0]["MemoryUtilization"]["Total"] == 1
    (back,) = to_snapshot(decode_node(encode_node(snapshot(unknown))), NOON).gpus
    assert (back.memory_used_bytes, back.memory_total_bytes) == (None, None)


def test_what_is_unknown_is_written_as_cluster_smi_does() -> None:
    unknown = gpu(
        busy_percent=None, temperature_celsius=None, power_watts=None, fan_percent=None, name=None
    )
    (device,) = raw(encode_node(snapshot(unknown)))["Devices"]
    assert (device["Temperature"], device["PowerUsage"], device["FanSpeed"]) == (-1, 0, 0)
    nobody = gpu(processes=(process(user=None, started_at=None, gpu_memory_bytes=None),))
    (device,) = raw(encode_node(snapshot(nobody)))["Devices"]
    assert device["Processes"][0]["Username"] == "unknown"


def test_a_card_that_is_lost_or_unread_does_not_look_like_a_free_one() -> None:
    lost = gpu(fault=Fault(kind="needs_reset", detail="x"), processes=None)
    encoded = raw(encode_node(snapshot(lost, gpu(1, processes=None), gpu(2))))
    names = [device["Name"].removeprefix("NVIDIA H100 80GB HBM3") for device in encoded["Devices"]]
    assert names == [" (needs reset)", " (users unknown)", ""]


def test_a_card_that_looks_free_to_clients_and_is_not_has_a_note_in_its_name() -> None:
    ghost = gpu(memory_used_bytes=9 * GIB)
    view = believed(snapshot(ghost, gpu(1), gpu(2, processes=(process(),)), interval_seconds=2.0))

    def remarks(view: FleetView) -> list[str]:
        devices = raw(encode_cluster(view))["Nodes"][0]["Devices"]
        return [device["Name"].removeprefix(ghost.name or "") for device in devices]

    assert remarks(view) == [" (ghost)", "", ""]
    assert remarks(mark_all_silent(view, 60.0)) == [" (unknown)", " (unknown)", ""]


def test_processes_of_instances_are_those_of_their_card_and_displays_are_left_out() -> None:
    sliced = gpu(
        processes=(process(1, kind="graphics"),), instances=(instance(processes=(process(2),)),)
    )
    (device,) = raw(encode_node(snapshot(sliced)))["Devices"]
    assert [one["Pid"] for one in device["Processes"]] == [2]
    # The driver lists it for the card, too; every format of an older tool has it once.
    both = gpu(processes=(process(2),), instances=(instance(processes=(process(2),)),))
    (device,) = raw(encode_node(snapshot(both)))["Devices"]
    assert [one["Pid"] for one in device["Processes"]] == [2]
    assert [one.pid for one in compute_processes(both) or ()] == [2]


def test_a_silent_node_keeps_the_time_of_its_last_report() -> None:
    skewed = snapshot(gpu(), taken_at=NOON - 5_000)
    for later in (0, 10_000):
        (node,) = decode_cluster(encode_cluster(believed(skewed, now=NOON + later)))
        assert node.timestamp == NOON


def test_a_node_has_its_own_time_where_its_clock_is_right() -> None:
    reported = snapshot(gpu(), taken_at=NOON - 2)
    (node,) = decode_cluster(encode_cluster(believed(reported, now=NOON + 10_000)))
    assert node.timestamp == NOON - 2


def test_a_node_that_never_reported_is_offline_to_clients() -> None:
    fleet = FleetState()
    fleet.add_target(Via("pull", "gpu09:7071"))
    (encoded,) = raw(encode_cluster(fleet.view(NOON)))["Nodes"]
    assert (encoded["Name"], encoded["Devices"]) == ("gpu09:7071", None)
    assert encoded["Time"].timestamp() == 0


def test_two_nodes_of_one_name_do_not_overwrite_each_other() -> None:
    twins = [snapshot(gpu(), node_id=f"{letter}0123456789") for letter in "ab"]
    nodes = decode_cluster(encode_cluster(believed(*twins)))
    assert [node.name for node in nodes] == ["gpu01~a0123456", "gpu01~b0123456"]
    alike = [snapshot(gpu(), node_id=f"same-start-{letter}") for letter in "ab"]
    names = [node.name for node in decode_cluster(encode_cluster(believed(*alike)))]
    assert len(set(names)) == 2


TEXT = st.text(st.characters(codec="ascii", categories=["L", "N"]), min_size=1, max_size=12)
PEOPLE = st.builds(
    Process,
    pid=st.integers(1, 2**22),
    kind=st.just("compute"),
    gpu_memory_bytes=st.none() | st.integers(1, 2**40),
    user=TEXT.filter(lambda name: name not in ("unknown", "root")),
    name=TEXT,
    command=TEXT,  # none is sent as the name, see above
    started_at=st.integers(0, 10_000).map(lambda seconds: NOON - seconds),
)
CARDS = st.builds(
    Gpu,
    uuid=st.just(""),
    uuid_is_made=st.sampled_from([True]),
    index=st.integers(0, 100),
    vendor=st.just("nvidia"),
    name=TEXT,
    memory_used_bytes=st.integers(0, 2**37),
    memory_total_bytes=st.integers(2**37, 2**38),
    busy_percent=st.integers(0, 100),
    temperature_celsius=st.none() | st.integers(1, 110),
    fan_percent=st.none() | st.integers(1, 100),
    power_watts=st.none() | st.integers(1, 1000),
    reported_by=st.just("cluster-smi"),
    processes=st.lists(PEOPLE, max_size=3).map(tuple),
)


@given(TEXT, st.lists(CARDS, min_size=1, max_size=3))
def test_encoding_and_decoding_round_trips(name: str, cards: list[Gpu]) -> None:
    node_id = node_id_from_name(name)
    own = tuple(replace(card, uuid=f"gpu{card.index}@{node_id}") for card in cards)
    sent = snapshot(*own, node=name, node_id=node_id)
    got = to_snapshot(decode_node(encode_node(sent)), 0.0, interval_seconds=1.0)
    assert (got.gpus, got.name, got.node_id) == (sent.gpus, name, node_id)
    assert got.taken_at == sent.taken_at
    (through_a_hub,) = decode_cluster(encode_cluster(believed(sent)))
    encoded = sorted(to_snapshot(through_a_hub, 0.0).gpus, key=lambda card: card.index)
    assert [card.index for card in encoded] == sorted(card.index for card in own)


@given(FLEET)
def test_any_fleet_can_be_encoded_without_a_zero_total(view: FleetView) -> None:
    sane = replace(view, nodes=tuple(node for node in view.nodes if node.name.strip()))
    encoded = raw(encode_cluster(sane))["Nodes"] or []
    assert len(encoded) == len(sane.nodes)
    for node in encoded:
        for device in node["Devices"] or ():
            assert device["MemoryUtilization"]["Total"] > 0
