"""The report codec: round trips, and errors for what is no report."""

from pathlib import Path
from typing import Any

import msgspec
import pytest

from fleet_smi.errors import Undecodable, UnsupportedVersion
from fleet_smi.model.snapshot import CollectorRun, Fault, Host, Snapshot
from fleet_smi.wire.report import (
    MAX_REPORT_BYTES,
    MAX_SNAPSHOTS,
    REPORT_VERSION,
    Receipt,
    Report,
    decode_receipt,
    decode_report,
    encode_receipt,
    encode_report,
    encode_report_json,
    encode_snapshot,
)
from tests.builders import NOON, gpu, instance, process, snapshot

REPORTS = Path(__file__).parent / "reports"


def everything() -> Snapshot:
    """A snapshot with each kind of part in it."""
    busy = process(command='python train.py --name "two words"', uid=1000, cpu_percent=99.5)
    return snapshot(
        gpu(0, processes=(busy,), throttle_reasons=("power cap",), unread={"fan_percent": "N/A"}),
        gpu(1, instances=(instance(1, processes=(busy,)),), mig_mode=True),
        gpu(2, processes=None, fault=Fault(kind="lost", detail="GPU is lost", since=NOON)),
        run_id="run-1",
        agent_version="0.3.0",
        labels={"rack": "7", "owner": "Müller"},
        host=Host(addresses=("10.0.0.7",), kernel="6.1.0", cpu_count=96, load_1_minute=3.5),
        runs=(CollectorRun(name="nvidia", outcome="ok", seconds=0.012),),
    )


def report_of(*snapshots: Any, **fields: Any) -> bytes:
    """A report of snapshots as plain values."""
    sent = {"version": REPORT_VERSION, "sent_at": NOON, "snapshots": snapshots}
    return msgspec.msgpack.encode(sent | fields)


def test_a_snapshot_round_trips_through_msgpack() -> None:
    sent = everything()
    read = decode_report(encode_report([encode_snapshot(sent)], NOON + 2))
    assert read == Report(version=REPORT_VERSION, sent_at=NOON + 2, snapshots=(sent,))
    assert sent == read.snapshots[0]


def test_a_snapshot_round_trips_through_json() -> None:
    sent = everything()
    assert decode_report(encode_report_json([sent], NOON), json=True).snapshots == (sent,)


def test_the_age_of_a_snapshot_is_by_the_clock_of_its_node() -> None:
    sent = snapshot(taken_at=NOON)
    report = decode_report(encode_report([encode_snapshot(sent)], NOON + 90))
    assert report.age_seconds(report.snapshots[0]) == 90
    ahead = decode_report(encode_report([encode_snapshot(sent)], NOON - 5))
    assert ahead.age_seconds(ahead.snapshots[0]) == 0


def test_an_age_of_years_is_a_clock_that_was_set() -> None:
    """A machine without a battery starts in 1970, and asks a time server a little later."""
    taken = [snapshot(taken_at=at) for at in (30.0, 60.0, NOON - 90, NOON)]
    report = decode_report(encode_report([encode_snapshot(each) for each in taken], NOON + 5))
    assert [report.age_seconds(each) for each in report.snapshots] == [95, 95, 95, 5]
    alone = decode_report(encode_report([encode_snapshot(taken[0])], NOON))
    assert alone.age_seconds(alone.snapshots[0]) == 0


@pytest.mark.parametrize("version", [1])
@pytest.mark.parametrize("form", ["json", "msgpack"])
def test_reports_of_every_released_version_are_decoded(version: int, form: str) -> None:
    body = (REPORTS / f"report-v{version}.{form}").read_bytes()
    assert decode_report(body, json=form == "json").snapshots == (everything(),)


def test_unknown_fields_are_ignored() -> None:
    sent = msgspec.to_builtins(everything()) | {"mood": {"deep": ["new"]}}
    sent["gpus"][0]["colour"] = "green"
    assert decode_report(report_of(sent)).snapshots == (everything(),)


def test_missing_figures_are_none() -> None:
    sent = {"node_id": "n", "name": "n", "taken_at": NOON}
    assert decode_report(report_of(sent)).snapshots == (
        Snapshot(node_id="n", name="n", taken_at=NOON),
    )


def test_the_last_of_duplicate_fields_counts() -> None:
    sent = b'{"node_id": "a", "node_id": "b", "name": "", "taken_at": 1}'
    body = b'{"version": 1, "snapshots": [%b]}' % sent
    assert decode_report(body, json=True).snapshots[0].node_id == "b"


