"""Verdict cases that depend on use, by their numbers; then further ones."""

from typing import Any

import pytest
from msgspec.structs import replace

from fleet_smi.model.units import GIB, MIB
from tests.builders import HOUR, MINUTE, NOON, gpu, process
from tests.verdicts import (
    DISPLAY,
    MPS_SERVER,
    STEP,
    judge_after,
    judge_once,
    note_texts,
    observe_for,
    state_and_reason,
)


def test_case_01_a_gpu_without_processes_is_free() -> None:
    assert state_and_reason(judge_once(gpu())) == ("free", "nobody on it")
    assert state_and_reason(judge_after(HOUR, gpu())) == ("free", "nobody on it")


def test_case_02_a_display_alone_leaves_a_gpu_free() -> None:
    card = gpu(processes=(DISPLAY,), memory_used_bytes=300 * MIB, busy_percent=3.0)
    assert state_and_reason(judge_once(card)) == ("free", "display only")
    assert state_and_reason(judge_after(HOUR, card)) == ("free", "display only")


def test_case_02_a_display_that_works_hard_or_uses_much_memory_takes_a_gpu() -> None:
    hard = gpu(processes=(DISPLAY,), memory_used_bytes=300 * MIB, busy_percent=45.0)
    large = gpu(processes=(DISPLAY,), memory_used_bytes=9 * GIB, busy_percent=5.0)
    assert state_and_reason(judge_after(HOUR, hard)) == ("busy", "gdm, 45 %")
    assert state_and_reason(judge_after(HOUR, large)) == ("busy", "gdm, 5 %")


def test_case_03_utilisation_without_a_process_is_a_hidden_process() -> None:
    card = gpu(memory_used_bytes=500 * MIB, busy_percent=35.0, power_watts=300.0)
    assert state_and_reason(judge_after(HOUR, card)) == (
        "busy",
        "in use by a process that cannot be seen",
    )


def test_case_04_memory_without_a_process_is_a_ghost() -> None:
    card = gpu(memory_used_bytes=int(71.1 * GIB))
    reason = "71.1 GiB used, no process accounts for it"
    assert state_and_reason(judge_after(HOUR, card)) == ("ghost", reason)
    assert state_and_reason(judge_once(card)) == ("ghost", f"{reason} (one sample)")


def test_case_05_memory_and_utilisation_without_a_process_is_a_hidden_process() -> None:
    card = gpu(memory_used_bytes=71 * GIB, busy_percent=97.0, power_watts=600.0)
    reason = "in use by a process that cannot be seen"
    assert state_and_reason(judge_after(HOUR, card)) == ("busy", reason)
    assert state_and_reason(judge_once(card)) == ("busy", f"{reason} (one sample)")


def test_case_05_a_hidden_process_that_pauses_is_no_ghost_within_the_window() -> None:
    card = gpu(memory_used_bytes=71 * GIB, busy_percent=97.0, power_watts=600.0)
    worked = observe_for(card, HOUR, until=NOON - 3 * MINUTE)
    paused = gpu(memory_used_bytes=71 * GIB)
    assert judge_after(2 * MINUTE, paused, worked).state == "busy"


@pytest.mark.parametrize("busy, state", [(0.0, "held"), (60.0, "busy")])
def test_case_06_memory_beyond_that_of_the_processes_is_noted(busy: float, state: str) -> None:
    mine = process(gpu_memory_bytes=10 * GIB)
    card = gpu(processes=(mine,), memory_used_bytes=71 * GIB, busy_percent=busy)
    verdict = judge_after(HOUR, card)
    assert verdict.state == state
    assert note_texts(verdict) == ["61.0 GiB more than its processes account for"]


def test_case_06_shared_host_memory_is_never_unaccounted() -> None:
    card = gpu(processes=(process(),), memory_used_bytes=71 * GIB, memory_shared=True)
    assert judge_after(HOUR, card).notes == ()


def test_case_06_the_overhead_of_contexts_is_not_worth_a_note() -> None:
    card = gpu(processes=(process(),), memory_used_bytes=16 * GIB + 900 * MIB)
    assert judge_after(HOUR, card).notes == ()


def test_case_06_a_note_takes_more_than_a_gibibyte_on_a_small_card_too() -> None:
    mine = process(gpu_memory_bytes=4 * GIB)
    rest = 4 * GIB + 900 * MIB
    card = gpu(processes=(mine,), memory_used_bytes=rest, memory_total_bytes=8 * GIB)
    assert judge_after(HOUR, card).notes == ()


