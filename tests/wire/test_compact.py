"""Compact reports: what they carry, what they leave to a full one, and what they cost."""

from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from fleet_smi.errors import DeliveryError, NeedsFullReport, Undecodable, UnsupportedVersion
from fleet_smi.model.snapshot import CollectorRun, Fault, Host, Snapshot
from fleet_smi.model.snapshot_figures import (
    GpuFigures,
    HostFigures,
    InstanceFigures,
    ProcessFigures,
    figures_of,
    memory_limits,
    with_figures,
)
from fleet_smi.wire.compact import CompactReport, builds_on, compact, expand, merge
from fleet_smi.wire.compact_codec import decode_compact, encode_compact, is_compact
from fleet_smi.wire.report import encode_report, encode_snapshot
from tests.builders import NOON, gpu, instance, process, snapshot
from tests.wire.moving_snapshots import SnapshotMover, busy_machine

REPORTS = Path(__file__).parent / "reports"
HUB = "0123456789abcdef"
BASE = snapshot(
    gpu(0, processes=(process(),)),
    gpu(1, instances=(instance(1, processes=(process(4712),)),), mig_mode=True),
    run_id="run-1",
    sequence=7,
    host=Host(cpu_count=96),
    runs=(CollectorRun(name="nvidia", outcome="ok", seconds=0.012),),
)


def sent(base: Snapshot, now: Snapshot) -> CompactReport:
    """The compact report as a hub decodes it."""
    report = compact(base, now)
    assert report is not None
    return decode_compact(encode_compact(report, NOON, HUB))


def moved(**fields: Any) -> Snapshot:
    """The base, with other values in its first GPU."""
    return replace(BASE, sequence=8, gpus=(replace(BASE.gpus[0], **fields), BASE.gpus[1]))


def altered(position: int, value: Any) -> bytes:
    """A good report in which one element is another."""
    good = compact(BASE, moved(busy_percent=50.0))
    assert good is not None
    elements = msgspec.msgpack.decode(encode_compact(good, NOON, HUB))
    elements[position] = value
    return msgspec.msgpack.encode(elements)


def gpu_columns(**columns: Any) -> bytes:
    """A report with these columns of GPUs."""
    fields = GpuFigures.__struct_fields__
    return altered(8, [columns.get(field) for field in fields])


@given(st.integers(0, 2**32))
def test_a_snapshot_of_which_only_figures_moved_comes_out_as_it_went_in(seed: int) -> None:
    mover = SnapshotMover(seed)
    base = mover.snapshot()
    now = mover.move(base)
    report = sent(base, now)
    assert builds_on(report, base)
    assert not builds_on(report, replace(now, sequence=base.sequence + 5))
    assert not builds_on(report, replace(base, run_id="run-2"))
    assert expand(base, report) == now
    figures = merge(figures_of(base), report, memory_limits(base))
    assert figures == figures_of(now)
    assert with_figures(base, figures) == now


def other_value(field: str, value: Any) -> Any:
    """A valid value of the same kind."""
    if field == "throttle_reasons":
        return ("of an unknown driver",)
    if isinstance(value, bool):
        return not value
    if isinstance(value, str):
        return {"ok": "failed", "nvidia": "amd", "compute": "graphics"}.get(value, f"{value}-2")
    if isinstance(value, dict):
        return {"power_watts": "unknown"}
    if isinstance(value, tuple):
        return () if value else (value,)
    return 3 if value is None else value + 1


@pytest.mark.parametrize("part", ["snapshot", "host", "gpu", "instance", "process", "run"])
def test_whatever_else_changes_is_carried_or_makes_the_report_a_full_one(part: str) -> None:
    card, divided = BASE.gpus
    (piece,) = divided.instances
    (worker,) = piece.processes or ()

    def now(new: Any) -> Snapshot:
        if part == "snapshot":
            return new  # type: ignore[no-any-return]
        if part == "host":
            return replace(BASE, host=new)
        if part == "run":
            return replace(BASE, runs=(new,))
        if part == "gpu":
            return replace(BASE, gpus=(new, divided))
        new = new if part == "instance" else replace(piece, processes=(new,))
        return replace(BASE, gpus=(card, replace(divided, instances=(new,))))

    parts = {
        "snapshot": BASE,
        "host": BASE.host,
        "run": BASE.runs[0],
        "gpu": card,
        "instance": piece,
        "process": worker,
    }
    carried = {
        "gpu": GpuFigures,
        "instance": InstanceFigures,
        "process": ProcessFigures,
        "host": HostFigures,
    }
    was: Any = parts[part]
    nested = {"gpus", "instances", "processes", "host", "runs"}
    for field in {*was.__struct_fields__} - nested:
        changed = now(replace(was, **{field: other_value(field, getattr(was, field))}))
        report = compact(BASE, changed)
        figures = carried[part].__struct_fields__ if part in carried else ()
        if report is None:
            # A text that is no usual one is not carried either.
            assert field not in {*figures} - {"performance_state", "throttle_reasons", "condition"}
        else:
            assert field in (*figures, "taken_at", "sequence", "seconds")
            assert expand(BASE, report) == changed


