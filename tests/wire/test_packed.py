"""Packed reports: the same as compact ones, number by number, or refused as those are."""

import struct
from math import inf, nan
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from fleet_smi.errors import DeliveryError, NeedsFullReport, Undecodable, UnsupportedVersion
from fleet_smi.model.snapshot import Snapshot
from fleet_smi.wire.compact import CompactReport, compact, expand
from fleet_smi.wire.compact_codec import decode_compact, encode_compact
from fleet_smi.wire.figure_codes import NoCode
from fleet_smi.wire.packed import decode_packed, encode_packed, is_packed, pack_figures
from fleet_smi.wire.packed_layout import HEAD, PACKED_COLUMNS, PACKED_VERSION
from tests.builders import NOON, gpu, process, snapshot
from tests.wire.moving_snapshots import SnapshotMover, busy_machine

HUB = "0123456789abcdef"
REPORTS = Path(__file__).parent / "reports"
BASE = snapshot(gpu(0, processes=(process(),)), gpu(1), run_id="run-1", sequence=7)


def compacted(base: Snapshot, now: Snapshot) -> CompactReport:
    report = compact(base, now)
    assert report is not None
    return report


def moved(**fields: object) -> CompactReport:
    first = replace(BASE.gpus[0], **fields)
    return compacted(BASE, replace(BASE, sequence=8, gpus=(first, BASE.gpus[1])))


@given(st.integers(0, 2**32))
def test_it_says_what_a_compact_report_says(seed: int) -> None:
    mover = SnapshotMover(seed)
    base = mover.snapshot()
    now = mover.move(base)
    report = compacted(base, now)
    if report.instances is not None:
        with pytest.raises(NoCode):
            pack_figures(report)
        return
    body = encode_packed(report, NOON, HUB)
    assert is_packed(body)
    decoded = decode_packed(body)
    assert decoded == decode_compact(encode_compact(report, NOON, HUB))
    assert expand(base, decoded) == now


def test_a_steady_report_of_eight_gpus_has_less_than_500_bytes() -> None:
    body = encode_packed(compacted(busy_machine(0), busy_machine(1)), NOON, HUB)
    assert len(body) < 500


def test_a_packed_report_of_an_older_agent_is_read() -> None:
    body = (REPORTS / "report-v3.packed").read_bytes()
    assert body[1] != PACKED_VERSION
    assert expand(busy_machine(0), decode_packed(body)) == busy_machine(1)


def test_the_masks_of_the_head_have_a_bit_for_every_column() -> None:
    # Beyond that, every report would be sent as a compact one, which costs a hub more.
    assert len(PACKED_COLUMNS) <= 32


def test_what_does_not_fit_is_sent_as_version_4() -> None:
    with pytest.raises(NoCode):
        encode_packed(moved(power_watts=80.0), NOON, "of-a-cluster-with-a-long-generation")
    for number in (nan, 2**60 + 1):
        with pytest.raises(NoCode):
            pack_figures(replace(moved(power_watts=80.0), run_seconds=(number,)))


def test_numbers_beyond_their_limits_need_the_full_report() -> None:
    for fields in (
        {"busy_percent": 101.0},
        {"busy_percent": inf},
        {"power_watts": -5.0},
        {"temperature_celsius": 1e30},
        {"sm_clock_mhz": 0.5},
    ):
        body = encode_packed(moved(**fields), NOON, HUB)
        with pytest.raises(NeedsFullReport):
            decode_packed(body)


def test_broken_bytes_are_refused() -> None:
    good = encode_packed(moved(power_watts=80.125), NOON, HUB)
    for bad in (good[:-1], good[:-4], good + b"\0\0\0\0", good[:20], good[:1]):
        with pytest.raises(Undecodable):
            decode_packed(bad)
    with pytest.raises(UnsupportedVersion, match="version 9"):
        decode_packed(good[:1] + b"\x09" + good[2:])
    masks = struct.pack("<II", 1, 1)
    with pytest.raises(Undecodable):
        decode_packed(good[: HEAD.size - 8] + masks + good[HEAD.size :])


@given(st.binary(max_size=200))
def test_random_bytes_are_refused_or_are_a_report(tail: bytes) -> None:
    for body in (b"\xc1\x05" + tail, b"\xc1\x03" + tail, b"\xc1" + tail):
        try:
            assert isinstance(decode_packed(body), CompactReport)
        except DeliveryError as error:
            assert str(error)
