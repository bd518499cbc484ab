"""Log of repeated failures: few lines, whatever a subject does."""

import logging

import pytest

from fleet_smi.errors import Undecodable
from fleet_smi.failure_log import FailureLog

LOGGER = logging.getLogger("tests.failures")


class Clock:
    """A clock that the test moves."""

    now = 1000.0

    def __call__(self) -> float:
        return self.now


def test_a_failure_is_logged_once_and_summed_up_on_recovery(
    caplog: pytest.LogCaptureFixture,
) -> None:
    clock = Clock()
    log = FailureLog(LOGGER, "gpu01", clock)
    for _ in range(100):
        log.record_failure(Undecodable("garbage"))
        clock.now += 1.0
    log.record_success()
    log.record_success()
    assert [each.getMessage() for each in caplog.records] == [
        'subject=gpu01 fault=Undecodable error="garbage"',
        "subject=gpu01 recovered=true failures=100 seconds=100",
    ]


def test_a_subject_that_fails_and_recovers_in_turns_does_not_fill_the_log(
    caplog: pytest.LogCaptureFixture,
) -> None:
    clock = Clock()
    log = FailureLog(LOGGER, "gpu01", clock)
    for _ in range(6000):  # ten minutes
        log.record_failure(Undecodable("garbage"))
        clock.now += 0.1
        log.record_success()
    assert len(caplog.records) <= 2 * 11


def test_a_failure_that_stays_after_such_turns_is_logged(
    caplog: pytest.LogCaptureFixture,
) -> None:
    clock = Clock()
    log = FailureLog(LOGGER, "gpu01", clock)
    for _ in range(3):
        log.record_failure(Undecodable("garbage"))
        log.record_success()
    for _ in range(120):
        log.record_failure(Undecodable("garbage"))
        clock.now += 1.0
    assert "fault=" in caplog.records[-1].getMessage()
    assert len(caplog.records) == 3


def test_messages_that_differ_each_time_are_limited(caplog: pytest.LogCaptureFixture) -> None:
    log = FailureLog(LOGGER, "gpu01", Clock())
    for number in range(1000):
        log.record_failure(Undecodable(f"garbage {number}"))
        log.record_success()
    assert len(caplog.records) < 40
