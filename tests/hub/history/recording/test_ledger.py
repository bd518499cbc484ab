"""The ledger against sums computed second by second from the same reports."""

from collections import defaultdict
from itertools import pairwise

import pytest
from hypothesis import given, settings
from msgspec.structs import replace

from fleet_smi.fleet.fleet import FleetChange
from fleet_smi.model.people import HIDDEN_USER, compute_or_all_processes, owner
from fleet_smi.model.snapshot import Gpu
from fleet_smi.model.verdict.thresholds import Thresholds
from tests.hub.history.in_memory_history import InMemoryHistory, RecordedFleet
from tests.hub.history.scripted_reports import (
    INTERVAL_SECONDS,
    REPORTS,
    SILENCE_SECONDS,
    START,
    USERS,
    UUIDS,
    ScriptedReport,
    approx_sum,
    to_snapshot,
)


def apply_all(reports: list[ScriptedReport], watched: RecordedFleet) -> list[FleetChange]:
    at, changes = START, []
    for number, one in enumerate(reports, 1):
        at += one.delay_seconds
        change = watched.take(to_snapshot(one, number), at)
        assert change is not None
        changes.append(replace(change, standings=dict(change.standings)))
        watched.history.tick(at)
    watched.history.tick(at + 100)
    return changes


WINDOW_SECONDS = Thresholds().idle_window_seconds


class Truth:
    """The same, one report after the other, with nothing put by."""

    def __init__(self, changes: list[FleetChange]) -> None:
        self.seconds: dict[tuple[str, int, str, str], float] = defaultdict(float)
        self.busy: dict[str, float] = defaultdict(float)
        self.measured: dict[str, float] = defaultdict(float)
        self.joules: dict[str, float] = defaultdict(float)
        self.by_pid: dict[tuple[str, int], float] = defaultdict(float)
        self.states: dict[tuple[str, str], float] = defaultdict(float)
        self.verdicts: dict[str, int] = defaultdict(int)
        self.observed = 0.0
        ats = [change.at for change in changes]
        for change, at, following in zip(changes, ats, [*ats[1:], float("inf")], strict=True):
            held = following - at if following - at <= SILENCE_SECONDS else INTERVAL_SECONDS
            self.observed += held
            for one in change.snapshot.gpus:
                self._hold(change, one, at, held)

    def _hold(self, change: FleetChange, one: Gpu, at: float, held: float) -> None:
        standing = change.standings[one.uuid]
        state = standing.verdict.state
        self.states[one.uuid, state] += held
        self.verdicts[one.uuid] += state == "held"
        users = defaultdict(list)
        # Nobody is charged while the use of a GPU has ended and may come back.
        if not standing.has_use_ended and state in ("busy", "held", "ghost"):
            for each in compute_or_all_processes(one.processes or ()):
                users[owner(each)].append(each.pid)
            if not users and state != "ghost":
                users[HIDDEN_USER] = []
        for hour, seconds in by_hour(at, held):
            for user in users or {"": []}:
                self.seconds[one.uuid, hour, user, state] += seconds / max(1, len(users))
        for pids in users.values():
            for pid in pids:
                self.by_pid[one.uuid, pid] += held / len(users) / len(pids)
        if one.busy_percent is not None:
            self.measured[one.uuid] += held
            self.busy[one.uuid] += held * one.busy_percent / 100
        if one.power_watts is not None:
            self.joules[one.uuid] += held * one.power_watts


def by_hour(at: float, held: float) -> list[tuple[int, float]]:
    hour = int(at // 3600) * 3600
    first = min(held, hour + 3600 - at)
    return [(hour, first), *([(hour + 3600, held - first)] if held > first else [])]


def kept_of(reports: list[ScriptedReport]) -> tuple[InMemoryHistory, Truth]:
    watched = RecordedFleet()
    return watched.stored, Truth(apply_all(reports, watched))


@settings(max_examples=40)
@given(REPORTS)
def test_every_second_of_a_gpu_is_counted_in_one_hour_once(
    reports: list[ScriptedReport],
) -> None:
    kept, truth = kept_of(reports)
    sums: dict[tuple[str, int, str, str], float] = defaultdict(float)
    for row in kept.usage():
        sums[row.gpu_key[1], row.hour, row.user, row.state] += row.sums.gpu_seconds
    assert sums == approx_sum(truth.seconds)
    for uuid in UUIDS:
        assert kept.gpu_seconds(gpu_key=("id-of-gpu01", uuid)) == approx_sum(truth.observed)


@settings(max_examples=40)
@given(REPORTS)
def test_load_and_energy_are_those_of_every_report(reports: list[ScriptedReport]) -> None:
    kept, truth = kept_of(reports)
    for uuid in UUIDS:
        sums = [row.sums for row in kept.usage() if row.gpu_key[1] == uuid]
        assert sum(one.measured_seconds for one in sums) == approx_sum(truth.measured[uuid])
        assert sum(one.busy_seconds for one in sums) == pytest.approx(truth.busy[uuid], abs=1e-3)
        assert sum(one.energy_joules for one in sums) == pytest.approx(truth.joules[uuid], abs=1.0)
        held, idle = truth.states[uuid, "held"], sum(one.idle_seconds for one in sums)
        # The idle window before each verdict counts, too.
        assert held - 0.01 <= idle <= held + truth.verdicts[uuid] * WINDOW_SECONDS + 0.01
        assert all(one.idle_seconds <= one.gpu_seconds + 0.01 for one in sums)


@settings(max_examples=40)
@given(REPORTS)
def test_each_process_is_charged_its_share(reports: list[ScriptedReport]) -> None:
    kept, truth = kept_of(reports)
    for uuid in UUIDS:
        by_pid: dict[tuple[str, int], float] = defaultdict(float)
        for one in kept.occupancies(uuid):
            by_pid[uuid, one.holder.pid] += one.sums.gpu_seconds
        for pid in USERS:
            assert by_pid[uuid, pid] == approx_sum(truth.by_pid[uuid, pid])
        nobody = kept.gpu_seconds(gpu_key=("id-of-gpu01", uuid), user="")
        assert sum(by_pid.values()) + nobody == approx_sum(truth.observed)


@settings(max_examples=40)
@given(REPORTS)
def test_periods_cover_the_reported_time_and_never_overlap(reports: list[ScriptedReport]) -> None:
    kept, truth = kept_of(reports)
    for uuid in UUIDS:
        periods = kept.periods(uuid)
        ends = [one.end for one in periods]
        assert None not in ends
        for before, after in pairwise(periods):
            assert before.end is not None and before.end <= after.start
        lasting: dict[tuple[str, str], float] = defaultdict(float)
        for one in periods:
            lasting[uuid, one.state] += (one.end or 0.0) - one.start
        expected = {key: held for key, held in truth.states.items() if key[0] == uuid}
        assert lasting == approx_sum(expected)
    reported_seconds = sum((one.end or 0.0) - one.start for one in kept.presence())
    assert reported_seconds == approx_sum(truth.observed)
