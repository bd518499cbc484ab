"""What became of the reports, in numbers."""

from hypothesis import given
from hypothesis import strategies as st

from fleet_smi.simulation.counters import LoadCounters


@given(st.lists(st.floats(1e-4, 100.0), min_size=1, max_size=200))
def test_the_slowest_is_told_within_five_percent(taken: list[float]) -> None:
    tally = LoadCounters()
    for seconds in taken:
        tally.acknowledge(seconds)
    told = tally.latency_quantile_seconds(1.0)
    assert told is not None
    assert max(taken) <= told * 1.0001
    assert told <= 1.06 * max(taken)


def test_of_a_hundred_the_ninety_ninth_is_not_the_slowest() -> None:
    tally = LoadCounters()
    for seconds in [0.001] * 99 + [5.0]:
        tally.acknowledge(seconds)
    assert (tally.latency_quantile_seconds(0.99) or 1.0) < 0.0011


def test_nothing_acknowledged_has_no_delay() -> None:
    assert LoadCounters().latency_quantile_seconds(0.99) is None


def test_what_is_counted_since_a_copy_is_the_rest() -> None:
    tally = LoadCounters(sent=5)
    tally.acknowledge(0.1)
    before = tally.copy()
    tally.sent += 2
    tally.acknowledge(3.0)
    lately = tally.since(before)
    assert (lately.sent, lately.acknowledged, lately.failed) == (2, 1, 0)
    assert (lately.latency_quantile_seconds(0.5) or 0.0) > 2.9
