"""Verdict cases that depend on the device, its node or a lease, by their numbers."""

from datetime import datetime
from typing import Any

import pytest
from msgspec.structs import replace

from fleet_smi.model.fleet import Verdict
from fleet_smi.model.snapshot import Fault, Gpu, Instance
from fleet_smi.model.units import GIB
from fleet_smi.model.verdict.judge import Lease, judge, judge_instance, silence_timeout
from fleet_smi.model.verdict.window import add_sample
from tests.builders import HOUR, MINUTE, NOON, gpu, instance, process
from tests.verdicts import SETTINGS, STEP, judge_once, state_and_reason


@pytest.mark.parametrize("kind", ["lost", "needs_reset"])
def test_case_19_a_lost_gpu_is_broken_with_the_text_of_the_driver(kind: Any) -> None:
    trouble = Fault(kind=kind, detail="fell off the bus", remedy="reboot the node")
    card = gpu(fault=trouble, processes=None, memory_used_bytes=None)
    assert state_and_reason(judge_once(card)) == ("broken", "fell off the bus. Reboot the node")


def test_case_19_uncorrectable_errors_break_a_gpu_whatever_runs_on_it() -> None:
    card = gpu(ecc_uncorrected=3, processes=(process(),), busy_percent=90.0)
    state, reason = state_and_reason(judge_once(card))
    assert state == "broken"
    assert reason.startswith("3 uncorrectable memory errors: ")
    assert judge_once(gpu(ecc_uncorrected=0)).state == "free"


def test_case_20_a_driver_that_does_not_answer_breaks_its_gpus() -> None:
    hung = Fault(kind="not_answering", detail="no answer in 5 s", since=NOON - 4 * MINUTE)
    card = gpu(fault=hung, processes=None)
    at = datetime.fromtimestamp(NOON - 4 * MINUTE).astimezone()
    reason = f"driver not answering since {at:%H:%M}"
    assert state_and_reason(judge_once(card)) == ("broken", reason)
    days = replace(hung, since=NOON - 50 * HOUR)
    assert f"{datetime.fromtimestamp(NOON - 50 * HOUR).astimezone():%Y-%m-%d %H:%M}" in (
        judge_once(gpu(fault=days)).reason
    )


def test_case_20_a_driver_within_its_deadline_is_slow() -> None:
    slow = Fault(kind="slow", detail="driver slow: 12 s so far", since=NOON - 12)
    assert state_and_reason(judge_once(gpu(fault=slow))) == ("broken", "driver slow: 12 s so far")


def test_case_20_without_a_time_the_detail_is_the_reason() -> None:
    card = gpu(fault=Fault(kind="not_answering", detail="no answer in 5 s"))
    assert state_and_reason(judge_once(card)) == ("broken", "no answer in 5 s")


def test_case_21_a_driver_and_library_that_do_not_match_leave_it_unknown() -> None:
    trouble = Fault(kind="mismatch", detail="driver 590, library 595", remedy="reboot")
    card = gpu(fault=trouble, busy_percent=0.0)
    assert state_and_reason(judge_once(card)) == ("unknown", "driver 590, library 595. Reboot")


def test_case_22_a_gpu_that_is_gone_is_broken() -> None:
    card = gpu(fault=Fault(kind="missing", detail="", since=NOON - 4 * MINUTE))
    at = datetime.fromtimestamp(NOON - 4 * MINUTE).astimezone()
    assert state_and_reason(judge_once(card)) == ("broken", f"missing since {at:%H:%M}")


def test_case_23_a_silent_node_is_never_free() -> None:
    seen = add_sample(None, gpu(), NOON, SETTINGS)
    verdict = judge(gpu(), seen, NOON, SETTINGS, silent_seconds=4 * MINUTE)
    assert state_and_reason(verdict) == ("unknown", "silent for 4 min; was free")


def test_case_23_silence_names_the_last_user() -> None:
    card = gpu(processes=(process(),), busy_percent=90.0)
    assert state_and_reason(judge_once(card, silent_seconds=4 * MINUTE)) == (
        "unknown",
        "silent for 4 min; was busy (alice)",
    )


def test_case_23_a_broken_gpu_stays_broken_in_silence() -> None:
    card = gpu(fault=Fault(kind="lost", detail="lost"))
    assert judge_once(card, silent_seconds=60.0).state == "broken"


def test_case_24_a_sleeping_gpu_is_free() -> None:
    card = gpu(asleep=True, memory_used_bytes=None, busy_percent=None, processes=None)
    assert state_and_reason(judge_once(card)) == ("free", "asleep; not woken")


def test_case_25_a_gpu_closed_by_its_mode_is_leased() -> None:
    assert state_and_reason(judge_once(gpu(compute_mode="Prohibited"))) == (
        "leased",
        "closed by the administrator",
    )


