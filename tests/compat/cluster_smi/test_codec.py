"""The cluster-smi codec: decoding messages of nodes and routers."""

import struct
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fleet_smi.compat.cluster_smi.codec import (
    MAX_NODE_BYTES,
    decode_cluster,
    decode_node,
    node_id_from_name,
    to_snapshot,
)
from fleet_smi.errors import Undecodable
from fleet_smi.model.safe_text import sanitize_text
from fleet_smi.model.snapshot import Process, Snapshot
from tests.compat.cluster_smi.messages import (
    GIB,
    TIME,
    device,
    encode_message,
    node,
    node_of_2018,
    process,
)
from tests.compat.seed_samples import seed_sample

ARRIVED = 1_700_000_000.0


def read(value: Any) -> Snapshot:
    body = value if isinstance(value, bytes) else encode_message(value)
    return to_snapshot(decode_node(body), ARRIVED)


def read_process(**fields: Any) -> Process:
    (gpu,) = read(node(device(Processes=[process(**fields)]))).gpus
    assert gpu.processes is not None
    return gpu.processes[0]


def test_a_node_of_2019_is_read() -> None:
    busy = device(1, Utilization=97, Processes=[process()])
    snapshot = read(node(device(), busy))
    assert (snapshot.node_id, snapshot.name) == ("cluster-smi-gpu01", "gpu01")
    assert snapshot.taken_at == TIME
    idle, busy_gpu = snapshot.gpus
    assert (idle.index, idle.name, idle.vendor) == (0, "TITAN Xp", "nvidia")
    assert (idle.memory_used_bytes, idle.memory_total_bytes) == (0, 12 * GIB)
    assert (idle.busy_percent, idle.fan_percent) == (0, 23)
    assert (idle.temperature_celsius, idle.power_watts) == (40, 60)
    assert idle.processes == ()
    assert busy_gpu.processes == (
        Process(
            pid=4711,
            kind="compute",
            gpu_memory_bytes=2 * GIB,
            user="alice",
            name="python",
            command="python train.py --lr 0.1",
            started_at=TIME - 3600.0,
        ),
    )
    assert len({gpu.uuid for gpu in snapshot.gpus}) == 2
    assert all(gpu.uuid_is_made for gpu in snapshot.gpus)
    assert "does not report UUIDs" in snapshot.runs[0].detail


def test_a_node_of_2018_is_dated_on_arrival_and_has_no_process_list() -> None:
    snapshot = read(node_of_2018("TITAN X", "TITAN X"))
    assert snapshot.taken_at == ARRIVED
    for gpu in snapshot.gpus:
        assert (gpu.processes, gpu.temperature_celsius, gpu.power_watts) == (None, None, None)
    assert "processes" in snapshot.runs[0].detail


def test_a_node_of_2018_through_a_router_of_2019_is_still_one() -> None:
    year_one = msgspec.msgpack.Ext(-1, struct.pack(">Iq", 0, -62_135_596_800))
    zeros = device(FanSpeed=0, Temperature=0, PowerUsage=0)
    snapshot = read(node(zeros, Time=year_one, BootTime=0, ClockTicks=0))
    assert snapshot.taken_at == ARRIVED
    (gpu,) = snapshot.gpus
    assert (gpu.processes, gpu.temperature_celsius, gpu.power_watts) == (None, None, None)


def test_a_node_of_the_fork_is_read_with_its_comment_and_load() -> None:
    decoded = node(device(), Comment="rack 3", CPUUtil=0.25, LastRun=1, LastIdle=2, New={"a": [1]})
    snapshot = read(decoded)
    assert snapshot.labels == {"comment": "rack 3"}
    assert snapshot.host.cpu_percent == 25.0
    assert len(snapshot.gpus) == 1


def test_numbers_in_nine_bytes_are_numbers() -> None:
    wide = b"\x82\xa4Name\xa3old\xa7Devices\x91\x82\xa2Id\xd3" + (7).to_bytes(8)
    wide += b"\xabUtilization\xcf" + (42).to_bytes(8)
    (gpu,) = read(wide).gpus
    assert (gpu.index, gpu.busy_percent) == (7, 42)


