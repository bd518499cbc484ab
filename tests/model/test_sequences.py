"""Tracking of sequence numbers."""

from hypothesis import given
from hypothesis import strategies as st

from fleet_smi.model.sequences import SequenceTracker


def tracker_after(*numbers: int, run: str = "run") -> SequenceTracker:
    sequences = SequenceTracker()
    for number in numbers:
        sequences.add(run, number)
    return sequences


def test_reports_in_order_leave_no_gap() -> None:
    sequences = tracker_after(*range(5, 5000))
    assert sequences.missing == 0
    assert (sequences.runs[0].firsts, sequences.runs[0].lasts) == ([5], [4999])


def test_a_gap_counts_until_it_is_filled() -> None:
    sequences = tracker_after(1, 2, 6, 9)
    assert sequences.missing == 5
    assert all(sequences.add("run", number) for number in (4, 7, 8, 3, 5))
    assert sequences.missing == 0
    assert len(sequences.runs[0].lasts) == 1


def test_a_duplicate_number_is_recognised() -> None:
    sequences = tracker_after(1, 2, 3, 7)
    assert not any(sequences.add("run", number) for number in (1, 2, 3, 7))
    assert sequences.add("run", 5)
    assert not sequences.add("run", 5)


def test_each_run_is_counted_separately() -> None:
    sequences = tracker_after(1, 3)
    assert sequences.add("next", 1)
    assert sequences.add("next", 4)
    assert sequences.missing == 1 + 2
    assert sequences.add("run", 2)
    assert sequences.missing == 2


def test_the_number_of_ranges_is_limited() -> None:
    sequences = tracker_after(*range(0, 2000, 2))
    assert len(sequences.runs[0].lasts) < 50
    assert sequences.missing == 999


def test_the_number_of_runs_is_limited() -> None:
    sequences = SequenceTracker()
    for number in range(100):
        sequences.add(f"run-{number}", 1)
    assert len(sequences.runs) < 10


def test_a_hostile_jump_keeps_the_count_within_limits() -> None:
    sequences = tracker_after(*[number << 54 for number in range(-100, 100)])
    assert 0 < sequences.missing < 1 << 60


def test_a_copy_does_not_change_with_the_original() -> None:
    sequences = tracker_after(1, 2)
    copy = sequences.copy()
    sequences.add("run", 3)
    assert copy == tracker_after(1, 2)


@given(st.lists(st.integers(0, 40)))
def test_missing_counts_the_numbers_not_received_in_between(numbers: list[int]) -> None:
    sequences, came = SequenceTracker(), set[int]()
    for number in numbers:
        assert sequences.add("run", number) == (number not in came)
        came.add(number)
    span = range(min(came), max(came) + 1) if came else range(0)
    assert sequences.missing == len(set(span) - came)