def test_processes_that_come_and_go_make_the_report_a_full_one() -> None:
    assert compact(BASE, moved(processes=())) is None
    assert compact(BASE, moved(processes=None)) is None
    assert compact(BASE, moved(processes=(process(), process(9)))) is None
    assert compact(BASE, moved(fault=Fault(kind="lost", detail="lost"))) is None
    assert compact(BASE, replace(BASE, gpus=BASE.gpus[:1])) is None
    without_run = replace(BASE, run_id=None)
    assert compact(without_run, without_run) is None


@pytest.mark.parametrize("value", [float("nan"), float("inf"), -1.0, 100.5, 1e300])
def test_an_impossible_figure_is_left_to_the_full_report(value: float) -> None:
    report = compact(BASE, moved(busy_percent=value))
    assert report is not None
    with pytest.raises(NeedsFullReport):
        decode_compact(encode_compact(report, NOON, HUB))


@pytest.mark.parametrize(
    "body",
    [
        gpu_columns(busy_percent=[1]),
        gpu_columns(busy_percent=[1, 2, 3]),
        gpu_columns(busy_percent=[1] * 129),
        gpu_columns(busy_percent=["1", 2]),
        gpu_columns(busy_percent=[True, 2]),
        gpu_columns(power_watts=[5001, 2]),
        gpu_columns(performance_state=[16, 0]),
        gpu_columns(performance_state=["P0", "P0"]),
        gpu_columns(throttle_reasons=[1 << 17, 0]),
        gpu_columns(memory_used_bytes=[BASE.gpus[0].memory_total_bytes, 2**49]),
        altered(9, [[11 * 2**30], None]),
        altered(9, [[1, 2], None]),
        altered(10, [[1], None, None, None, None]),
        altered(10, [None, None, None, None, [2, 2]]),
        altered(11, [1, 2]),
        altered(11, [-1]),
        altered(7, [1, 2]),
        altered(8, [None]),
        altered(5, 2**60),
        altered(6, -1.0),
        altered(1, float("inf")),
        altered(2, "x" * 129),
        msgspec.msgpack.encode([2]),
        msgspec.msgpack.encode([2, NOON, HUB, 0, 7, 8, NOON]),
        msgspec.msgpack.encode([*msgspec.msgpack.decode(altered(7, None)), None]),
    ],
    ids=range(25),
)
def test_figures_that_break_a_limit_or_do_not_fit_are_left_to_the_full_report(body: bytes) -> None:
    with pytest.raises(NeedsFullReport):
        expand(BASE, decode_compact(body))
    with pytest.raises(NeedsFullReport):
        merge(figures_of(BASE), decode_compact(body), memory_limits(BASE))


def test_memory_whose_reading_failed_is_left_to_the_full_report() -> None:
    base = moved(memory_used_bytes=None, unread={"memory_used_bytes": "out of range"})
    now = replace(base, gpus=(replace(base.gpus[0], memory_used_bytes=1), base.gpus[1]))
    with pytest.raises(NeedsFullReport):
        expand(base, sent(base, now))


@pytest.mark.parametrize(
    ("body", "error"),
    [
        (b"\x9c", Undecodable),
        (b"\x91\xa1x", Undecodable),
        (b"\x91" * 100_000, Undecodable),
        (altered(0, 3), UnsupportedVersion),
        (altered(0, 2)[:-3], Undecodable),
        (altered(0, 2) + b"\x00", Undecodable),
    ],
    ids=range(6),
)
def test_what_is_no_compact_report_is_refused(body: bytes, error: type[DeliveryError]) -> None:
    assert is_compact(body)
    with pytest.raises(DeliveryError) as caught:
        decode_compact(body)
    assert type(caught.value) is error


@given(st.binary(max_size=200))
def test_any_bytes_are_a_report_or_a_one_line_error(body: bytes) -> None:
    try:
        decode_compact(b"\x9c" + body)
    except DeliveryError as error:
        assert str(error).isprintable()


def test_a_compact_report_of_the_first_release_with_them_is_read() -> None:
    report = decode_compact((REPORTS / "report-v2.msgpack").read_bytes())
    assert is_compact((REPORTS / "report-v2.msgpack").read_bytes())
    assert (report.sent_at, report.hub) == (NOON, HUB)
    assert expand(busy_machine(0), report) == busy_machine(1)


def test_a_steady_report_of_eight_gpus_and_five_processes_is_under_500_bytes() -> None:
    before, now = busy_machine(0), busy_machine(1)
    report = compact(before, now)
    assert report is not None
    assert len(encode_compact(report, NOON, HUB)) < 500
    assert len(encode_report([encode_snapshot(now)], NOON, HUB)) > 7000


def test_whole_numbers_are_short_though_they_are_floats() -> None:
    lengths = [
        len(encode_compact(report, NOON, HUB))
        for percent in (50.0, 50.5)
        if (report := compact(BASE, moved(busy_percent=percent)))
    ]
    assert lengths[1] - lengths[0] == 2 * 8
