"""Lenient decoding of hostile reports: what is valid stays, what is not has a reason."""

from typing import Any

import msgspec
import pytest

from fleet_smi.errors import Undecodable
from fleet_smi.model.process_limit import MAX_PROCESSES_PER_DEVICE
from fleet_smi.model.snapshot import Gpu, Process, Snapshot
from fleet_smi.wire.limits import MAX_ITEMS, MAX_LENGTH_BY_FIELD, MAX_TEXT_LENGTH
from fleet_smi.wire.report import decode_report
from tests.builders import NOON, gpu, instance, process, snapshot

RIGHT_TO_LEFT = "\u202e"


def received(sent: Any, *, json: bool = False) -> Snapshot:
    """What is read of one snapshot, given as plain values."""
    encode = msgspec.json.encode if json else msgspec.msgpack.encode
    body = encode({"version": 1, "sent_at": NOON, "snapshots": [sent]})
    return decode_report(body, json=json).snapshots[0]


def plain(*gpus: Gpu, **fields: Any) -> dict[str, Any]:
    sent: dict[str, Any] = msgspec.to_builtins(snapshot(*gpus, agent_version="1"))
    return sent | fields


def received_gpu(**fields: Any) -> Gpu:
    """What is read of a GPU with these fields, beside one that is as it should be."""
    sent = plain(gpu(0), gpu(1))
    sent["gpus"][0].update(fields)
    first, second = received(sent).gpus
    assert second == gpu(1)
    return first


def received_process(**fields: Any) -> Process:
    sent = msgspec.to_builtins(process()) | fields
    (first, second) = (
        received_gpu(processes=[sent, msgspec.to_builtins(process(2))]).processes or ()
    )
    assert second == process(2)
    return first


@pytest.mark.parametrize(
    "field, sent, why",
    [
        ("busy_percent", float("nan"), "out of range: nan"),
        ("busy_percent", float("inf"), "out of range: inf"),
        ("busy_percent", 250, "out of range: 250"),
        ("memory_used_bytes", -1, "out of range: -1"),
        ("memory_used_bytes", 2**64 - 1, "out of range: 1.84467e+19"),
        ("memory_total_bytes", "80 GB", "not a number"),
        ("sm_clock_mhz", 1980.5, "not a whole number"),
        ("power_watts", True, "not a number"),
        ("temperature_celsius", [], "not a number"),
        ("persistence", "yes", "not known here"),
        ("name", 7, "not understood"),
        ("throttle_reasons", "power cap", "not understood"),
        ("processes", {"pid": 1}, "not understood"),
        ("processes", [7], "not all could be read"),
    ],
)
def test_one_bad_field_is_none_with_a_reason(field: str, sent: Any, why: str) -> None:
    read = received_gpu(**{field: sent})
    assert getattr(read, field) is None
    assert read.unread == {field: why}
    assert read.name == (None if field == "name" else gpu().name)


def test_a_number_beyond_64_bits_is_none_with_a_reason() -> None:
    sent = plain(gpu(0), gpu(1))
    sent["gpus"][0]["memory_used_bytes"] = 10**30
    first, second = received(sent, json=True).gpus
    assert first.unread == {"memory_used_bytes": "out of range: 1e+30"}
    assert second == gpu(1)


def test_more_memory_used_than_total_is_none_with_a_reason() -> None:
    read = received_gpu(memory_used_bytes=2000, memory_total_bytes=1000)
    assert read.memory_used_bytes is None
    assert read.unread == {"memory_used_bytes": "out of range: more than there is"}


@pytest.mark.parametrize(
    "sent, shown",
    [
        ("\x1b[31mH100\x1b[0m", "[31mH100 [0m"),
        (f"H{RIGHT_TO_LEFT}001", "H 001"),
        ("two\nlines", "two lines"),
        ("\x7f", ""),
        ("<script>", "<script>"),
        ('a "quoted" \\ name', 'a "quoted" \\ name'),
        ("山田 ü", "山田 ü"),
        ("x" * 1000, "x" * 127 + "…"),
    ],
)
def test_a_text_is_sanitised_and_truncated(sent: str, shown: str) -> None:
    assert received_gpu(name=sent).name == shown
    assert received_process(user=sent).user == shown
    assert received(plain(host={"kernel": sent})).host.kernel == shown


def test_a_command_may_be_longer_than_a_name() -> None:
    assert received_process(command="x" * 4096).command == "x" * 4096
    assert received_process(command="x" * 10**6).command == "x" * 4095 + "…"


@pytest.mark.parametrize("agent_version", [None, "1"])
def test_secrets_are_redacted_whatever_the_sender_calls_itself(agent_version: str | None) -> None:
    line, shown = "app --password=hunter2", "app --password=•••"
    sent = gpu(processes=(process(command=line, name=line),))
    report = received(plain(sent, agent_version=agent_version))
    assert report.gpus[0].processes == (process(command=shown, name=shown),)


@pytest.mark.parametrize(
    "field, sent, expected",
    [
        ("uid", 2**40, None),
        ("kind", "quantum", "compute"),
        ("condition", "sleeping", None),
        ("hidden", "no", False),
        ("started_at", -5.0, None),
        ("slurm_job", 4711, None),
    ],
)
def test_a_process_with_a_bad_field_is_still_there(field: str, sent: Any, expected: Any) -> None:
    read = received_process(**{field: sent})
    assert getattr(read, field) == expected
    assert read.pid == process().pid


