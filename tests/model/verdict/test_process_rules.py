"""Rules for GPUs with processes, beyond the numbered cases: hidden, video, stalled, names."""

from typing import Any

import pytest

from fleet_smi.model.fleet import Verdict
from fleet_smi.model.units import GIB
from fleet_smi.model.verdict.judge import judge
from fleet_smi.model.verdict.reasons import format_load
from fleet_smi.model.verdict.thresholds import Thresholds
from fleet_smi.model.verdict.window import add_sample
from tests.builders import HOUR, NOON, gpu, process
from tests.verdicts import (
    DISPLAY,
    HIDDEN,
    judge_after,
    judge_once,
    note_texts,
    state_and_reason,
)


def test_a_process_that_cannot_be_seen_is_a_process() -> None:
    card = gpu(processes=(HIDDEN,), memory_used_bytes=17 * GIB, busy_percent=60.0)
    assert state_and_reason(judge_once(card)) == ("busy", "in use by a process that cannot be seen")
    idle = gpu(processes=(HIDDEN,), memory_used_bytes=17 * GIB)
    reason = "a process that cannot be seen, idle for 3 h, 16.0 GiB allocated"
    assert state_and_reason(judge_after(3 * HOUR, idle)) == ("held", reason)


def test_processes_that_cannot_be_seen_are_counted_beside_others() -> None:
    crowd = (process(), HIDDEN, process(78, None, hidden=True))
    verdict = judge_once(gpu(processes=crowd, busy_percent=60.0))
    assert state_and_reason(verdict) == ("busy", "alice, 60 %")
    assert note_texts(verdict) == ["2 processes cannot be seen"]


def test_one_sample_of_an_idle_process_is_busy_and_marked() -> None:
    card = gpu(processes=(process(user="bob"),), memory_used_bytes=17 * GIB)
    assert state_and_reason(judge_once(card)) == (
        "busy",
        "bob, 0 %, 16.0 GiB allocated (one sample)",
    )


def test_busy_video_engines_are_work() -> None:
    card = gpu(processes=(process(),), encoder_percent=70.0)
    assert state_and_reason(judge_after(3 * HOUR, card)) == ("busy", "alice, 70 %")


@pytest.mark.parametrize("engine", ["encoder_percent", "decoder_percent"])
@pytest.mark.parametrize("processes", [(), None, (DISPLAY,)])
def test_busy_video_engines_are_work_where_the_cores_are_not_measured(
    engine: str, processes: Any
) -> None:
    fields: dict[str, Any] = {"busy_percent": None, "processes": processes, engine: 5.0}
    assert judge_once(gpu(**fields)).state == "busy"
    assert judge_after(HOUR, gpu(**fields)).state == "busy"


def test_idle_video_engines_say_nothing_about_unmeasured_cores() -> None:
    card = gpu(busy_percent=None, encoder_percent=1.0, processes=(process(),), power_watts=None)
    verdict = judge_after(3 * HOUR, card)
    assert state_and_reason(verdict) == ("busy", "utilisation not measurable; alice, 16.0 GiB")


def test_power_reveals_a_hidden_process_where_utilisation_is_not_measured() -> None:
    reason = "in use by a process that cannot be seen"
    assert state_and_reason(judge_after(HOUR, gpu(busy_percent=None, power_watts=400.0))) == (
        "busy",
        reason,
    )
    assert judge_after(
        HOUR, gpu(busy_percent=None, power_watts=400.0, processes=(DISPLAY,))
    ).state == ("busy")
    assert judge_after(HOUR, gpu(busy_percent=None)).state == "free"
    assert judge_after(HOUR, gpu(busy_percent=None, power_watts=None)).state == "free"


@pytest.mark.parametrize(
    "busy, watts, noted",
    [(0.0, 70.0, False), (60.0, 70.0, False), (100.0, 600.0, False), (100.0, 70.0, True)],
)
def test_without_an_idle_window_only_full_utilisation_at_idle_power_is_a_stall(
    busy: float, watts: float, noted: bool
) -> None:
    settings = Thresholds(idle_window_seconds=0.0)
    card = gpu(processes=(process(),), busy_percent=busy, power_watts=watts)
    notes = judge(card, add_sample(None, card, NOON, settings), NOON, settings).notes
    assert ("stalled" in [note.kind for note in notes]) == noted


def test_since_is_carried_over_while_the_state_stays() -> None:
    before = Verdict(state="free", reason="nobody on it", since=NOON - HOUR)
    assert judge_once(gpu(), previous=before).since == NOON - HOUR
    assert judge_once(gpu(processes=(process(),)), previous=before).since == NOON


@pytest.mark.parametrize(
    "users, reason",
    [
        (["a"], "a"),
        (["a", "b"], "a and b"),
        (["a", "b", "c"], "a, b and c"),
        (["a", "b", "c", "d", "e"], "a, b and 3 more"),
    ],
)
def test_many_users_are_abbreviated(users: list[str], reason: str) -> None:
    crowd = tuple(process(pid, user) for pid, user in enumerate(users))
    assert judge_once(gpu(processes=crowd, busy_percent=50.0)).reason == f"{reason}, 50 %"


def test_a_load_of_minus_zero_is_shown_as_zero_and_does_not_spoil_the_zero_of_others() -> None:
    assert [format_load(load) for load in (-0.0, 0.0, 0)] == ["0 %"] * 3
