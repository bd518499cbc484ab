"""Verdict cases 33 to 44 by their numbers, on samples made by hand."""

import random
from collections.abc import Iterable
from typing import Any

import pytest
from msgspec.structs import replace

from fleet_smi.model.fleet import Verdict
from fleet_smi.model.snapshot import Gpu, Process
from fleet_smi.model.units import GIB, MIB
from fleet_smi.model.verdict.hysteresis import SampleTiming, Standing, apply_sample
from fleet_smi.model.verdict.judge import Lease, judge
from tests.builders import HOUR, MINUTE, NOON, gpu, process
from tests.verdicts import (
    SETTINGS,
    judge_after,
    judge_once,
    note_texts,
    observe_for,
    state_and_reason,
)


def desktop(name: str, memory: int = 200 * MIB, pid: int = 900, **fields: Any) -> Process:
    kind = {"kind": "compute+graphics", **fields}
    return process(pid, "alice", name=name, gpu_memory_bytes=memory, **kind)


def stand(cards: Iterable[Gpu], step: float) -> Standing:
    """Return the standing after these samples, one every `step` seconds."""
    standing, at = None, NOON
    for card in cards:
        standing = apply_sample(standing, card, card, SampleTiming(at, step), SETTINGS)
        at += step
    assert standing is not None
    return standing


def loads(values: Iterable[float], **fields: Any) -> list[Gpu]:
    card = gpu(processes=(process(user="bob"),), memory_used_bytes=17 * GIB, **fields)
    return [replace(card, busy_percent=value) for value in values]


def test_case_33_a_pending_reset_is_a_note() -> None:
    card = gpu(reset_pending="remapped rows wait for a reset")
    assert judge_once(card).state == "free"
    assert note_texts(judge_once(card)) == ["reset when idle: remapped rows wait for a reset"]
    used = replace(card, processes=(process(),), busy_percent=90.0)
    assert state_and_reason(judge_once(used)) == ("busy", "alice, 90 %")


def test_case_34_contained_errors_are_a_note_and_others_break_a_gpu() -> None:
    card = gpu(ecc_uncorrected=2, ecc_contained=True)
    assert judge_once(card).state == "free"
    assert note_texts(judge_once(card)) == ["2 uncorrectable memory errors since boot"]
    for unsure in (None, False):
        assert judge_once(replace(card, ecc_contained=unsure)).state == "broken"


@pytest.mark.parametrize(
    "name", ["kwin_wayland", "gnome-shell", "Xorg", "Xwayland", "mutter", "plasmashell", "firefox"]
)
def test_case_35_a_desktop_program_with_a_small_context_is_display(name: str) -> None:
    card = gpu(processes=(desktop(name),), memory_used_bytes=300 * MIB, busy_percent=3.0)
    for verdict in (judge_once(card), judge_after(HOUR, card)):
        assert state_and_reason(verdict) == ("free", "display only")
        assert verdict.notes == ()


def test_case_35_another_program_with_both_kinds_is_somebodys_work() -> None:
    card = gpu(processes=(desktop("blender"),), memory_used_bytes=300 * MIB)
    assert judge_after(HOUR, card).state == "held"
    computing = gpu(processes=(desktop("firefox", kind="compute"),), memory_used_bytes=300 * MIB)
    assert judge_after(HOUR, computing).state == "held"


@pytest.mark.parametrize(
    "used, total, text", [(1.6, 24, "display uses 1.6 GiB"), (0.9, 8, "display uses 922 MiB")]
)
def test_case_36_a_desktop_may_use_more_memory(used: float, total: int, text: str) -> None:
    half = int(used / 2 * GIB)
    crowd = (desktop("Xorg", half, kind="graphics"), desktop("chrome", half, 901))
    card = gpu(
        processes=crowd,
        memory_used_bytes=2 * half,
        memory_total_bytes=total * GIB,
        busy_percent=2.0,
    )
    verdict = judge_after(HOUR, card)
    assert state_and_reason(verdict) == ("free", "display only")
    assert note_texts(verdict) == [text]