def test_only_the_largest_of_too_many_processes_stay() -> None:
    sent = plain(gpu(0), gpu(1))
    sent["gpus"][0]["processes"] = [
        {"pid": pid, "kind": "compute", "gpu_memory_bytes": pid << 20} for pid in range(5000)
    ]
    first, second = received(sent).gpus
    assert first.processes is not None
    assert [item.pid for item in first.processes] == [
        *range(4999, 4999 - MAX_PROCESSES_PER_DEVICE, -1)
    ]
    assert first.more_processes == 5000 - MAX_PROCESSES_PER_DEVICE
    assert first.unread == {}
    assert second == gpu(1)


def test_too_many_invalid_items_are_refused() -> None:
    sent = plain(*(gpu(index) for index in range(30)))
    for item in sent["gpus"]:
        item["processes"] = [{"pid": pid, "kind": "odd"} for pid in range(1000)]
    with pytest.raises(Undecodable, match="more than 20000 items"):
        received(sent)


def test_only_the_first_of_too_many_gpus_stay_and_a_run_says_so() -> None:
    sent = plain(*(gpu(index) for index in range(MAX_ITEMS["gpus"] + 1)))
    read = received(sent)
    assert [item.index for item in read.gpus] == [*range(MAX_ITEMS["gpus"])]
    (run,) = read.runs
    assert (run.name, run.outcome) == ("report", "failed")
    assert run.detail == "gpus: 129 were sent; only the first 128 are shown"


@pytest.mark.parametrize("sent", [7, "none", {"a": 1}, [7, 8]])
def test_gpus_that_cannot_be_decoded_are_reported_in_a_run(sent: Any) -> None:
    read = received(plain(gpus=sent))
    assert read.gpus == ()
    assert read.runs[0].outcome == "failed"
    assert read.runs[0].detail.startswith("gpus: not ")


def test_a_gpu_of_an_unknown_vendor_does_not_hide_the_others() -> None:
    sent = plain(gpu(0), gpu(1))
    sent["gpus"][0]["vendor"] = "acme"
    read = received(sent)
    assert read.gpus == (gpu(1),)
    assert read.runs[0].detail.startswith("gpus: not all could be read")


def test_a_gpu_without_an_id_gets_a_placeholder_by_position() -> None:
    sent = plain(gpu(0), gpu(1))
    del sent["gpus"][1]["uuid"]
    sent["gpus"][1]["index"] = -3
    _, second = received(sent).gpus
    assert (second.uuid, second.index, second.uuid_is_made) == ("GPU-of-unknown-uuid-1", 1, True)


def test_devices_with_the_same_id_are_made_unique() -> None:
    part = instance(uuid="GPU-x")
    sent = plain(gpu(0, uuid="GPU-x"), gpu(1, uuid="GPU-x", instances=(part,)), gpu(2, uuid=""))
    first, second, third = received(sent).gpus
    ids = [first.uuid, second.uuid, second.instances[0].uuid, third.uuid]
    assert ids == ["GPU-x", "GPU-x#2", "GPU-x#3", "of-unknown-uuid#2"]
    assert [first.uuid_is_made, second.uuid_is_made, third.uuid_is_made] == [False, True, True]


def test_a_fault_of_an_unknown_kind_is_still_a_fault() -> None:
    later = received_gpu(fault={"kind": "on_fire", "detail": "smoke"}).fault
    assert later is not None and (later.kind, later.detail) == ("unreadable", "smoke")
    odd = received_gpu(fault="broken").fault
    assert odd is not None and odd.kind == "unreadable"


def test_instances_that_cannot_be_decoded_are_reported_in_unread() -> None:
    assert received_gpu(instances="seven").unread == {"instances": "not understood"}


def test_a_run_with_an_unknown_outcome_counts_as_failed() -> None:
    sent = {"name": "nvidia", "outcome": "odd", "seconds": 0.1, "detail": "\x1bwhy"}
    runs = received(plain(runs=[sent])).runs
    assert [(item.name, item.outcome) for item in runs] == [
        ("report", "failed"),
        ("nvidia", "failed"),
    ]


def test_labels_are_sanitised_and_truncated() -> None:
    sent = plain(labels={"\x1brack" * 100: "\n" + "x" * 1000})
    ((name, value),) = received(sent).labels.items()
    assert name.startswith("rack rack") and len(name) <= MAX_TEXT_LENGTH
    assert value == "x" * (MAX_LENGTH_BY_FIELD["labels"] - 1) + "…"


def test_only_the_first_of_too_many_labels_stay() -> None:
    sent = plain(labels={f"label{number}": "x" for number in range(1000)})
    assert len(received(sent).labels) == MAX_ITEMS["labels"]


def test_one_bad_label_does_not_hide_the_others() -> None:
    assert received(plain(labels={"rack": "7", "floor": 3})).labels == {"rack": "7"}


def test_a_node_without_a_name_is_named_by_its_id() -> None:
    assert received(plain(name="\x00")).name == "id-of-gpu01"
    assert received(plain(name=["x"])).name == "id-of-gpu01"


def test_an_invalid_run_id_is_dropped() -> None:
    read = received(plain(run_id="../../x"))
    assert read.run_id is None
    assert read.runs[0].detail == "run_id: not understood"
