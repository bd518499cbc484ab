"""Hypothesis strategies for GPUs, and verdicts over sequences of their samples."""

from typing import Any

from hypothesis import strategies as st

from fleet_smi.model.fleet import Verdict
from fleet_smi.model.snapshot import Fault, Gpu, Instance, Process
from fleet_smi.model.units import GIB, MIB
from fleet_smi.model.verdict.hysteresis import SampleTiming, Standing, apply_sample
from fleet_smi.model.verdict.judge import judge
from fleet_smi.model.verdict.thresholds import Thresholds
from fleet_smi.model.verdict.window import Window, add_sample
from tests.builders import NOON, gpu

THRESHOLDS = Thresholds()

# Values around every threshold, sentinels, and whatever else a float or integer can be.
percents = (
    st.none() | st.sampled_from([0.0, 1.9, 2.0, 9.9, 10.0, 50.0, 100.0, 2.0**32]) | st.floats()
)
sizes = st.none() | st.sampled_from([0, 4 * MIB, GIB - 1, GIB, 71 * GIB, 10**20]) | st.integers()
times = st.none() | st.floats()
texts = st.none() | st.text(max_size=8)


def processes(**fixed: Any) -> st.SearchStrategy[Process]:
    fields: dict[str, Any] = {
        "pid": st.integers(0, 12),
        "kind": st.sampled_from(["compute", "graphics", "compute+graphics", "mps"]),
        "gpu_memory_bytes": sizes,
        "user": st.sampled_from([None, "", "alice", "bob", "carol", "dave"]),
        "uid": st.none() | st.integers(),
        "name": st.sampled_from([None, "python", "nvidia-cuda-mps-server", "nv-hostengine"]),
        "busy_percent": percents,
        "started_at": times,
        "condition": st.sampled_from([None, None, "zombie", "uninterruptible"]),
        "hidden": st.booleans(),
    }
    return st.builds(Process, **(fields | fixed))


process_lists = st.lists(processes(), max_size=3).map(tuple)
faults = st.builds(
    Fault,
    kind=st.sampled_from(
        ["lost", "needs_reset", "slow", "not_answering", "mismatch", "missing", "unreadable"]
    ),
    detail=st.text(max_size=8),
    remedy=texts,
    since=times,
)
instances = st.builds(
    Instance,
    uuid=st.sampled_from(["MIG-1", "MIG-2", "MIG-3"]),
    memory_used_bytes=sizes,
    memory_total_bytes=sizes,
    busy_percent=percents,
    processes=st.none() | process_lists,
)
gpus = st.builds(
    Gpu,
    uuid=st.just("GPU-1"),
    index=st.just(0),
    vendor=st.just("nvidia"),
    memory_used_bytes=sizes,
    memory_total_bytes=sizes,
    memory_shared=st.booleans(),
    busy_percent=percents,
    encoder_percent=percents,
    power_watts=percents,
    power_limit_watts=percents,
    ecc_uncorrected=st.none() | st.sampled_from([0, 0, 0, 3, 2**64 - 1]),
    ecc_contained=st.sampled_from([None, False, True]),
    reset_pending=texts,
    throttle_reasons=st.sampled_from([None, (), ("gpu_idle",), ("hw_slowdown",), ("thermal", "x")]),
    processes_hidden=st.booleans(),
    reported_by=st.sampled_from([None, None, "nvgpu"]),
    compute_mode=st.sampled_from([None, "default", "prohibited"]),
    mig_mode=st.sampled_from([None, False, False, True]),
    asleep=st.booleans(),
    instances=st.lists(instances, max_size=3).map(tuple),
    processes=st.none() | process_lists,
    fault=st.none() | st.none() | faults,
)
# GPUs without a fault, so that only their use decides.
sound_process_lists = st.lists(
    processes(
        gpu_memory_bytes=st.none() | st.integers(0, 70 * GIB),
        started_at=st.none() | st.floats(NOON - 9000, NOON),
    ),
    max_size=3,
    unique_by=lambda one: one.pid,
).map(tuple)
loads = st.sampled_from([0.0, 1.0, 1.9, 2.0, 5.0, 9.0, 10.0, 11.0, 60.0, 100.0])
memories = st.sampled_from([0, 4 * MIB, 900 * MIB, GIB - 1, GIB, 2 * GIB, 71 * GIB])
sound_gpus = st.builds(
    gpu,
    processes=st.none() | sound_process_lists,
    memory_used_bytes=memories,
    busy_percent=loads,
    power_watts=st.sampled_from([None, 70.0, 600.0]),
)
intervals = st.sampled_from([1.0, 30.0, 119.0])


def window_of(cards: list[Gpu], interval: float) -> Window:
    seen = None
    for number, card in enumerate(cards):
        seen = add_sample(seen, card, NOON + number * interval, THRESHOLDS)
    assert seen is not None
    return seen


def verdict_of(cards: list[Gpu], interval: float) -> Verdict:
    return judge(
        cards[-1], window_of(cards, interval), NOON + (len(cards) - 1) * interval, THRESHOLDS
    )


def standings_of(cards: list[Gpu], interval: float) -> list[Standing]:
    standings: list[Standing] = []
    for number, card in enumerate(cards):
        known = standings[-1] if standings else None
        standings.append(
            apply_sample(
                known, card, card, SampleTiming(NOON + number * interval, interval), THRESHOLDS
            )
        )
    return standings
