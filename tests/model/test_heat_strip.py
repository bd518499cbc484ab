"""Heat strips: periods downsampled to columns, against a reference that checks every second."""

from collections import Counter
from collections.abc import Sequence
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from fleet_smi.model import heat_strip
from fleet_smi.model.fleet import STATES, State
from fleet_smi.model.history import NO_USER, Holder, Period, StripRun

START = 1_000_000.0
GIB = 1 << 30


def holder(user: str, pid: int = 1, memory: int = GIB) -> Holder:
    return Holder(pid=pid, user=user, memory_bytes=memory)


def period(start: float, end: float | None, state: State = "free", *users: str) -> Period:
    return Period(
        start=START + start,
        end=None if end is None else START + end,
        state=state,
        reason="",
        holders=tuple(holder(user, pid) for pid, user in enumerate(users)),
    )


def runs(
    periods: Sequence[Period],
    start: float,
    end: float,
    columns: int,
) -> tuple[StripRun, ...]:
    stood = [(one.start, one.end, heat_strip.period_look(one), one.busy_percent) for one in periods]
    return heat_strip.strip_runs(stood, start, end, columns)


def as_tuples(found: Sequence[StripRun]) -> list[tuple[float, float, str, str, int]]:
    return [(r.start - START, r.end - START, r.state, r.user, r.others) for r in found]


def test_adjacent_columns_that_look_alike_are_one_run() -> None:
    day = [period(-50, 200, "busy", "alice"), period(200, 900), period(900, None, "held", "bob")]
    assert as_tuples(runs(day, START, START + 1000, 10)) == [
        (0, 200, "busy", "alice", 0),
        (200, 900, "free", NO_USER, 0),
        (900, 1000, "held", "bob", 0),
    ]


def test_the_same_look_in_two_periods_is_one_run() -> None:
    restarted = [period(0, 300, "busy", "alice"), period(300, 1000, "busy", "alice")]
    assert as_tuples(runs(restarted, START, START + 1000, 10)) == [(0, 1000, "busy", "alice", 0)]


def test_a_column_shows_the_state_that_covers_most_of_it() -> None:
    brief = [period(0, 60), period(60, 90, "busy", "alice"), period(90, 100, "busy", "bob")]
    assert as_tuples(runs(brief, START, START + 100, 1)) == [(0, 100, "free", NO_USER, 0)]


def test_time_of_a_user_alone_and_shared_is_added_up() -> None:
    shared = [
        period(0, 30, "busy", "alice"),
        period(30, 62, "busy", "alice", "bob"),
        period(62, 100, "busy", "carol"),
    ]
    assert as_tuples(runs(shared, START, START + 100, 1)) == [(0, 100, "busy", "alice", 1)]


def test_columns_of_a_silent_node_are_empty() -> None:
    silent = [period(0, 240), period(560, 1000)]
    assert as_tuples(runs(silent, START, START + 1000, 10)) == [
        (0, 200, "free", NO_USER, 0),
        (600, 1000, "free", NO_USER, 0),
    ]
    assert runs([], START, START + 1000, 10) == ()
    assert runs([period(-9, 0), period(1000, None)], START, START + 1000, 10) == ()


def test_half_a_column_of_reports_is_enough_to_show_it() -> None:
    assert as_tuples(runs([period(0, 250)], START, START + 1000, 10)) == [
        (0, 300, "free", NO_USER, 0)
    ]


def test_the_user_with_the_most_memory_is_named() -> None:
    both = Period(
        start=START,
        end=None,
        state="busy",
        reason="",
        holders=(holder("alice", 1, 2 * GIB), holder("bob", 2, GIB), holder("bob", 3, 3 * GIB)),
    )
    assert as_tuples(runs([both], START, START + 10, 1)) == [(0, 10, "busy", "bob", 1)]


@pytest.mark.parametrize("state", ["free", "leased", "broken", "unknown"])
def test_the_display_on_a_free_gpu_is_not_named(state: State) -> None:
    found = runs([period(0, None, state, "root")], START, START + 10, 1)
    assert as_tuples(found) == [(0, 10, state, NO_USER, 0)]


def test_the_load_of_a_run_is_the_mean_of_its_columns() -> None:
    day = [
        replace(period(0, 180, "busy", "alice"), busy_percent=90.0),
        period(180, 220, "busy", "alice"),
        replace(period(220, 400, "busy", "alice"), busy_percent=96.0),
        period(400, None, "held", "alice"),
    ]
    found = runs(day, START, START + 600, 6)
    assert [run.busy_percent for run in found] == [93.0, None]


