"""Retry with back-off: the wait grows up to a bound, which is longest after refusals."""

import pytest

from fleet_smi.errors import Refused, Unreachable
from fleet_smi.node.retry import backoff_seconds, max_backoff_seconds


@pytest.mark.parametrize("failures", [1, 2, 5, 100])
def test_agents_wait_longer_each_time_but_never_longer_than_the_bound(failures: int) -> None:
    for error, bound in ((Unreachable("away"), 30), (Refused("no"), 60)):
        waits = [max_backoff_seconds(error, count) for count in (failures, failures + 1)]
        assert waits[0] <= waits[1] <= bound
        assert max_backoff_seconds(error, 100) == bound


def test_the_first_waits_are_short_after_a_refusal_too() -> None:
    # Another hub of the cluster may hear of a credential a moment later than the agent uses it.
    assert max_backoff_seconds(Refused("no"), 1) <= 2


def test_the_wait_is_random_up_to_its_bound() -> None:
    waits = [backoff_seconds(Unreachable("away"), 3) for _ in range(100)]
    assert len(set(waits)) > 1
    assert max(waits) <= max_backoff_seconds(Unreachable("away"), 3)
