"""The token bucket."""

from fleet_smi.model.token_bucket import TokenBucket


def test_after_the_burst_each_key_gets_a_token_per_refill_time() -> None:
    attempts = TokenBucket(burst=3, refill_seconds=6.0)
    assert [attempts.acquire("a", 100.0) for _ in range(5)] == [0.0, 0.0, 0.0, 6.0, 6.0]
    assert attempts.acquire("b", 100.0) == 0.0
    assert attempts.acquire("a", 104.0) == 2.0
    assert [attempts.acquire("a", 106.0) for _ in range(2)] == [0.0, 6.0]


def test_a_refunded_token_can_be_taken_again() -> None:
    attempts = TokenBucket(burst=1)
    for _ in range(100):
        assert not attempts.acquire("a", 100.0)
        attempts.refund("a")
