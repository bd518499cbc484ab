"""A past snapshot of the fleet has what was known then, and no more."""

from typing import Any

import pytest
from msgspec.structs import replace

from fleet_smi.hub.history.queries.snapshot_at import GpuAt, NodeAt, build_fleet_at
from fleet_smi.hub.history.recording.rows import NodeRow, Presence
from fleet_smi.model.fleet import FleetView, JudgedGpu
from fleet_smi.model.history import GpuOfNode, Holder, Period
from fleet_smi.model.people import HIDDEN_USER, people_in_view
from fleet_smi.model.units import GIB
from tests.builders import HOUR, MINUTE, NOON

ALICE = Holder(pid=7, user="alice", name="python", memory_bytes=1 << 30, started_at=NOON - HOUR)


def gpu_then(index: int = 0, state: Any = "free", **fields: Any) -> GpuAt:
    gpu = {"uuid": f"GPU-{index}", "parent": None, "model": "H100"} | fields.pop("gpu", {})
    period = {"start": NOON - HOUR, "end": None, "reason": state} | fields.pop("period", {})
    return GpuAt(
        gpu=GpuOfNode(node_id="one", node="gpu01", index=index, **gpu),
        period=Period(state=state, **period),
        since=fields.pop("since", NOON - HOUR),
        figures=fields,
    )


def node_then(*gpus: GpuAt, name: str = "gpu01", **presence: Any) -> NodeAt:
    times = {"start": NOON - HOUR, "end": None} | presence
    row = NodeRow(node_id=name, name=name, labels={"rack": "a"})
    return NodeAt(node=row, presence=Presence(node_id=name, **times), gpus=gpus)


def seen(*gpus: GpuAt, **presence: Any) -> tuple[JudgedGpu, ...]:
    return view(node_then(*gpus, **presence)).nodes[0].gpus


def view(*nodes: NodeAt) -> FleetView:
    return build_fleet_at(NOON, nodes)


def test_what_is_not_stored_is_unknown() -> None:
    (gpu,) = seen(gpu_then(busy_percent=None))
    assert (gpu.busy_percent, gpu.memory_used_bytes, gpu.power_limit_watts) == (None, None, None)
    assert (gpu.processes, gpu.name, gpu.verdict.since) == ((), "H100", NOON - HOUR)


def test_figures_are_those_of_the_time_in_their_units() -> None:
    (gpu,) = seen(gpu_then(busy_percent=12.5, memory_used_bytes=float(GIB), sm_clock_mhz=1410.4))
    assert (gpu.busy_percent, gpu.memory_used_bytes, gpu.sm_clock_mhz) == (12.5, 1 << 30, 1410)


def test_holders_become_the_processes_of_the_snapshot() -> None:
    unseen = Holder(pid=8, user=HIDDEN_USER)
    found = view(
        node_then(
            gpu_then(0, "busy", period={"holders": (ALICE,)}),
            gpu_then(1, "busy", period={"holders": (unseen,)}),
        )
    )
    assert [(one.user, one.seen) for one in people_in_view(found)] == [
        ("alice", True),
        (HIDDEN_USER, False),
    ]
    (process,) = found.nodes[0].gpus[0].processes or ()
    assert (process.pid, process.hidden) == (7, False)


def test_a_sole_process_is_given_all_used_memory() -> None:
    both = {"holders": (ALICE, replace(ALICE, pid=8, user="bob"))}
    alone, shared = seen(
        gpu_then(0, "busy", period={"holders": (ALICE,)}, memory_used_bytes=2.0 * GIB),
        gpu_then(1, "busy", period=both, memory_used_bytes=2.0 * GIB),
    )
    assert [one.gpu_memory_bytes for one in alone.processes or ()] == [2 << 30]
    assert [one.gpu_memory_bytes for one in shared.processes or ()] == [None, None]


def test_the_reason_has_the_figures_of_the_time() -> None:
    reason = {"holders": (ALICE,), "reason": "alice, started 2 s ago"}
    busy, unmeasured, held, free = seen(
        gpu_then(0, "busy", period=reason, busy_percent=96.2),
        gpu_then(1, "busy", period=reason),
        gpu_then(2, "held", period=reason, since=NOON - 1200),
        gpu_then(3, "free", period={"reason": "nobody on it"}),
    )
    assert busy.verdict.reason == "alice, 96 %"
    assert unmeasured.verdict.reason == "alice, load unknown"
    assert held.verdict.reason == "alice, idle for 20 min"
    assert free.verdict.reason == "nobody on it"


def test_a_held_gpu_was_idle_at_least_since_its_state_began() -> None:
    held, busy = seen(gpu_then(0, "held", since=NOON - 600), gpu_then(1, "busy", since=NOON - 600))
    assert (held.verdict.idle_seconds, busy.verdict.idle_seconds) == (600.0, None)


@pytest.mark.parametrize("state, processes", [("broken", None), ("unknown", None), ("ghost", ())])
def test_the_processes_of_an_unreadable_gpu_are_unknown(state: str, processes: Any) -> None:
    assert seen(gpu_then(0, state))[0].processes == processes


def test_a_node_that_did_not_report_is_silent_and_its_gpus_are_not_free() -> None:
    reported_until = NOON - 10 * MINUTE
    ended: dict[str, Any] = {"end": reported_until, "certain": False}
    found = view(
        node_then(gpu_then(period=ended), gpu_then(1, "broken", period=ended), **ended),
        node_then(gpu_then(), name="gpu02"),
    )
    silent = found.nodes[0]
    assert (silent.silent, silent.age_seconds, silent.taken_at) == (True, 600.0, reported_until)
    free, broken = silent.gpus
    assert (free.verdict.state, free.verdict.was) == ("unknown", "free")
    assert free.verdict.reason == "silent for 10 min; was free"
    assert broken.verdict.state == "broken"
    assert (found.summary.nodes_reporting, found.summary.nodes) == (1, 2)


def test_a_removed_node_is_not_in_the_snapshot() -> None:
    assert view(node_then(end=NOON - 1.0)).nodes == ()
    assert len(view(node_then(end=NOON + 1.0)).nodes) == 1


def test_a_gpu_that_was_taken_out_is_not_in_the_snapshot() -> None:
    assert seen(gpu_then(period={"end": NOON - 1.0})) == ()
    assert len(seen(gpu_then(period={"end": NOON + 1.0}))) == 1


def test_instances_are_parts_of_their_gpu() -> None:
    part = gpu_then(gpu={"uuid": "MIG-1", "parent": "GPU-0", "model": "1g.10gb"}, state="busy")
    (gpu,) = seen(part, gpu_then(0, "busy"))
    (instance,) = gpu.instances
    assert (instance.uuid, instance.profile, instance.verdict.state) == ("MIG-1", "1g.10gb", "busy")


def test_nodes_and_gpus_are_sorted() -> None:
    found = view(node_then(name="gpu10"), node_then(gpu_then(1), gpu_then(0), name="gpu9"))
    assert [node.name for node in found.nodes] == ["gpu9", "gpu10"]
    assert [gpu.index for gpu in found.nodes[0].gpus] == [0, 1]
    assert found.nodes[0].labels == {"rack": "a"}