def test_case_06_nothing_is_noted_when_a_process_has_no_figure() -> None:
    crowd = (process(), process(5, gpu_memory_bytes=None))
    assert judge_after(HOUR, gpu(processes=crowd, memory_used_bytes=71 * GIB)).notes == ()


def test_case_07_a_process_idle_for_hours_is_held() -> None:
    mine = process(user="bob", gpu_memory_bytes=int(16.2 * GIB))
    verdict = judge_after(3 * HOUR, gpu(processes=(mine,), memory_used_bytes=17 * GIB))
    assert state_and_reason(verdict) == ("held", "bob, idle for 3 h, 16.2 GiB allocated")
    assert verdict.idle_seconds == 3 * HOUR


def test_case_08_a_process_that_worked_a_moment_ago_is_busy() -> None:
    mine = (process(user="bob"),)
    worked = observe_for(gpu(processes=mine, busy_percent=90.0), HOUR, until=NOON - 3 * MINUTE)
    verdict = judge_after(2 * MINUTE, gpu(processes=mine, memory_used_bytes=17 * GIB), worked)
    assert state_and_reason(verdict) == ("busy", "bob, idle for 2 min (held after 10 min)")
    assert verdict.idle_seconds == 2 * MINUTE


def test_case_08_a_process_that_has_just_stopped_working_is_idle_now() -> None:
    mine = (process(user="bob"),)
    worked = observe_for(gpu(processes=mine, busy_percent=90.0), HOUR, until=NOON - 1)
    verdict = judge_after(0.0, gpu(processes=mine, memory_used_bytes=17 * GIB), worked)
    assert state_and_reason(verdict) == ("busy", "bob, idle now (held after 10 min)")


def test_case_09_a_bare_context_idle_for_hours_is_held() -> None:
    mine = process(user="bob", gpu_memory_bytes=420 * MIB)
    verdict = judge_after(3 * HOUR, gpu(processes=(mine,), memory_used_bytes=430 * MIB))
    assert state_and_reason(verdict) == ("held", "bob, idle for 3 h, 420 MiB allocated")


def test_case_10_a_process_that_just_started_is_busy() -> None:
    card = gpu(processes=(process(started_at=NOON - 20),), memory_used_bytes=17 * GIB)
    assert state_and_reason(judge_once(card)) == ("busy", "alice, started 20 s ago")


def test_case_10_idle_time_before_a_process_came_does_not_count() -> None:
    empty = observe_for(gpu(), 5 * HOUR, until=NOON - STEP)
    card = gpu(processes=(process(started_at=NOON - 20),), memory_used_bytes=17 * GIB)
    assert state_and_reason(judge_after(0, card, empty)) == ("busy", "alice, started 20 s ago")


def test_case_11_without_utilisation_idle_power_over_the_window_means_held() -> None:
    card = gpu(processes=(process(user="bob"),), memory_used_bytes=17 * GIB, busy_percent=None)
    verdict = judge_after(3 * HOUR, card)
    assert state_and_reason(verdict) == (
        "held",
        "bob, judged by power: idle for 3 h, 16.0 GiB allocated",
    )
    assert judge_after(5 * MINUTE, card).state == "busy"


@pytest.mark.parametrize("watts", [None, 400.0])
def test_case_12_without_utilisation_or_idle_power_a_process_is_busy(watts: float | None) -> None:
    mine = process(gpu_memory_bytes=20 * GIB)
    card = gpu(processes=(mine,), memory_used_bytes=21 * GIB, busy_percent=None, power_watts=watts)
    reason = "utilisation not measurable; alice, 20.0 GiB"
    assert state_and_reason(judge_after(3 * HOUR, card)) == ("busy", reason)
    assert state_and_reason(judge_once(card)) == ("busy", reason)


def test_case_13_an_mps_server_without_clients_leaves_a_gpu_free() -> None:
    card = gpu(processes=(MPS_SERVER,), memory_used_bytes=60 * MIB)
    assert state_and_reason(judge_after(HOUR, card)) == ("free", "MPS server, no client")


def test_case_13_an_mps_client_is_as_busy_as_any_process() -> None:
    client = process(user="carol", kind="mps")
    card = gpu(processes=(MPS_SERVER, client), memory_used_bytes=17 * GIB, busy_percent=80.0)
    assert state_and_reason(judge_once(card)) == ("busy", "carol, 80 %")