def test_case_25_remaining_users_are_named() -> None:
    card = gpu(compute_mode="prohibited", processes=(process(),), busy_percent=50.0)
    assert state_and_reason(judge_once(card)) == (
        "leased",
        "closed by the administrator; alice still on it",
    )


def mig(*parts: Instance, **fields: Any) -> Gpu:
    return gpu(mig_mode=True, busy_percent=None, instances=parts, **fields)


def taken(number: int, user: str = "alice") -> Instance:
    mine = process(number, user, gpu_memory_bytes=8 * GIB)
    return instance(number, processes=(mine,), memory_used_bytes=8 * GIB)


def judge_part(card: Gpu, number: int, seconds: float) -> Verdict:
    part, seen, at = card.instances[number], None, NOON - seconds
    while at <= NOON:
        seen = add_sample(seen, part, at, SETTINGS, card)
        at += STEP
    assert seen is not None
    return judge_instance(part, card, seen, NOON, SETTINGS)


def test_case_26_a_gpu_of_free_instances_is_free() -> None:
    assert state_and_reason(judge_once(mig(instance(1), instance(2)))) == (
        "free",
        "2 of 2 instances free",
    )


def test_case_26_one_busy_instance_makes_the_gpu_busy_and_the_rest_stay_free() -> None:
    card = mig(instance(1), taken(2), instance(3), power_watts=400.0)
    assert state_and_reason(judge_once(card)) == ("busy", "2 of 3 instances free; alice")
    assert state_and_reason(judge_part(card, 0, HOUR)) == ("free", "nobody on it")


def test_case_26_a_process_outside_of_every_instance_makes_the_gpu_busy() -> None:
    assert judge_once(mig(instance(1), processes=(process(),))).state == "busy"
    assert judge_once(mig(taken(4711), processes=(process(4711),))).state == "busy"


def test_case_26_the_verdicts_of_the_instances_are_summed_up() -> None:
    held = Verdict(state="held", reason="bob, idle", since=NOON)
    free = Verdict(state="free", reason="nobody on it", since=NOON)
    verdict = judge_once(mig(instance(1), taken(2, "bob")), instance_verdicts=(free, held))
    assert state_and_reason(verdict) == ("held", "1 of 2 instances free; bob")


def test_case_26_mig_without_any_instance_is_leased() -> None:
    state, reason = state_and_reason(judge_once(mig()))
    assert state == "leased"
    assert "no instance exists" in reason


def test_case_26_instances_that_cannot_be_read_leave_the_gpu_unknown() -> None:
    card = mig(unread={"instances": "no permission"})
    reason = "MIG instances not readable (no permission): cannot tell"
    assert state_and_reason(judge_once(card)) == ("unknown", reason)
    screen = process(kind="graphics")
    assert state_and_reason(judge_once(mig(unread=card.unread, processes=(screen,)))) == (
        "unknown",
        reason,
    )
    at_work = mig(unread=card.unread, processes=(process(),))
    assert judge_once(at_work).state == "busy"


def test_case_26_a_fault_of_the_gpu_is_a_fault_of_its_instances() -> None:
    card = mig(instance(1), fault=Fault(kind="lost", detail="fell off the bus"))
    assert state_and_reason(judge_part(card, 0, 0)) == ("broken", "fell off the bus")


def test_case_11_the_power_of_the_gpu_counts_for_its_only_instance_in_use() -> None:
    alone = mig(taken(1), instance(2))
    assert judge_part(alone, 0, HOUR).state == "held"
    both = mig(taken(1), taken(2, "bob"))
    assert state_and_reason(judge_part(both, 0, HOUR)) == (
        "busy",
        "utilisation not measurable; alice, 8.0 GiB",
    )


def test_case_30_a_lease_takes_a_free_gpu_before_work_is_visible() -> None:
    lease = Lease(holder="alice", taken_at=NOON - 40)
    verdict = judge_once(gpu(), lease=lease)
    assert state_and_reason(verdict) == ("leased", "taken by alice 40 s ago")
    assert verdict.since == NOON - 40


def test_case_30_visible_work_overrides_a_lease() -> None:
    lease = Lease(holder="alice", taken_at=NOON - 40)
    card = gpu(processes=(process(),), busy_percent=50.0)
    assert judge_once(card, lease=lease).state == "busy"


def test_a_gpu_that_could_not_be_read_is_unknown() -> None:
    card = gpu(fault=Fault(kind="unreadable", detail="no permission to open the device"))
    assert state_and_reason(judge_once(card)) == ("unknown", "no permission to open the device")


@pytest.mark.parametrize("interval, limit", [(None, None), (0.0, None), (-1.0, None), (5.0, 15.0)])
def test_a_node_is_silent_after_three_intervals_if_it_has_one(
    interval: float | None, limit: float | None
) -> None:
    assert silence_timeout(interval, SETTINGS) == limit
