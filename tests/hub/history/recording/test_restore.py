"""A recorder restored from a checkpoint continues as if it had never stopped."""

from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from fleet_smi.fleet.fleet import FleetChange, FleetState
from fleet_smi.model.history import Period
from tests.hub.history.in_memory_history import InMemoryHistory, RecordedFleet
from tests.hub.history.scripted_reports import (
    REPORTS,
    START,
    ScriptedReport,
    approx_sum,
    to_snapshot,
)


def judged(reports: list[ScriptedReport]) -> list[FleetChange]:
    fleet, at, changes = FleetState(), START, []
    for number, one in enumerate(reports, 1):
        at += one.delay_seconds
        change = fleet.apply(to_snapshot(one, number), at)
        assert change is not None
        changes.append(replace(change, standings=dict(change.standings)))
    return changes


def record_all(changes: list[FleetChange], watched: RecordedFleet) -> None:
    for change in changes:
        watched.fleet.apply(change.snapshot, change.at)
        watched.history.record(change)
        watched.history.tick(change.at)


def ended(watched: RecordedFleet, changes: list[FleetChange]) -> InMemoryHistory:
    watched.history.tick(changes[-1].at + 100)
    return watched.stored


def assert_same(one: InMemoryHistory, other: InMemoryHistory) -> None:
    for uuid in ("GPU-00000000", "GPU-00000001"):
        assert stood(one, uuid) == stood(other, uuid)
        ours, theirs = one.occupancies(uuid), other.occupancies(uuid)
        assert [(it.start, it.end, it.certain) for it in ours] == [
            (it.start, it.end, it.certain) for it in theirs
        ]
        assert [it.sums.gpu_seconds for it in ours] == approx_sum(
            [it.sums.gpu_seconds for it in theirs]
        )
    assert one.presence() == other.presence()
    assert sums(one) == approx_sum(sums(other))


def stood(kept: InMemoryHistory, uuid: str) -> list[Period]:
    """The periods without their load: of figures that come close together some are left out."""
    return [replace(period, busy_percent=None) for period in kept.periods(uuid)]


def sums(kept: InMemoryHistory) -> dict[object, float]:
    return {
        (row.hour, row.gpu_key, row.user, row.state): row.sums.gpu_seconds for row in kept.usage()
    }


@settings(max_examples=40)
@given(REPORTS, st.integers(1, 30))
def test_after_a_kill_resent_reports_restore_everything(
    reports: list[ScriptedReport], killed: int
) -> None:
    changes = judged(reports)
    never_stopped = RecordedFleet()
    record_all(changes, never_stopped)
    first = RecordedFleet()
    record_all(changes[:killed], first)
    second = RecordedFleet(first.stored)
    recent = [one for one in changes if one.at > changes[min(killed, len(changes)) - 1].at - 600]
    record_all(recent, second)
    assert_same(ended(second, changes), ended(never_stopped, changes))


@settings(max_examples=40)
@given(REPORTS, st.integers(0, 30))
def test_after_a_clean_shutdown_nothing_needs_to_be_resent(
    reports: list[ScriptedReport], stopped: int
) -> None:
    changes = judged(reports)
    never_stopped = RecordedFleet()
    record_all(changes, never_stopped)
    first = RecordedFleet()
    record_all(changes[:stopped], first)
    first.history.close()
    second = RecordedFleet(first.stored)
    record_all(changes[stopped:], second)
    assert_same(ended(second, changes), ended(never_stopped, changes))


@settings(max_examples=40)
@given(REPORTS)
def test_resent_reports_are_not_counted_twice(reports: list[ScriptedReport]) -> None:
    changes = judged(reports)
    once, twice = RecordedFleet(), RecordedFleet()
    record_all(changes, once)
    record_all(changes, twice)
    recent = [one for one in changes if one.at > changes[-1].at - 600]
    record_all(recent, twice)
    assert_same(ended(twice, changes), ended(once, changes))
