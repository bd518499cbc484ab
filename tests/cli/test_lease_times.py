"""The times of a lease: from when it was taken, and by a clock that cannot be set."""

import time
from collections.abc import Callable

import pytest

from fleet_smi.cli import lease_holder
from fleet_smi.cli.lease_keeper import LeaseKeeper
from fleet_smi.node.leasing import begin_now, lease_details

DAY = 86_400.0


def test_a_lease_begins_when_it_was_taken_and_not_when_the_wait_for_it_began() -> None:
    now = time.time()
    waited = {**lease_details("train", until=now + 60), "since": f"{now - 3600:.3f}"}
    details = begin_now(waited)
    assert float(details["since"]) == pytest.approx(now, abs=30)
    # What was declared is how long it takes, not when it ends.
    assert float(details["until"]) == pytest.approx(now + 3660, abs=30)
    assert "until" not in {key for key, value in begin_now(lease_details("x")).items() if value}


@pytest.mark.parametrize("step", [DAY, -DAY])
def test_a_clock_that_is_set_neither_ends_nor_extends_a_hold(
    step: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    began, until = time.monotonic(), time.time() + 0.3
    checks: list[float] = []
    keeper = LeaseKeeper(-1, [], {}, None)
    monkeypatch.setattr(keeper, "check", lambda: checks.append(time.monotonic()))
    monkeypatch.setattr(lease_holder, "_CHECK_SECONDS", 0.05)
    monkeypatch.setattr(time, "time", _set_after_first_look(step))
    lease_holder._keep(keeper, until, [])
    assert time.monotonic() - began >= 0.25
    assert len(checks) > 1


def test_a_clock_that_is_set_forward_gives_no_warning(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    keeper = LeaseKeeper(-1, [], {}, time.time() + 3600)
    monkeypatch.setattr(time, "time", lambda: 1e11)
    keeper.check()
    assert capsys.readouterr().err == ""


def _set_after_first_look(step: float) -> Callable[[], float]:
    looks, real = [0.0], time.time

    def now() -> float:
        return real() + (looks.pop() if looks else step)

    return now
