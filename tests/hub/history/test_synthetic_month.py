"""Queries over a synthetic month of 100 GPUs, reported by samples, match its known usage.

Each change is seen with the first sample after it, up to one interval late. Over the jobs of a
user these delays cancel out: what is left of them is the sampling error, and it is far below 1 %.
"""

import asyncio
import os
import random
from bisect import bisect_right
from collections.abc import Sequence
from pathlib import Path
from typing import get_args

import pytest
from msgspec import Struct

from fleet_smi.hub.history.queries.service import HistoryService
from fleet_smi.hub.history.queries.totals import GroupBy
from fleet_smi.hub.history.storage.retention import RetentionPolicy
from fleet_smi.model.fleet import FleetView, JudgedGpu, JudgedInstance, State
from fleet_smi.model.history import GpuPeriods, Period, Usages
from fleet_smi.model.units import GIB
from fleet_smi.model.verdict.thresholds import DEFAULT_THRESHOLDS
from tests.builders import HOUR
from tests.hub.history.restarting_hub import InProcessAgent, RestartingHub
from tests.hub.history.synthetic_month import (
    DAY,
    START,
    USERS,
    SyntheticDevice,
    SyntheticMonth,
    make_month,
    samples,
)

MOMENTS, LOOKS = 300, 8
KEEP = RetentionPolicy(
    series_seconds={10: DAY / 4, 60: 14 * DAY, 900: 365 * DAY},
    ledger_seconds=365 * DAY,
    max_bytes=GIB,
)
LONG = bool(os.environ.get("FLEET_SMI_LONG"))
# A state that only a threshold changes must be seen so often before it stands.
WINDOW = DEFAULT_THRESHOLDS.idle_window_seconds
MOST_SKIPPED = 0.25
ENDS, TICKS = 0.0005, 0.2
SETTLING = DEFAULT_THRESHOLDS.settle_samples


def lived(month: SyntheticMonth, where: str, folder: Path) -> RestartingHub:
    """A hub that received a whole month of reports, and was stopped and killed now and then."""
    hub, chance = RestartingHub(where, folder / "memory", KEEP, START, ENDS), random.Random(3)
    agents = [
        InProcessAgent(hub, folder / f"spool-{number}") for number in range(len(month.devices))
    ]
    for seen in samples(month):
        for one in seen:
            agent, is_reachable = agents[one.node], one.outage is None
            if (
                is_reachable
                and not agent.session.is_up
                and hub.has_node(one.snapshot)
                and chance.random() < 0.5
            ):
                hub.poll(one.snapshot)  # so that what the agent kept comes late
            agent.session.is_up = is_reachable
            agent.report(one.snapshot)
        if chance.random() < TICKS:
            hub.tick()
    for agent in agents:
        agent.close()
    for _ in range(2):  # what comes late is done when nothing more comes
        hub.tick()
    return hub


class Truth(Struct, frozen=True):
    """How a seat stands, and whose processes are on it."""

    state: State
    pids: frozenset[int]


def truth(month: SyntheticMonth, seat: SyntheticDevice, at: float) -> Truth | None:
    """What samples show of a moment; `None` where something changed too shortly before it."""
    pace = 1.1 * month.interval_seconds
    settled, now = SETTLING * pace, seat.segment_at(at)
    edges = [edge for one in month.outages[seat.node] for edge in (one.start, one.end)]
    # The last report before an outage holds for a while; late reports are judged again.
    near = any(edge - pace < at < edge + 2 * pace + settled + WINDOW for edge in edges)
    if not now.reported or near or at - now.start < pace:
        return None
    pids = frozenset(job.pid for job in now.jobs)
    if not now.jobs:
        return Truth("free", pids)
    before = seat.segment_at(now.start - 1.0)
    since = at - now.start
    if now.is_busy:
        was_held = before.jobs == now.jobs and not before.is_busy
        return None if was_held and since < settled else Truth("busy", pids)
    if WINDOW - pace < since < WINDOW + settled + pace:
        return None
    return Truth("busy" if since < WINDOW else "held", pids)


def period_at(periods: Sequence[Period], at: float) -> Period:
    found = periods[bisect_right(periods, at, key=lambda one: one.start) - 1]
    assert found.start <= at
    assert found.end is None or at < found.end
    return found


def seats_of(month: SyntheticMonth) -> list[SyntheticDevice]:
    """Those that people sit on."""
    split = {seat.parent for node in month.devices for seat in node}
    return [seat for node in month.devices for seat in node if seat.uuid not in split]