def test_case_14_one_sample_of_full_utilisation_at_idle_power_is_an_artefact() -> None:
    card = gpu(busy_percent=100.0)
    assert state_and_reason(judge_once(card)) == ("free", "nobody on it (one sample)")


def test_case_14_the_median_outvotes_one_sample_of_full_utilisation() -> None:
    seen = observe_for(gpu(power_watts=None), 2 * MINUTE, until=NOON - STEP)
    card = gpu(busy_percent=100.0, power_watts=None)
    assert judge_after(0, card, seen).state == "free"


def test_case_14_power_above_idle_confirms_one_sample() -> None:
    assert judge_once(gpu(busy_percent=100.0, power_watts=500.0)).state == "busy"


def test_case_14_an_mps_server_alone_is_not_a_user() -> None:
    card = gpu(processes=(MPS_SERVER,), memory_used_bytes=60 * MIB, busy_percent=100.0)
    assert judge_once(card).state == "free"


def test_case_14_does_not_apply_where_processes_cannot_be_read() -> None:
    card = gpu(processes=None, busy_percent=100.0)
    reason = "in use, 100 %; processes not readable (one sample)"
    assert state_and_reason(judge_once(card)) == ("busy", reason)


@pytest.mark.parametrize("kind", ["graphics", "compute+graphics"])
def test_case_14_does_not_apply_to_a_display_that_works_hard(kind: str) -> None:
    screen = process(900, "gdm", kind=kind, gpu_memory_bytes=None)
    card = gpu(processes=(screen,), memory_used_bytes=300 * MIB, busy_percent=50.0)
    assert judge_once(card).state == "busy"


def test_case_14_does_not_apply_to_busy_video_engines() -> None:
    assert judge_once(gpu(encoder_percent=70.0)).state == "busy"


def test_case_15_memory_and_utilisation_decide_where_processes_cannot_be_read() -> None:
    reason = "processes not readable; memory and utilisation show no use"
    assert state_and_reason(judge_once(gpu(processes=None))) == ("free", reason)


def test_case_15_memory_alone_is_not_enough() -> None:
    assert judge_once(gpu(processes=None, busy_percent=None)).state == "unknown"
    assert judge_once(gpu(processes=None, memory_used_bytes=None)).state == "unknown"


def test_case_16_much_memory_is_in_use_when_the_processes_cannot_be_read() -> None:
    card = gpu(processes=None, memory_used_bytes=30 * GIB, busy_percent=40.0)
    assert state_and_reason(judge_after(HOUR, card)) == (
        "busy",
        "in use, 30.0 GiB; processes not readable",
    )


def test_case_16_idle_for_the_window_it_is_held() -> None:
    card = gpu(processes=None, memory_used_bytes=30 * GIB)
    reason = "processes not readable; idle for 3 h, 30.0 GiB allocated"
    assert state_and_reason(judge_after(3 * HOUR, card)) == ("held", reason)


def test_case_17_unified_memory_leaves_an_empty_device_free() -> None:
    card = gpu(memory_shared=True, memory_used_bytes=None, memory_total_bytes=None)
    assert state_and_reason(judge_once(card)) == (
        "free",
        "memory shared with the host; nobody on it",
    )


def test_case_17_the_memory_of_the_host_is_no_evidence_of_use() -> None:
    assert judge_once(gpu(memory_shared=True, memory_used_bytes=70 * GIB)).state == "free"


def test_case_18_unknown_memory_is_unknown() -> None:
    card = gpu(memory_used_bytes=None)
    assert state_and_reason(judge_after(HOUR, card)) == (
        "unknown",
        "memory not readable: cannot tell",
    )
    assert judge_after(HOUR, gpu(memory_used_bytes=None, processes=(DISPLAY,))).state == "unknown"


def test_case_44_an_older_tool_that_never_reports_memory_is_judged_by_what_it_reports() -> None:
    omitted = {"memory_used_bytes": "not reported by nvgpu"}
    card = gpu(memory_used_bytes=None, memory_total_bytes=None, unread=omitted)
    reason = "no process and no load, as reported by nvgpu, which does not report memory"
    assert state_and_reason(judge_after(HOUR, card)) == ("free", reason)
    assert state_and_reason(judge_once(card)) == ("free", f"{reason} (one sample)")
    assert judge_after(HOUR, replace(card, busy_percent=40)).state == "busy"
    # Without utilisation nothing is left to judge by.
    assert judge_after(HOUR, replace(card, busy_percent=None)).state == "unknown"
    assert judge_after(HOUR, replace(card, processes=None)).state == "unknown"
    assert judge_after(HOUR, replace(card, processes=(process(),))).state == "held"


