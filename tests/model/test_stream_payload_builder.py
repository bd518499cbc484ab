"""The stream payload of a node: facts that rarely change, and rounded figures."""

from typing import Any

import pytest

from fleet_smi.model.fleet import JudgedGpu, JudgedInstance, NodeView, Note, Verdict
from fleet_smi.model.snapshot import CollectorRun, Gpu, Host
from fleet_smi.model.stream_payload import DeviceFigures, GpuPayload, NodeFigures, NodePayload
from fleet_smi.model.stream_payload_builder import node_figures, node_payload, unique_processes
from fleet_smi.model.units import GIB
from fleet_smi.model.views import NodeParts, summarize_nodes
from tests.builders import MINUTE, NOON, gpu, instance, process


def judged(card: Gpu, state: Any = "busy", reason: str = "alice, 96 %", **known: Any) -> JudgedGpu:
    verdict = Verdict(state=state, reason=reason, since=NOON - 60.5, **known)
    fields = {name: getattr(card, name) for name in card.__struct_fields__}
    return JudgedGpu(**fields, verdict=verdict)


def node(*gpus: JudgedGpu, **fields: Any) -> NodeView:
    known: dict[str, Any] = {
        "node_id": "id-1",
        "name": "gpu01",
        "taken_at": NOON,
        "age_seconds": 2.0,
    }
    return NodeView(**(known | fields), gpus=gpus)


def parts(view: NodeView) -> NodeParts:
    instances = [part for card in view.gpus for part in card.instances]
    return NodeParts(
        node=view,
        gpus=tuple([(card, card.verdict) for card in view.gpus]),
        verdicts={one.uuid: one.verdict for one in instances},
    )


def facts(view: NodeView, now: float = NOON) -> NodePayload:
    return node_payload(1, parts(view), now)


def figures(view: NodeView) -> NodeFigures:
    return node_figures(7, parts(view), NOON)


def brief(card: JudgedGpu) -> GpuPayload:
    (only,) = facts(node(card)).gpus
    return only


def test_figures_are_rounded_to_whole_numbers() -> None:
    card = gpu(busy_percent=96.4, temperature_celsius=64.6, power_watts=311.52)
    payload = figures(node(judged(card)))
    assert payload.parts == (DeviceFigures(96, 4, 65, 312),)
    assert (payload.number, payload.reported_at) == (7, int(NOON) - 2)


def test_unmeasured_is_none_and_zero_is_zero() -> None:
    card = gpu(busy_percent=0.0, temperature_celsius=None, power_watts=None, memory_used_bytes=None)
    assert figures(node(judged(card))).parts == (DeviceFigures(0, None, None, None),)


@pytest.mark.parametrize("impossible", [float("nan"), float("inf"), -1e300])
def test_nan_and_infinity_are_not_measured(impossible: float) -> None:
    card = gpu(power_watts=impossible)
    assert figures(node(judged(card))).parts[0].power_watts is None


def test_host_figures_are_percentages() -> None:
    host = Host(cpu_percent=12.6, memory_used_bytes=GIB, memory_total_bytes=3 * GIB)
    payload = figures(node(host=host))
    assert (payload.cpu_percent, payload.memory_percent) == (13, 33)


def test_a_node_that_never_reported_has_no_sample_time() -> None:
    silent = node(taken_at=None, age_seconds=None, silent=True, trouble="no route to host")
    assert figures(silent).reported_at is None
    payload = facts(silent)
    assert (payload.silent, payload.trouble, payload.gpus) == (True, "no route to host", ())


def test_the_reason_of_a_busy_gpu_is_left_out() -> None:
    busy = brief(judged(gpu(processes=(process(),))))
    assert (busy.verdict.users, busy.verdict.reason) == (("alice",), None)


def test_the_reason_is_included_where_no_other_field_says_it() -> None:
    unseen = brief(judged(gpu(processes=None), reason="in use by a process that cannot be seen"))
    assert unseen.verdict.reason == "in use by a process that cannot be seen"
    assert unseen.verdict.users is None
    free = brief(judged(gpu(), "free", "nobody on it"))
    assert (free.verdict.reason, free.verdict.users) == ("nobody on it", ())


def test_users_of_a_gpu_and_its_instances_are_listed_once_and_unreadable_is_not_empty() -> None:
    alice, bob = process(pid=1), process(pid=2, user="bob")
    unread, empty = instance(1, processes=None), instance(2, processes=())
    parts = instance(3, processes=(alice, bob)), unread
    assert unique_processes(gpu(processes=(alice,), instances=parts)) == (alice, bob)
    assert unique_processes(gpu(processes=None, instances=(unread,))) is None
    assert unique_processes(gpu(processes=None, instances=(unread, empty))) == ()


def test_a_silent_gpu_has_its_last_state_and_no_changing_text() -> None:
    card = judged(gpu(), "unknown", "silent for 4 s; was busy (alice)", was="busy (alice)")
    assert (brief(card).verdict.was, brief(card).verdict.reason) == ("busy (alice)", None)


def test_a_free_gpu_with_a_display_has_no_user() -> None:
    display = process(user="gdm", kind="graphics", name="Xorg")
    assert brief(judged(gpu(processes=(display,)), "free", "display only")).verdict.users == ()


def test_users_are_sorted_by_memory() -> None:
    crowd = (process(1, "bob", gpu_memory_bytes=GIB), process(2, "alice"), process(3, "bob"))
    assert brief(judged(gpu(processes=crowd))).verdict.users == ("bob", "alice")


def test_idle_time_is_sent_as_its_start_which_does_not_change() -> None:
    def at(seconds: float) -> int | None:
        card = judged(gpu(processes=(process(),)), "held", idle_seconds=10 * MINUTE + seconds)
        later = NOON + seconds
        (only,) = facts(node(card, age_seconds=0.0), later).gpus
        return only.verdict.idle_since

    assert at(0.0) == at(1.3) == at(59.9) == int(NOON - 10 * MINUTE)


def test_rows_of_instances_follow_their_gpu() -> None:
    small = instance(memory_used_bytes=GIB, processes=(process(),))
    fields = {name: getattr(small, name) for name in small.__struct_fields__}
    verdict = Verdict(state="busy", reason="alice", since=NOON, notes=(Note("shared", "by 2"),))
    parent = judged(gpu(processes=(process(),)))
    split = JudgedGpu(
        **{name: getattr(parent, name) for name in parent.__struct_fields__}
        | {"instances": (JudgedInstance(**fields, verdict=verdict),)}
    )
    (child,) = brief(split).instances
    assert (child.profile, child.verdict.users, child.verdict.notes) == (
        "1g.10gb",
        ("alice",),
        ("shared",),
    )
    assert brief(split).verdict.users == ("alice",)
    rows = figures(node(split, judged(gpu(1)))).parts
    assert [row.memory_used_mebibytes for row in rows] == [4, 1024, 4]


def test_warnings_are_counted() -> None:
    failed = CollectorRun(name="nvidia", outcome="failed", seconds=1.0)
    payload = facts(node(runs=(failed,), clock_skew_seconds=600.0, trouble="x"))
    assert payload.warnings == 3


def test_the_summary_counts_gpus_by_state_and_reporting_nodes() -> None:
    busy, free = judged(gpu(0)), judged(gpu(1), "free", "nobody on it")
    nodes = [facts(node(busy, free)), facts(node(silent=True))]
    summary = summarize_nodes(nodes)
    assert (summary.gpus, summary.busy, summary.free, summary.held) == (2, 1, 1, 0)
    assert (summary.nodes, summary.nodes_reporting) == (2, 1)