def test_case_36_a_browser_that_plays_a_video_leaves_a_gpu_free() -> None:
    card = gpu(
        processes=(desktop("firefox"),),
        memory_used_bytes=600 * MIB,
        busy_percent=6.0,
        decoder_percent=40.0,
    )
    assert judge_after(HOUR, card).state == "free"
    assert judge_after(HOUR, replace(card, encoder_percent=40.0)).state == "busy"


def test_case_36_has_limits() -> None:
    hard = gpu(processes=(desktop("chrome"),), memory_used_bytes=300 * MIB, busy_percent=60.0)
    assert judge_after(HOUR, hard).state == "busy"
    large = gpu(processes=(desktop("chrome", 9 * GIB),), memory_used_bytes=9 * GIB)
    assert judge_after(HOUR, large).state == "held"
    # Memory for which the desktop does not account is not the desktop's.
    rest = gpu(processes=(desktop("chrome"),), memory_used_bytes=3 * GIB)
    assert judge_after(HOUR, rest).state != "free"


@pytest.mark.parametrize("name", ["nv-hostengine", "nvidia-persistenced", "dcgm-exporter", "gpud"])
def test_case_37_a_system_service_leaves_a_gpu_free(name: str) -> None:
    service = process(700, "root", name=name, gpu_memory_bytes=300 * MIB)
    card = gpu(processes=(service,), memory_used_bytes=310 * MIB)
    assert state_and_reason(judge_after(HOUR, card)) == ("free", "system services only")
    beside = replace(card, processes=(service, process()), busy_percent=80.0)
    assert state_and_reason(judge_once(beside)) == ("busy", "alice, 80 %")
    large = replace(service, gpu_memory_bytes=20 * GIB)
    assert judge_after(HOUR, gpu(processes=(large,), memory_used_bytes=20 * GIB)).state == "held"


@pytest.mark.parametrize("step", [5.0, 60.0])
@pytest.mark.parametrize("before", [0, 40])
def test_case_38_noise_of_a_few_percent_does_not_defeat_held(step: float, before: int) -> None:
    dice = random.Random(38)
    work = [90.0] * before
    noise = [float(dice.randint(0, 3)) for _ in range(int(1800 / step) + 1)]
    verdict = stand(loads([*work, *noise]), step).verdict
    assert verdict.state == "held"
    assert "but for peaks of 3 %, 16.0 GiB allocated" in verdict.reason


def test_case_38_a_short_spike_every_five_minutes_does_not_defeat_held() -> None:
    spikes = [3.0 if number % 60 == 30 else 0.0 for number in range(361)]
    verdict = stand(loads(spikes), 5.0).verdict
    assert verdict.state == "held"
    assert verdict.reason == "bob, idle for 30 min but for peaks of 3 %, 16.0 GiB allocated"


@pytest.mark.parametrize("load", [4.0, 6.0, 90.0])
def test_case_38_steady_work_is_busy_however_little(load: float) -> None:
    assert stand(loads([0.0] * 60 + [load] * 60), 60.0).verdict.state == "busy"


def test_case_38_a_spike_of_real_work_ends_the_idle_time() -> None:
    verdict = stand(loads([0.0] * 60 + [60.0] + [0.0] * 5), 60.0).verdict
    assert verdict.reason == "bob, idle for 4 min (held after 10 min)"


def test_case_39_memory_inside_a_container_is_in_use_and_no_ghost() -> None:
    card = gpu(processes=None, processes_hidden=True, memory_used_bytes=71 * GIB)
    assert state_and_reason(judge_once(card)) == (
        "busy",
        "in use, 71.0 GiB; not visible from here (one sample)",
    )
    assert state_and_reason(judge_after(HOUR, card)) == (
        "held",
        "not visible from here; idle for 1 h, 71.0 GiB allocated",
    )
    assert judge_once(gpu(processes=None, processes_hidden=True)).state == "free"