def check_moments(month: SyntheticMonth, found: Sequence[GpuPeriods]) -> float:
    """All are as they were in truth at random moments; returns how many could not be judged."""
    chance, periods_by_uuid = random.Random(4), {each.gpu.uuid: each.periods for each in found}
    skipped = 0
    for _ in range(MOMENTS):
        at = chance.uniform(START, month.end - month.interval_seconds)
        for seat in seats_of(month):
            expected = truth(month, seat, at)
            if expected is None:
                skipped += 1
                continue
            period = period_at(periods_by_uuid[seat.uuid], at)
            shown = Truth(period.state, frozenset(one.pid for one in period.holders))
            assert shown == expected, (seat.uuid, at - START, period)
    return skipped / (MOMENTS * len(seats_of(month)))


def check_view(month: SyntheticMonth, view: FleetView, at: float) -> None:
    """The fleet as it is shown of a moment is as it was in truth."""
    parts: list[JudgedGpu | JudgedInstance] = []
    for gpu in (gpu for node in view.nodes for gpu in node.gpus):
        parts += [gpu, *gpu.instances]
    shown = {
        part.uuid: Truth(part.verdict.state, frozenset(one.pid for one in part.processes or ()))
        for part in parts
    }
    for seat in seats_of(month):
        expected = truth(month, seat, at)
        assert expected is None or shown[seat.uuid] == expected, (seat.uuid, at - START)


def check_hours(month: SyntheticMonth, by_user: Usages, sigmas: float) -> None:
    """Everybody's GPU-hours are as in truth: within 1 %, or so much of the sampling error."""
    expected, had = month.gpu_seconds(), {row.name: row.sums for row in by_user.rows}
    assert set(had) == set(USERS)
    for user, seconds in expected.items():
        error = sigmas * month.sampling_error(user)
        assert had[user].gpu_seconds == pytest.approx(seconds, rel=0.01, abs=error)
    assert sum(by_user.by_state.values()) == pytest.approx(month.observed_seconds(), rel=0.01)


def check_sums(month: SyntheticMonth, found: Sequence[GpuPeriods], sums: Sequence[Usages]) -> None:
    """All sums add up to the time in which GPUs were reported, however they are grouped."""
    weights = {seat.uuid: seat.weight for node in month.devices for seat in node}
    start, end = sums[0].start, sums[0].end
    reported_seconds = sum(
        weights[each.gpu.uuid] * max(0.0, min(one.end or end, end) - max(one.start, start))
        for each in found
        for one in each.periods
    )
    for one in sums:
        assert sum(one.by_state.values()) == pytest.approx(reported_seconds, rel=1e-6)
        assert one.total.gpu_seconds == pytest.approx(
            sum(row.sums.gpu_seconds for row in one.rows), rel=1e-9
        )


class MonthResults(Struct, frozen=True):
    """The results of all queries about a month."""

    sums: tuple[Usages, ...]
    periods: list[GpuPeriods]


async def query_all(month: SyntheticMonth, answers: HistoryService) -> MonthResults:
    ended = month.end - max(2 * HOUR, 4 * month.interval_seconds)  # what goes on is not counted yet
    sums = [await answers.usages(START, ended, by, daily=True) for by in get_args(GroupBy)]
    periods = await answers.periods(await answers.gpus(), START, month.end)
    return MonthResults(tuple(sums), periods)


def check(month: SyntheticMonth, where: str, folder: Path, sigmas: float = 0.0) -> None:
    """Let a hub hear a month, and ask it; a day has so few jobs that sampling shows."""

    async def scenario(hub: RestartingHub) -> None:
        results = await query_all(month, hub.query_service())
        assert await query_all(month, hub.query_service()) == results
        hub.restart()
        answers = hub.query_service()
        assert await query_all(month, answers) == results
        check_hours(month, await answers.usages(START, month.end, "user", daily=False), sigmas)
        check_sums(month, results.periods, results.sums)
        assert check_moments(month, results.periods) < MOST_SKIPPED
        chance = random.Random(5)
        for _ in range(LOOKS):
            at = chance.uniform(START, month.end - HOUR)
            check_view(month, await answers.fleet(at), at)

    hub = lived(month, where, folder)
    try:
        asyncio.run(scenario(hub))
    finally:
        hub.close()


@pytest.mark.timeout(3600 if LONG else 600)
def test_queries_over_a_month_of_100_gpus_are_correct(tmp_path: Path) -> None:
    month = make_month(30, 60.0) if LONG else make_month(30, 3600.0, time_scale=3.0)
    for user, seconds in month.gpu_seconds().items():
        assert 3 * month.sampling_error(user) < 0.01 * seconds
    check(month, str(tmp_path / "history.db"), tmp_path)


@pytest.mark.timeout(600)
def test_queries_over_a_day_of_slow_reports_are_correct(where: str, tmp_path: Path) -> None:
    month = make_month(1, 60.0) if LONG else make_month(1, 120.0, nodes=2, time_scale=0.5, seed=2)
    check(month, where, tmp_path, sigmas=5.0)