@pytest.mark.parametrize(
    "written",
    [
        msgspec.msgpack.Ext(-1, TIME.to_bytes(4)),
        msgspec.msgpack.Ext(-1, (5 << 34 | TIME).to_bytes(8)),
        msgspec.msgpack.Ext(-1, struct.pack(">Iq", 5, TIME)),
        [TIME, 5],
        [TIME],
    ],
    ids=["4 bytes", "8 bytes", "12 bytes", "a pair", "seconds alone"],
)
def test_every_form_of_a_time_is_read(written: object) -> None:
    assert read(node(device(), Time=written)).taken_at == pytest.approx(TIME, abs=1e-3)


@pytest.mark.parametrize(
    "written",
    [None, [], [1, 2, 3], "noon", msgspec.msgpack.Ext(-1, b"\xff" * 12), [2**60, 0], [-5, 0]],
)
def test_an_invalid_time_is_unknown(written: object) -> None:
    snapshot = read(node(device(), Time=written))
    assert snapshot.taken_at == ARRIVED
    assert len(snapshot.gpus) == 1


def test_memory_is_that_in_use_and_never_the_percentage_that_is_always_zero() -> None:
    half = {"Used": 6 * GIB, "Free": 6 * GIB, "Total": 12 * GIB, "Percentage": 0}
    (gpu,) = read(node(device(MemoryUtilization=half))).gpus
    assert (gpu.memory_used_bytes, gpu.memory_busy_percent) == (6 * GIB, None)


def test_failed_readings_are_unknown_and_a_load_of_zero_is_zero() -> None:
    failed = device(Temperature=-1, FanSpeed=0, PowerUsage=0, Utilization=0)
    (gpu,) = read(node(failed)).gpus
    assert (gpu.temperature_celsius, gpu.fan_percent, gpu.power_watts) == (None, None, None)
    assert gpu.busy_percent == 0


def test_a_total_of_zero_is_memory_that_is_not_known() -> None:
    nothing = {"Used": 0, "Free": 0, "Total": 0, "Percentage": 0}
    (gpu,) = read(node(device(MemoryUtilization=nothing))).gpus
    assert (gpu.memory_used_bytes, gpu.memory_total_bytes) == (None, None)


def test_more_memory_in_use_than_there_is_is_unknown() -> None:
    odd = {"Used": 13 * GIB, "Total": 12 * GIB}
    (gpu,) = read(node(device(MemoryUtilization=odd))).gpus
    assert (gpu.memory_used_bytes, gpu.memory_total_bytes) == (None, 12 * GIB)
    assert "more than the total" in gpu.unread["memory_used_bytes"]


def test_a_vanished_process_is_hidden_and_not_blamed_on_root() -> None:
    gone = read_process(
        Username="root", Name="unkown", ExtendedCommand="", RunTime=10 * 86_400 - 30
    )
    assert (gone.user, gone.name, gone.started_at, gone.hidden) == (None, None, None, True)
    assert gone.gpu_memory_bytes == 2 * GIB


def test_a_process_of_roots_is_still_roots() -> None:
    real = read_process(Username="root", Name="python")
    assert (real.user, real.hidden) == ("root", False)


def test_a_process_as_old_as_its_machine_has_no_age() -> None:
    cut = read_process(Name="tmux:", RunTime=10 * 86_400 - 100)
    assert (cut.name, cut.user, cut.started_at) == ("tmux:", "alice", None)


def test_a_user_without_a_name_is_not_called_unknown() -> None:
    assert read_process(Username="unknown").user is None


def test_a_process_without_a_pid_gets_a_synthetic_one() -> None:
    one = read_process(Pid=None)
    assert one.pid_is_made
    assert one.user == "alice"


def test_a_command_line_that_is_not_utf8_hides_nothing() -> None:
    body = encode_message(node(device(), device(1, Processes=[process(), process(2)])))
    bent = body.replace(b"train.py", b"tr\xff\xfen.py", 1)
    snapshot = read(bent)
    assert len(snapshot.gpus) == 2
    first, second = snapshot.gpus[1].processes or ()
    assert first.command == "python tr\ufffd\ufffdn.py --lr 0.1"
    assert second.command == "python train.py --lr 0.1"


@pytest.mark.parametrize("length", [10, 100, 300, 70_000])
def test_texts_of_every_length_may_be_invalid_utf8(length: int) -> None:
    body = encode_message(node(device(Processes=[process(ExtendedCommand="~" + "x" * length)])))
    (gpu,) = read(body.replace(b"~", b"\xff")).gpus
    (one,) = gpu.processes or ()
    assert one.command is not None
    assert one.command.startswith("\ufffdxxx")