def test_case_27_a_zombie_that_holds_memory_is_a_ghost() -> None:
    dead = process(condition="zombie", gpu_memory_bytes=12 * GIB)
    card = gpu(processes=(dead,), memory_used_bytes=13 * GIB)
    assert state_and_reason(judge_once(card)) == (
        "ghost",
        "pid 4711 is a zombie and still holds 12.0 GiB",
    )


def test_case_27_a_process_that_cannot_be_interrupted_is_a_ghost() -> None:
    stuck = process(condition="uninterruptible", gpu_memory_bytes=12 * GIB)
    card = gpu(processes=(stuck,), memory_used_bytes=13 * GIB)
    reason = "pid 4711 is uninterruptible and still holds 12.0 GiB"
    assert state_and_reason(judge_after(HOUR, card)) == ("ghost", reason)


def test_case_27_a_worker_that_waits_for_a_disk_is_no_ghost() -> None:
    waiting = (process(condition="uninterruptible"),)
    worked = observe_for(gpu(processes=(process(),), busy_percent=90.0), HOUR, until=NOON - STEP)
    assert judge_after(0, gpu(processes=waiting), worked).state == "busy"
    assert judge_once(gpu(processes=waiting, busy_percent=90.0)).state == "busy"


def test_case_27_a_living_process_beside_a_zombie_is_judged_by_activity() -> None:
    crowd = (process(condition="zombie"), process(5, "bob"))
    assert state_and_reason(judge_once(gpu(processes=crowd, busy_percent=70.0))) == (
        "busy",
        "bob, 70 %",
    )


def test_case_28_several_users_share_a_gpu() -> None:
    crowd = (process(1, "carol", gpu_memory_bytes=20 * GIB), process(2, "root"), process(3, "root"))
    verdict = judge_once(gpu(processes=crowd, busy_percent=50.0))
    assert state_and_reason(verdict) == ("busy", "root and carol, 50 %")
    assert note_texts(verdict) == ["shared by 2"]


def test_case_28_a_display_server_is_not_one_of_the_users() -> None:
    verdict = judge_once(gpu(processes=(process(), DISPLAY), busy_percent=50.0))
    assert state_and_reason(verdict) == ("busy", "alice, 50 %")
    assert verdict.notes == ()


@pytest.mark.parametrize(
    "fields, state",
    [
        ({"busy_percent": 2.0**32 - 1}, "free"),
        ({"memory_used_bytes": 10**20}, "unknown"),
        ({"memory_used_bytes": -1}, "unknown"),
        ({"temperature_celsius": -1.0}, "free"),
        ({"ecc_uncorrected": 2**64 - 1}, "free"),
        ({"power_watts": 4_294_967.0}, "free"),
        ({"power_watts": 9_000.0, "busy_percent": None}, "free"),
        ({"ecc_uncorrected": 2**32 - 1}, "free"),
    ],
)
def test_case_29_an_impossible_value_counts_as_not_measured(
    fields: dict[str, Any], state: str
) -> None:
    assert judge_once(gpu(**fields)).state == state


def test_case_31_full_utilisation_at_idle_power_is_noted_after_the_window() -> None:
    card = gpu(processes=(process(),), memory_used_bytes=17 * GIB, busy_percent=100.0)
    verdict = judge_after(HOUR, card)
    assert state_and_reason(verdict) == ("busy", "alice, 100 %")
    assert note_texts(verdict) == ["100 % busy at idle power: probably stalled"]
    assert judge_after(5 * MINUTE, card).notes == ()


@pytest.mark.parametrize(
    "used, busy, state",
    [(800 * MIB, 4.0, "free"), (800 * MIB, 60.0, "busy"), (9 * GIB, 0.0, "busy")],
)
def test_case_32_a_desktop_is_free_if_idle_and_small(used: int, busy: float, state: str) -> None:
    crowd = tuple(
        process(pid, kind="compute+graphics", gpu_memory_bytes=None) for pid in range(1, 9)
    )
    card = gpu(processes=crowd, memory_used_bytes=used, busy_percent=busy)
    assert judge_after(3 * HOUR, card).state == state