def test_a_sampled_column_shows_the_majority_of_its_three_samples() -> None:
    looks: dict[int, heat_strip.StripLook] = {3: ("free", NO_USER, 0), 7: ("busy", "alice", 1)}
    between = heat_strip.column_edges(START, START + 400, 4)
    samples = heat_strip.LookSamples(
        looks=[3, 3, 7, 7, 3, 7, 7, 3, 0, 0, 7, 0],
        loads=bytearray([0, 10, 0, 0, 80, 0, 0, heat_strip.UNKNOWN_LOAD, 0, 0, 0, 0]),
    )
    found = heat_strip.strip_runs_from_samples(samples, looks, between)
    assert as_tuples(found) == [
        (0, 100, "free", NO_USER, 0),
        (100, 200, "busy", "alice", 1),
        (200, 300, "free", NO_USER, 0),
    ]
    assert [run.busy_percent for run in found] == [10.0, 80.0, None]
    assert heat_strip.strip_runs_from_samples(heat_strip.unknown_samples(12), looks, between) == ()


def test_sample_times_are_ordered_and_within_their_columns() -> None:
    between = heat_strip.column_edges(START, START + 600, 2)
    assert heat_strip.sample_times(between) == pytest.approx(
        [START + at for at in (50, 150, 250, 350, 450, 550)]
    )


EDGES = st.lists(st.integers(-40, 400), min_size=2, max_size=14, unique=True).map(sorted)
LOOKS = st.tuples(st.sampled_from(STATES), st.sampled_from([(), ("a",), ("b",), ("a", "b")]))


@st.composite
def histories(draw: st.DrawFn) -> list[Period]:
    """Periods in order; the node was silent in some parts, and the last may be open."""
    found: list[Period] = []
    for first, last in pairwise(draw(EDGES)):
        if draw(st.integers(0, 4)):
            state, users = draw(LOOKS)
            found.append(period(first, last, state, *users))
    goes_on: bool = draw(st.booleans())
    if found and goes_on:
        last_one = found.pop()
        found.append(period(last_one.start - START, None, last_one.state))
    return found


def second_by_second(
    periods: list[Period], seconds: int, columns: int
) -> list[set[tuple[str, str]] | None]:
    """The looks that no other look beats, of each column; nothing where it mostly was silent."""
    width = seconds // columns
    found: list[set[tuple[str, str]] | None] = []
    for column in range(columns):
        count: Counter[tuple[str, str]] = Counter()
        for second in range(column * width, (column + 1) * width):
            for each in periods:
                if each.start <= START + second and (each.end or 1e18) > START + second:
                    taken = each.state in ("busy", "held", "ghost") and each.holders
                    count[each.state, each.holders[0].user if taken else NO_USER] += 1
        is_reported = 2 * count.total() >= width
        most = max(count.values(), default=0)
        found.append({look for look in count if count[look] == most} if is_reported else None)
    return found


@given(histories(), st.integers(1, 24), st.integers(1, 16))
def test_runs_agree_with_a_reference_that_checks_every_second(
    periods: list[Period], columns: int, width: int
) -> None:
    seconds = columns * width
    found = runs(periods, START, START + seconds, columns)
    shown: list[tuple[str, str] | None] = [None] * columns
    for run in found:
        first, last = (run.start - START) / width, (run.end - START) / width
        assert first == pytest.approx(round(first)) and last == pytest.approx(round(last))
        for column in range(round(first), round(last)):
            assert shown[column] is None
            shown[column] = (run.state, run.user)
    for mine, best in zip(shown, second_by_second(periods, seconds, columns), strict=True):
        assert (mine in best) if best else (mine is None)


@given(histories(), st.integers(1, 200), st.floats(1, 5000))
def test_runs_are_ordered_and_no_two_neighbours_look_alike(
    periods: list[Period], columns: int, seconds: float
) -> None:
    found = runs(periods, START, START + seconds, columns)
    for run in found:
        assert START <= run.start < run.end <= START + seconds + 1e-6
    for one, next_one in pairwise(found):
        assert one.end <= next_one.start + 1e-6
        alike = (one.state, one.user, one.others) == (
            next_one.state,
            next_one.user,
            next_one.others,
        )
        assert not alike or next_one.start - one.end > seconds / columns / 2