def test_secrets_and_escape_codes_do_not_get_through() -> None:
    one = read_process(
        ExtendedCommand="python\0--password\0hunter2\0", Name="\x1b[31mx", Username="a\x07b"
    )
    assert one.command == "python --password •••"
    assert one.name == "[31mx"
    assert one.user == "a b"
    assert read(node(device(Name="\x1b]0;x\x07GPU"), Name="a\nb")).name == "a b"


def test_one_bad_field_one_bad_process_and_one_bad_device_hide_nothing_else() -> None:
    bad = device(1, Utilization=2**63, FanSpeed="fast", MemoryUtilization={"Used": -1, "Total": 5})
    crowded = device(2, Processes=[process(), 17, process(2, UsedGpuMemory=2**64 - 1)])
    snapshot = read(node(device(), bad, crowded, Extra=b"\xff"))
    assert [gpu.index for gpu in snapshot.gpus] == [0, 1, 2]
    assert (snapshot.gpus[1].busy_percent, snapshot.gpus[1].fan_percent) == (None, None)
    assert snapshot.gpus[1].temperature_celsius == 40
    first, last = snapshot.gpus[2].processes or ()
    assert (first.pid, last.pid, last.gpu_memory_bytes) == (4711, 2, None)


def test_unreadable_processes_are_not_an_empty_list() -> None:
    (gpu,) = read(node(device(Processes=[1, 2]))).gpus
    assert gpu.processes is None


def test_a_node_without_devices_is_reported_as_failed() -> None:
    nothing: tuple[Any, ...] = (None, [])
    for devices in nothing:
        snapshot = read(node(Devices=devices))
        assert (snapshot.gpus, snapshot.runs[0].outcome) == ((), "failed")
        assert "no GPU" in snapshot.runs[0].detail


@pytest.mark.parametrize(
    "body, message",
    [
        (b"", "breaks off"),
        (b"\xc1", "not msgpack"),
        (encode_message([1, 2]), "must be"),
        (encode_message({"Name": ""}), "without a name"),
        (encode_message({"Name": "\x1b\x00"}), "without a name"),
        (encode_message({"Devices": []}), "without a name"),
        (encode_message(node(device()))[:-9], "breaks off"),
        (b"\x91" * 5000, "must be"),
        (b"x" * (MAX_NODE_BYTES + 1), "more than the limit"),
    ],
)
def test_what_is_not_a_node_is_undecodable(body: bytes, message: str) -> None:
    with pytest.raises(Undecodable, match=message):
        decode_node(body)


def test_a_message_with_too_many_bad_fields_is_undecodable() -> None:
    wrong = encode_message(node(*(device(Processes=[{"Pid": "x"}] * 1000) for _ in range(100))))
    assert len(wrong) < MAX_NODE_BYTES
    with pytest.raises(Undecodable, match="too many fields"):
        decode_node(wrong)


def test_names_that_collide_in_an_id_get_two_ids() -> None:
    ids = [node_id_from_name(name) for name in ("a b", "a-b", "a\tb", "x" * 200, "x" * 201)]
    assert len(set(ids)) == len(ids)
    assert node_id_from_name("gpu01") != node_id_from_name("gpu01", "10.0.0.2")


def test_one_bad_node_of_a_cluster_hides_no_other() -> None:
    decoded = decode_cluster(
        encode_message({"Nodes": [node(device()), 7, {"Name": ""}, node(Name="b")]})
    )
    assert [one.name for one in decoded] == ["gpu01", "b"]
    with pytest.raises(Undecodable):
        decode_cluster(encode_message({"Nodes": [7]}))


def test_an_empty_cluster_has_no_nodes() -> None:
    assert decode_cluster(bytes.fromhex("81a54e6f646573c0")) == ()


def test_what_is_not_a_cluster_is_undecodable() -> None:
    for body in (b"", encode_message(node(device())), encode_message({"Nodes": 5}), b"\xff"):
        with pytest.raises(Undecodable, match="not a message of a cluster-smi router"):
            decode_cluster(body)


ANYTHING = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**64 - 1)
    | st.floats()
    | st.text(max_size=9)
    | st.binary(max_size=9),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=9), inner),
    max_leaves=6,
)
FIELDS = {
    "node": ("Name", "Devices", "Time", "BootTime", "ClockTicks", "Comment", "CPUUtil"),
    "device": tuple(device()),
    "process": tuple(process()),
}


@given(st.binary(max_size=200))
def test_any_bytes_are_a_node_or_undecodable(body: bytes) -> None:
    for decode in (decode_node, decode_cluster):
        try:
            decode(body)
        except Undecodable as error:
            assert str(error).isprintable()