def test_case_40_a_slowdown_of_minutes_is_a_note_with_its_share() -> None:
    hot = gpu(processes=(process(),), busy_percent=90.0, throttle_reasons=("hw_thermal_slowdown",))
    cool = replace(hot, throttle_reasons=("sw_power_cap",))
    assert note_texts(judge_once(hot)) == ["throttled: thermal (one sample)"]
    cards = [cool] * 120 + [hot] * 72 + [cool] * 20
    verdict = stand(cards, 5.0).verdict
    assert state_and_reason(verdict) == ("busy", "alice, 90 %")
    assert note_texts(verdict) == ["throttled: thermal, 60 % of the last 10 min"]
    assert stand([*cards, *[cool] * 130], 5.0).verdict.notes == ()
    assert stand([cool] * 60, 5.0).verdict.notes == ()


def test_case_41_an_idle_user_beside_a_busy_one_is_named() -> None:
    crowd = (
        process(1, "alice", gpu_memory_bytes=12 * GIB, busy_percent=None),
        process(2, "bob", gpu_memory_bytes=20 * GIB, busy_percent=97.0),
    )
    card = gpu(processes=crowd, memory_used_bytes=33 * GIB, busy_percent=97.0)
    verdict = judge_after(2 * HOUR, card)
    assert state_and_reason(verdict) == ("busy", "bob, 97 %")
    assert note_texts(verdict) == ["shared by 2", "alice idle for 2 h, 12.0 GiB allocated"]
    assert (verdict.notes[1].user, verdict.notes[1].idle_seconds) == ("alice", 2 * HOUR)
    short = judge_after(5 * MINUTE, card)
    assert state_and_reason(short) == ("busy", "bob and alice, 97 %")
    both = replace(card, processes=(replace(crowd[0], busy_percent=40.0), crowd[1]))
    assert note_texts(judge_after(0, both, observe_for(card, HOUR))) == ["shared by 2"]
    unmeasured = tuple(replace(one, busy_percent=None) for one in crowd)
    assert note_texts(judge_after(2 * HOUR, replace(card, processes=unmeasured))) == ["shared by 2"]


def test_case_42_what_a_scheduler_has_allocated_is_leased() -> None:
    lease = Lease(holder="alice", taken_at=NOON - 5 * HOUR, scheduler="Slurm", job="4711")
    free = Verdict(state="free", reason="nobody on it", since=NOON - 3 * HOUR)
    window = observe_for(gpu(), 3 * HOUR)
    verdict = judge(gpu(), window, NOON, SETTINGS, lease=lease, previous=free)
    assert state_and_reason(verdict) == (
        "leased",
        "allocated by Slurm to alice (job 4711), unused for 3 h",
    )


@pytest.mark.parametrize("vendor", ["intel", "amd"])
def test_case_43_utilisation_alone_can_free_a_card_of_another_vendor(vendor: Any) -> None:
    card = gpu(vendor=vendor, memory_used_bytes=None, processes=None, busy_percent=0.0)
    assert state_and_reason(judge_after(MINUTE, card)) == (
        "free",
        "idle; processes not readable, memory not readable",
    )
    listed = replace(card, processes=())
    assert state_and_reason(judge_after(MINUTE, listed)) == (
        "free",
        "nobody on it; idle, memory not readable",
    )
    shared = replace(card, memory_shared=True, memory_used_bytes=3 * GIB)
    assert state_and_reason(judge_after(MINUTE, shared)) == (
        "free",
        "idle; processes not readable, memory shared with the host",
    )
    assert judge_after(MINUTE, replace(card, busy_percent=None)).state == "unknown"
    assert judge_after(MINUTE, replace(card, busy_percent=60.0)).state == "busy"


def test_case_44_the_report_of_an_older_tool_is_judged_by_the_window() -> None:
    told = gpu(
        reported_by="nvgpu",
        memory_used_bytes=None,
        memory_total_bytes=None,
        unread={"memory_used_bytes": "not reported by nvgpu"},
    )
    assert state_and_reason(judge_after(HOUR, told)) == (
        "free",
        "no process and no load, as reported by nvgpu, which does not report memory",
    )
    bob = process(user="bob", gpu_memory_bytes=None)
    assert state_and_reason(judge_after(HOUR, replace(told, processes=(bob,)))) == (
        "held",
        "bob, idle for 1 h (as reported by nvgpu)",
    )
