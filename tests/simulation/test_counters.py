"""Counters of sent, acknowledged and failed reports."""

from hypothesis import given
from hypothesis import strategies as st

from fleet_smi.simulation.counters import LoadCounters


@given(st.lists(st.floats(1e-4, 100.0), min_size=1, max_size=200))
def test_the_maximum_is_accurate_to_five_percent(taken: list[float]) -> None:
    counters = LoadCounters()
    for seconds in taken:
        counters.acknowledge(seconds)
    quantile = counters.latency_quantile_seconds(1.0)
    assert quantile is not None
    assert max(taken) <= quantile * 1.0001
    assert quantile <= 1.06 * max(taken)


def test_the_99th_percentile_of_a_hundred_is_not_the_maximum() -> None:
    counters = LoadCounters()
    for seconds in [0.001] * 99 + [5.0]:
        counters.acknowledge(seconds)
    assert (counters.latency_quantile_seconds(0.99) or 1.0) < 0.0011


def test_quantile_is_none_without_acknowledgements() -> None:
    assert LoadCounters().latency_quantile_seconds(0.99) is None


def test_since_returns_the_difference_from_a_copy() -> None:
    counters = LoadCounters(sent=5)
    counters.acknowledge(0.1)
    before = counters.copy()
    counters.sent += 2
    counters.acknowledge(3.0)
    recent = counters.since(before)
    assert (recent.sent, recent.acknowledged, recent.failed) == (2, 1, 0)
    assert (recent.latency_quantile_seconds(0.5) or 0.0) > 2.9