@given(
    st.dictionaries(st.sampled_from(FIELDS["node"]), ANYTHING),
    st.dictionaries(st.sampled_from(FIELDS["device"]), ANYTHING),
    st.dictionaries(st.sampled_from(FIELDS["process"]), ANYTHING),
)
def test_any_node_becomes_a_harmless_snapshot(
    in_node: dict[str, Any], in_device: dict[str, Any], in_process: dict[str, Any]
) -> None:
    full_text = device(**({"Processes": [process() | in_process, process(2)]} | in_device))
    decoded = node(full_text, device(1)) | in_node
    try:
        snapshot = read(decoded)
    except Undecodable:
        name = decoded["Name"]
        name = name.decode("utf-8", "replace") if isinstance(name, bytes) else name
        assert not isinstance(name, str) or not sanitize_text(name, 128)
        return
    texts = msgspec.json.encode(snapshot).decode()
    assert sanitize_text(texts, len(texts)) == texts
    assert snapshot.node_id.isascii()
    if "Devices" not in in_node:
        assert [gpu.uuid for gpu in snapshot.gpus[1:]] == [f"gpu1@{snapshot.node_id}"]


@pytest.mark.parametrize(
    "name, gpus",
    [
        ("node-to-router.real", 4),
        ("node-to-router.synthetic", 2),
        ("node-to-router.fork-msgpackv5.synthetic", 1),
        ("seed-version-node-to-server.real", 4),
    ],
)
def test_every_sample_of_a_node_is_decoded_as_expected(name: str, gpus: int) -> None:
    snapshot = read(seed_sample(f"cluster-smi/{name}.bin"))
    sent_text = msgspec.json.decode(seed_sample(f"cluster-smi/{name}.decoded.json"))
    assert snapshot.name == sent_text["Name"]
    assert len(snapshot.gpus) == len(sent_text["Devices"]) == gpus
    for gpu, decoded in zip(snapshot.gpus, sent_text["Devices"], strict=True):
        memory = decoded["MemoryUtilization"]
        assert (gpu.index, gpu.name, gpu.busy_percent) == (
            decoded["Id"],
            decoded["Name"],
            decoded["Utilization"],
        )
        assert (gpu.memory_used_bytes, gpu.memory_total_bytes) == (memory["Used"], memory["Total"])
        assert gpu.temperature_celsius == decoded.get("Temperature")
        assert gpu.power_watts == decoded.get("PowerUsage")
        assert gpu.fan_percent == (decoded.get("FanSpeed") or None)
        if "Processes" not in decoded:
            assert gpu.processes is None
            continue
        for one, of in zip(gpu.processes or (), decoded["Processes"] or (), strict=True):
            assert (one.pid, one.user, one.name) == (of["Pid"], of["Username"], of["Name"])
            assert one.gpu_memory_bytes == of["UsedGpuMemory"]
            assert one.command == of["ExtendedCommand"].strip("\0").replace("\0", " ")
            assert one.started_at == pytest.approx(snapshot.taken_at - of["RunTime"])


@pytest.mark.parametrize("name", ["router-to-client.mixed", "router-to-client.real"])
def test_every_sample_of_a_cluster_is_decoded_as_expected(name: str) -> None:
    nodes = decode_cluster(seed_sample(f"cluster-smi/{name}.bin"))
    sent_text = msgspec.json.decode(seed_sample(f"cluster-smi/{name}.decoded.json"))["Nodes"]
    assert [one.name for one in nodes] == [one["Name"] for one in sent_text]
    for decoded, of in zip(nodes, sent_text, strict=True):
        seconds, nanoseconds = of["Time"]["__msgpack_timestamp__"]
        wanted = None if seconds < 0 else pytest.approx(seconds + nanoseconds / 1e9)
        assert decoded.timestamp == wanted
        assert len(decoded.devices or ()) == len(of["Devices"] or ())


def test_commands_of_a_very_long_message_are_dropped() -> None:
    def people(command: str) -> tuple[Process, ...]:
        crowd = [process(Pid=at, ExtendedCommand=command) for at in range(1, 101)]
        (gpu,) = read(node(device(Processes=crowd))).gpus
        return gpu.processes or ()

    assert {one.command for one in people("python x" * 100)} == {"python x" * 100}
    unheard = people("python x" * 400)
    assert len(unheard) == 100
    assert all(one.user and one.name and one.command is None for one in unheard)
