"""The rate limit of failed logins: a burst of ten, then one in six seconds, per address."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fleet_smi.server.rate_limit import AuthRateLimiter


class Clock:
    """A clock that the test moves."""

    now = 1000.0

    def __call__(self) -> float:
        return self.now


def failed(failures: AuthRateLimiter, address: str, times: int) -> list[int | None]:
    found = [failures.record_failure(address) for _ in range(times)]
    return [None if refusal is None else refusal.retry_after_seconds for refusal in found]


def test_after_a_burst_of_ten_failures_one_is_allowed_every_six_seconds() -> None:
    clock = Clock()
    failures = AuthRateLimiter(clock)
    assert failed(failures, "10.0.0.1", 12) == [None] * 10 + [6, 6]
    clock.now += 4
    assert failed(failures, "10.0.0.1", 1) == [2]
    clock.now += 2
    assert failed(failures, "10.0.0.1", 2) == [None, 6]
    clock.now += 3600
    assert failed(failures, "10.0.0.1", 11) == [None] * 10 + [6]


def test_the_error_says_when_to_retry() -> None:
    failures = AuthRateLimiter(Clock())
    failed(failures, "10.0.0.1", 10)
    refusal = failures.record_failure("10.0.0.1")
    assert refusal is not None
    assert refusal.status == 429
    assert (b"retry-after", b"6") in refusal.headers


def test_one_address_does_not_limit_another() -> None:
    failures = AuthRateLimiter(Clock())
    failed(failures, "10.0.0.1", 20)
    assert failures.record_failure("10.0.0.2") is None


@pytest.mark.parametrize(
    "one, other",
    [
        ("2001:db8:0:1::1", "2001:db8:0:1:ffff::2"),
        ("::ffff:10.0.0.1", "10.0.0.1"),
        ("fe80::1%eth0", "fe80::2%eth1"),
    ],
)
def test_addresses_of_one_subscriber_count_as_one(one: str, other: str) -> None:
    failures = AuthRateLimiter(Clock())
    failed(failures, one, 10)
    assert failures.record_failure(other) is not None
    assert failures.record_failure("2001:db8:0:2::1") is None


def test_a_refunded_attempt_does_not_count() -> None:
    failures = AuthRateLimiter(Clock())
    for _ in range(50):
        assert failures.record_failure("10.0.0.1") is None
        failures.refund("10.0.0.1")
    assert failed(failures, "10.0.0.1", 11)[-1] == 6


def test_the_number_of_tracked_addresses_is_bounded() -> None:
    failures = AuthRateLimiter(Clock())
    for number in range(20_000):
        failures.record_failure(f"10.{number >> 8 & 255}.{number & 255}.1")
    assert len(failures._buckets._full_at) == 4096


@given(st.lists(st.floats(0, 30), max_size=60))
def test_never_more_than_the_burst_and_the_refill(waits: list[float]) -> None:
    clock = Clock()
    failures = AuthRateLimiter(clock)
    allowed = 0
    for wait in waits:
        clock.now += wait
        allowed += failures.record_failure("10.0.0.1") is None
    assert allowed <= 10 + sum(waits) / 6 + 1e-6