@pytest.mark.parametrize(
    "version, remedy", [(2, "update the hub"), (65_535, "update the hub"), (0, "update the agent")]
)
def test_another_version_is_refused_with_both_versions_and_a_remedy(
    version: int, remedy: str
) -> None:
    for body in (report_of({"node_id": 7}, version=version), report_of(version=version)):
        with pytest.raises(
            UnsupportedVersion, match=f"version {version}; .* knows {REPORT_VERSION}: {remedy}"
        ):
            decode_report(body)


VALID = encode_report([encode_snapshot(everything())], NOON)


@pytest.mark.parametrize(
    "body, message",
    [
        (b"", "an empty message"),
        (b"\x00" * (MAX_REPORT_BYTES + 1), f"a message of {MAX_REPORT_BYTES + 1} bytes"),
        (VALID[:-5], "breaks off"),
        (VALID + b"\x01", "trailing"),
        (b"\x91" * 100_000, "object"),
        (b"\x82\xa7version\x01\xa4deep" + b"\x91" * 100_000, "nested too deep"),
        (b"\x81\xa7version\xdd\xff\xff\xff\xff", "version must be a whole number"),
        (b"\x82\xa7version\x01\xa9snapshots\xdd\xff\xff\xff\xff", "breaks off"),
        (b"\xff garbage", "not a report"),
        (b"\x81\xa3\xff\xff\xff\x01", "not UTF-8|not a report"),
        (report_of(), "without a snapshot"),
        (report_of(*[{}] * (MAX_SNAPSHOTS + 1)), f"no longer than {MAX_SNAPSHOTS}"),
        (report_of(7), "not a snapshot"),
        (report_of({"name": "n", "taken_at": NOON}), "node_id"),
        (report_of({"node_id": "n", "name": "n"}), "taken_at"),
        (report_of({"node_id": "n", "name": "n", "taken_at": float("nan")}), "taken_at"),
        (report_of({"node_id": "n", "name": "n", "taken_at": 1e300}), "taken_at"),
        (report_of({"node_id": "../etc", "name": "n", "taken_at": NOON}), "node_id"),
        (report_of({"node_id": "pull:gpu01", "name": "n", "taken_at": NOON}), "node_id"),
        (report_of({"node_id": "n\n", "name": "n", "taken_at": NOON}), "node_id"),
        (report_of({"node_id": "x" * 200, "name": "n", "taken_at": NOON}), "node_id"),
        (
            report_of(
                *({"node_id": each, "name": "n", "taken_at": NOON} for each in ("one", "two"))
            ),
            "more than one node",
        ),
    ],
    ids=range(22),
)
def test_bytes_that_are_no_report_are_refused_with_one_line(body: bytes, message: str) -> None:
    with pytest.raises(Undecodable, match=message) as caught:
        decode_report(body)
    assert len(str(caught.value)) < 300
    assert str(caught.value).isprintable()


@pytest.mark.parametrize(
    "body, message",
    [
        (b"{", "breaks off"),
        (b"{} x", "trailing|version"),
        (b'{"version": "1"}', "version must be a whole number"),
        (b"[", "object"),
    ],
)
def test_json_that_is_no_report_is_refused_with_one_line(body: bytes, message: str) -> None:
    with pytest.raises(Undecodable, match=message):
        decode_report(body, json=True)


def test_one_bad_snapshot_does_not_hide_the_others() -> None:
    good = msgspec.to_builtins(snapshot(gpu()))
    assert decode_report(report_of(good, good | {"taken_at": None})).snapshots == (snapshot(gpu()),)


def test_an_impossible_sending_time_is_none() -> None:
    report = decode_report(report_of(msgspec.to_builtins(snapshot()), sent_at=float("inf")))
    assert report.sent_at is None
    assert report.age_seconds(report.snapshots[0]) == 0


def test_a_report_says_what_it_continues_also_where_another_field_is_bad() -> None:
    sent = encode_snapshot(snapshot(gpu()))
    assert decode_report(encode_report([sent], NOON)).hub is None
    assert decode_report(encode_report([sent], NOON, "run-of-hub")).hub == "run-of-hub"
    bad = msgspec.to_builtins(snapshot(gpu())) | {"name": 7}
    assert decode_report(report_of(bad, hub="run-of-hub")).hub == "run-of-hub"
    assert decode_report(report_of(bad, hub="x" * 1000)).hub is None
    assert decode_report(report_of(bad, hub=7)).hub is None


def test_a_receipt_round_trips() -> None:
    receipt = Receipt(hub="life-1", kept=7, interval_seconds=10.0)
    assert decode_receipt(encode_receipt(receipt)) == receipt
    with pytest.raises(Undecodable, match="no receipt"):
        decode_receipt(b"<html>")
