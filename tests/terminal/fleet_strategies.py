"""Hypothesis strategies for fleets: hostile names, missing and absurd figures."""

from typing import get_args

from hypothesis import strategies as st

from fleet_smi.model.fleet import (
    STATES,
    FleetView,
    JudgedGpu,
    JudgedInstance,
    NodeView,
    Note,
    NoteKind,
    Verdict,
)
from fleet_smi.model.snapshot import CollectorRun, Fault, Host, Process
from tests.terminal.samples import NOW, fleet

# Surrogates cannot come out of a decoded report, and cannot be written as JSON.
ANY_TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=30)
HOSTILE = st.sampled_from(
    [
        "alice",
        "山田太郎" * 20,
        "\x1b[31mroot\x1b[0m",
        "=HYPERLINK(1)",
        "-1+1",
        'a,"b"\r\nc',
        "e\u0301" * 50,
        "\u202eecila",
        "x" * 500,
        "",
    ]
)
TEXT = ANY_TEXT | HOSTILE
OPTIONAL_TEXT = st.none() | TEXT
BYTES = st.none() | st.integers(0, 1 << 38) | st.integers(0, 1 << 64)
PERCENT = st.none() | st.floats(0, 100) | st.floats(0, 1e12)
TIME = st.floats(0, 2 * NOW) | st.floats(0, 1e18)
SMALL = st.none() | st.integers(0, 100_000)


PROCESS = st.builds(
    Process,
    pid=st.integers(0, 1 << 31),
    kind=st.sampled_from(["compute", "graphics", "compute+graphics", "mps"]),
    gpu_memory_bytes=BYTES,
    user=OPTIONAL_TEXT,
    uid=SMALL,
    group=OPTIONAL_TEXT,
    name=OPTIONAL_TEXT,
    command=OPTIONAL_TEXT,
    started_at=st.none() | TIME,
    busy_percent=PERCENT,
    container=OPTIONAL_TEXT,
    pod=OPTIONAL_TEXT,
    slurm_job=OPTIONAL_TEXT,
    condition=st.sampled_from([None, "zombie", "uninterruptible"]),
    hidden=st.booleans(),
)
PROCESSES = st.none() | st.lists(PROCESS, max_size=3).map(tuple)
UNREAD = st.dictionaries(st.sampled_from(["busy_percent", "processes"]), TEXT, max_size=2)
VERDICT = st.builds(
    Verdict,
    state=st.sampled_from(STATES),
    reason=TEXT,
    since=TIME,
    notes=st.lists(st.builds(Note, st.sampled_from(get_args(NoteKind)), TEXT), max_size=2).map(
        tuple
    ),
    idle_seconds=st.none() | TIME,
)
INSTANCE = st.builds(
    JudgedInstance,
    uuid=TEXT,
    profile=OPTIONAL_TEXT,
    memory_used_bytes=BYTES,
    memory_total_bytes=BYTES,
    busy_percent=PERCENT,
    processes=PROCESSES,
    unread=UNREAD,
    verdict=VERDICT,
)
FAULT = st.builds(
    Fault,
    kind=st.sampled_from(["lost", "needs_reset", "not_answering", "mismatch", "missing"]),
    detail=TEXT,
    remedy=OPTIONAL_TEXT,
)
GPU = st.builds(
    JudgedGpu,
    uuid=TEXT,
    index=st.integers(0, 2000),
    vendor=st.sampled_from(["nvidia", "amd", "intel"]),
    name=OPTIONAL_TEXT,
    memory_used_bytes=BYTES,
    memory_total_bytes=BYTES,
    memory_shared=st.booleans(),
    busy_percent=PERCENT,
    temperature_celsius=PERCENT,
    fan_percent=PERCENT,
    power_watts=PERCENT,
    power_limit_watts=PERCENT,
    sm_clock_mhz=SMALL,
    memory_clock_mhz=SMALL,
    performance_state=OPTIONAL_TEXT,
    throttle_reasons=st.none() | st.lists(TEXT, max_size=2).map(tuple),
    ecc_uncorrected=SMALL,
    pcie_generation=SMALL,
    pcie_width=SMALL,
    memory_temperature_celsius=PERCENT,
    energy_joules=PERCENT,
    asleep=st.booleans(),
    instances=st.lists(INSTANCE, max_size=2).map(tuple),
    processes=PROCESSES,
    fault=st.none() | FAULT,
    unread=UNREAD,
    verdict=VERDICT,
)
NODE = st.builds(
    NodeView,
    node_id=TEXT,
    name=TEXT,
    taken_at=TIME,
    age_seconds=TIME,
    silent=st.booleans(),
    host=st.builds(Host, driver_version=OPTIONAL_TEXT),
    runs=st.lists(
        st.builds(
            CollectorRun,
            name=TEXT,
            outcome=st.sampled_from(["ok", "absent", "failed"]),
            seconds=st.just(0.1),
            detail=TEXT,
        ),
        max_size=2,
    ).map(tuple),
    gpus=st.lists(GPU, max_size=4).map(tuple),
)
FLEET: st.SearchStrategy[FleetView] = st.lists(NODE, max_size=3).map(lambda nodes: fleet(*nodes))
