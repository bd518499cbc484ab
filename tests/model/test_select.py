"""Selection of GPUs: which are offered, in which order, and messages for unmet requests."""

from typing import Any

import pytest
from msgspec.structs import asdict

from fleet_smi.errors import Unmet, UsageError
from fleet_smi.model.candidates import GpuRequest
from fleet_smi.model.fleet import FleetView, JudgedGpu, JudgedInstance, NodeView, State, Verdict
from fleet_smi.model.policies import POLICIES
from fleet_smi.model.select import find_offer, require_offer
from fleet_smi.model.units import GIB, MIB
from fleet_smi.model.verdict.thresholds import Thresholds
from fleet_smi.model.views import summarize_nodes
from tests.builders import NOON, gpu, instance, process

BUSY: dict[str, Any] = {"processes": (process(),), "memory_used_bytes": 17 * GIB}


def card(
    index: int, state: State = "free", reason: str = "nobody on it", **fields: Any
) -> JudgedGpu:
    idle = fields.pop("idle_seconds", None)
    verdict = Verdict(state=state, reason=reason, since=NOON, idle_seconds=idle)
    return JudgedGpu(**asdict(gpu(index, **fields)), verdict=verdict)


def slice_of(number: int, state: State = "free", **fields: Any) -> JudgedInstance:
    verdict = Verdict(state=state, reason="as it is", since=NOON)
    return JudgedInstance(**asdict(instance(number, **fields)), verdict=verdict)


def node(name: str, *gpus: JudgedGpu, **fields: Any) -> NodeView:
    return NodeView(
        node_id=f"id-of-{name}", name=name, taken_at=NOON, age_seconds=1.0, gpus=gpus, **fields
    )


def fleet(*nodes: NodeView) -> FleetView:
    return FleetView(taken_at=NOON, summary=summarize_nodes(nodes), nodes=nodes)


def labels(view: FleetView, **fields: Any) -> list[str]:
    return [one.label for one in find_offer(view, GpuRequest(**fields)).offered]


def refusals(view: FleetView, **fields: Any) -> list[tuple[str, int | None, str]]:
    refused = find_offer(view, GpuRequest(**fields)).refused
    return [(one.node, one.index, one.words) for one in refused]


def test_only_free_gpus_are_offered() -> None:
    states: list[State] = ["free", "leased", "busy", "held", "ghost", "broken", "unknown"]
    view = fleet(node("gpu01", *[card(at, state) for at, state in enumerate(states)]))
    assert labels(view) == ["gpu01:0"]


def test_more_free_memory_comes_first() -> None:
    small, large = card(0, memory_total_bytes=40 * GIB), card(1)
    assert labels(fleet(node("gpu01", small, large))) == ["gpu01:1", "gpu01:0"]


def test_a_few_mebibytes_more_do_not_outweigh_the_temperature() -> None:
    hot = card(0, memory_used_bytes=0, temperature_celsius=70.0)
    cool = card(1, memory_used_bytes=9 * MIB, temperature_celsius=30.0)
    assert labels(fleet(node("gpu01", hot, cool))) == ["gpu01:1", "gpu01:0"]


def test_the_faster_model_comes_before_the_cooler_card() -> None:
    slow = card(0, name="NVIDIA A100-SXM4-80GB", temperature_celsius=20.0)
    assert labels(fleet(node("gpu01", slow, card(1)))) == ["gpu01:1", "gpu01:0"]


def test_an_impossible_temperature_is_not_the_coolest() -> None:
    odd = card(0, temperature_celsius=-1.0)
    assert labels(fleet(node("gpu01", odd, card(1)))) == ["gpu01:1", "gpu01:0"]


def test_the_less_shared_node_comes_first() -> None:
    view = fleet(node("gpu01", card(0), card(1, "busy", **BUSY)), node("gpu02", card(0)))
    assert labels(view) == ["gpu02:0", "gpu01:0"]


def test_equal_candidates_are_sorted_by_name_and_index() -> None:
    view = fleet(node("gpu10", card(0)), node("gpu2", card(1), card(0)))
    assert labels(view) == ["gpu2:0", "gpu2:1", "gpu10:0"]


def test_as_many_are_offered_as_requested() -> None:
    view = fleet(node("gpu01", *[card(at) for at in range(4)]))
    assert labels(view, count=2) == ["gpu01:0", "gpu01:1"]
    assert len(labels(view, count=0)) == 4


def test_too_little_free_memory_is_rejected_with_the_figure() -> None:
    view = fleet(node("gpu01", card(0), card(1, memory_total_bytes=24 * GIB, memory_used_bytes=0)))
    assert labels(view, min_free_bytes=40 * GIB) == ["gpu01:0"]
    assert refusals(view, min_free_bytes=40 * GIB) == [
        ("gpu01", 1, "free, but has only 24.0 GiB of free memory")
    ]


def test_unknown_free_memory_never_meets_a_memory_request() -> None:
    view = fleet(node("gpu01", card(0, memory_used_bytes=None, memory_shared=True)))
    assert labels(view) == ["gpu01:0"]
    assert labels(view, min_free_bytes=1) == []


def test_a_sleeping_gpu_has_all_its_memory() -> None:
    view = fleet(node("gpu01", card(0, memory_used_bytes=None, asleep=True)))
    assert labels(view, min_free_bytes=40 * GIB) == ["gpu01:0"]


@pytest.mark.parametrize(
    "model, found", [("h100", 1), ("80gb h100", 1), ("A100", 1), ("100", 2), ("B200", 0)]
)
def test_a_model_is_requested_by_words_of_its_name(model: str, found: int) -> None:
    view = fleet(node("gpu01", card(0), card(1, name="NVIDIA A100-SXM4-40GB")))
    assert len(labels(view, model=model)) == found


def test_the_full_name_of_a_model_means_no_other_one() -> None:
    view = fleet(node("gpu01", card(0, name="NVIDIA L4"), card(1, name="NVIDIA L40S")))
    assert set(labels(view, model="l4")) == {"gpu01:0", "gpu01:1"}
    assert labels(view, model="NVIDIA L4") == ["gpu01:0"]


@pytest.mark.parametrize(
    "requested, offered",
    [
        (80 * GIB, ["gpu01:0"]),  # has 79.6 GiB, of which 1 GiB is in use
        (78 * GIB, ["gpu01:0"]),
        (82 * GIB, ["gpu01:0"]),
        (83 * GIB, []),
        (77 * GIB, ["gpu01:0"]),
        (48 * GIB, ["gpu01:0", "gpu01:2"]),  # 45.0 GiB: a 48 GB card with ECC
    ],
)
def test_a_nominal_size_means_the_card_that_is_sold_with_it(
    requested: int, offered: list[str]
) -> None:
    gpu = card(0, memory_total_bytes=81559 * MIB, memory_used_bytes=GIB)
    used = card(1, memory_total_bytes=81559 * MIB, memory_used_bytes=40 * GIB)
    ecc = card(2, name="NVIDIA L40S", memory_total_bytes=46068 * MIB, memory_used_bytes=4 * MIB)
    assert labels(fleet(node("gpu01", gpu, used, ecc)), min_free_bytes=requested) == offered


def test_the_reason_says_where_the_offered_gpus_are() -> None:
    view = fleet(node("dgx02", card(0), card(1)), node("dgx03", card(0), card(1)))
    assert find_offer(view, GpuRequest(count=4)).reason == (
        "4 of 4 requested: 2 on dgx02, 2 on dgx03; not on one node"
    )
    assert find_offer(view, GpuRequest(count=2, same_node=True)).reason == (
        "2 of 2 requested: both on dgx02"
    )
    assert find_offer(view, GpuRequest(count=1)).reason == "1 of 1 requested: on dgx02"
    short = find_offer(view, GpuRequest(count=5))
    assert short.reason == short.unmet == ("4 of 5 requested GPUs are free: 2 on dgx02, 2 on dgx03")


def test_nodes_are_requested_by_a_regular_expression() -> None:
    view = fleet(node("gpu01", card(0)), node("gpu02", card(0)))
    assert labels(view, node="0[2-9]") == ["gpu02:0"]
    with pytest.raises(UsageError, match="not a regular expression"):
        find_offer(view, GpuRequest(node="("))


def test_a_silent_node_is_rejected_as_a_whole() -> None:
    view = fleet(node("gpu07", card(0), card(1), silent=True), node("gpu08", card(0)))
    assert labels(view) == ["gpu08:0"]
    assert refusals(view) == [("gpu07", None, "node silent for 1 s")]


def test_rejections_give_the_reason() -> None:
    held = card(2, "held", "bob, idle for 3 h, 16.2 GiB allocated", **BUSY)
    ghost = card(4, "ghost", "71.1 GiB used, no process accounts for it")
    assert refusals(fleet(node("gpu01", held, ghost))) == [
        ("gpu01", 2, "held by bob, idle for 3 h, 16.2 GiB allocated"),
        ("gpu01", 4, "ghost: 71.1 GiB used, no process accounts for it"),
    ]


def test_instances_are_offered_by_their_own_uuid_and_never_their_gpu() -> None:
    parts = (slice_of(1), slice_of(2, "busy"))
    view = fleet(node("gpu01", card(0, "free", instances=parts, mig_mode=True)))
    (found,) = find_offer(view, GpuRequest()).offered
    assert (found.uuid, found.label) == ("MIG-00000001", "gpu01:0:0")
    assert labels(view, model="1g.10gb") == ["gpu01:0:0"]


def test_two_nodes_with_one_name_and_one_uuid_stay_apart() -> None:
    twin = node("gpu01", card(0, "busy", **BUSY))
    other = NodeView(node_id="other", name="gpu01", taken_at=NOON, age_seconds=1.0, gpus=(card(0),))
    (found,) = find_offer(fleet(twin, other), GpuRequest()).offered
    assert found.node_id == "other"


def test_a_request_for_one_node_is_unmet_when_no_node_has_enough() -> None:
    view = fleet(node("gpu01", card(0, temperature_celsius=20.0)), node("gpu02", card(0), card(1)))
    assert labels(view, count=2, same_node=True) == ["gpu02:0", "gpu02:1"]
    assert labels(view, count=1, same_node=True) == ["gpu01:0"]
    short = find_offer(view, GpuRequest(count=3, same_node=True))
    assert short.unmet == "no node has 3 free GPUs: 2 of 3 are on gpu02"


def test_an_unmet_request_names_the_next_likely_gpu() -> None:
    short = card(0, "held", idle_seconds=700.0, **BUSY)
    long = card(1, "held", idle_seconds=9000.0, **BUSY)
    view = fleet(node("gpu01", card(2), card(3)), node("gpu02", short, long))
    with pytest.raises(Unmet) as raised:
        require_offer(view, GpuRequest(count=16))
    assert str(raised.value) == (
        "2 of 16 requested GPUs are free: 2 on gpu01; the next likely one is gpu02:1"
    )


def test_without_a_held_gpu_the_least_busy_is_the_next_likely() -> None:
    hard, light = card(0, "busy", busy_percent=97.0), card(1, "busy", busy_percent=30.0)
    found = find_offer(fleet(node("gpu01", hard, light)), GpuRequest(count=1))
    assert found.unmet == "no GPU is free; the next likely one is gpu01:1"


def test_a_request_for_all_is_unmet_when_there_is_none() -> None:
    assert find_offer(fleet(), GpuRequest()).unmet == "no GPU is free"
    assert find_offer(fleet(), GpuRequest(model="H100", count=2)).unmet == (
        "no matching GPU is free"
    )


def test_an_unmet_request_still_offers_what_there_is() -> None:
    assert labels(fleet(node("gpu01", card(0))), count=2) == ["gpu01:0"]


def test_a_met_request_is_returned() -> None:
    assert len(require_offer(fleet(node("gpu01", card(0))), GpuRequest(count=1)).offered) == 1


@pytest.mark.parametrize("fields", [{"count": -1}, {"policy": "astrology"}])
def test_an_invalid_request_is_refused(fields: dict[str, Any]) -> None:
    with pytest.raises(UsageError):
        find_offer(fleet(), GpuRequest(**fields))


BARE: dict[str, Any] = {
    "processes": (process(gpu_memory_bytes=420 * MIB),),
    "memory_used_bytes": 430 * MIB,
}
DISPLAY = (process(kind="graphics", gpu_memory_bytes=300 * MIB),)


@pytest.mark.parametrize(
    "policy, judged, offered",
    [
        ("no-process", card(0, "ghost", memory_used_bytes=71 * GIB), True),
        ("no-process", card(0, "free", processes=DISPLAY), True),
        ("no-process", card(0, "busy", **BUSY), False),
        ("no-process", card(0, "free", processes=None), False),
        ("memory", card(0, "busy", processes=(process(),), memory_used_bytes=10 * GIB), True),
        ("memory", card(0, "busy", **BUSY), False),
        ("memory", card(0, "free", memory_used_bytes=None), False),
        ("load", card(0, "ghost", memory_used_bytes=71 * GIB), True),
        ("load", card(0, "free", busy_percent=5.0), False),
        ("load", card(0, "free", memory_busy_percent=3.0), False),
        ("load", card(0, "free", busy_percent=None), False),
        ("load", card(0, "held", **BARE), False),
        ("context", card(0, "held", **BARE), True),
        ("context", card(0, "held", **BUSY), False),
        ("context", card(0, "busy", **BARE), False),
        ("context", card(0, "free"), True),
    ],
)
def test_each_policy_has_its_own_rule(policy: str, judged: JudgedGpu, offered: bool) -> None:
    assert bool(labels(fleet(node("gpu01", judged)), policy=policy)) is offered


def test_the_limits_of_the_load_policy_are_settings() -> None:
    working = fleet(node("gpu01", card(0, "free", busy_percent=7.0, memory_busy_percent=3.0)))
    request = GpuRequest(policy="load")
    assert not find_offer(working, request).offered
    wider = Thresholds(load_policy_percent=8.0, load_policy_memory_percent=3.0)
    assert find_offer(working, request, wider).offered
    assert not find_offer(working, request, Thresholds(load_policy_percent=8.0)).offered


def test_a_gpu_of_a_tool_that_never_reports_memory_is_free_but_not_by_its_memory() -> None:
    omitted = {"memory_used_bytes": "not reported by nvgpu"}
    unseen: dict[str, Any] = {
        "memory_used_bytes": None,
        "memory_total_bytes": None,
        "unread": omitted,
    }
    view = fleet(node("gpu01", card(0, "free", **unseen), card(1, "busy", **unseen)))
    assert labels(view, policy="free") == ["gpu01:0"]
    assert labels(view, policy="free", min_free_bytes=GIB) == []
    assert labels(view, policy="memory") == []


@pytest.mark.parametrize("policy", POLICIES)
@pytest.mark.parametrize("state", ["broken", "unknown", "leased"])
def test_no_policy_offers_what_is_broken_unknown_or_leased(policy: str, state: State) -> None:
    assert labels(fleet(node("gpu01", card(0, state))), policy=policy) == []


def test_the_memory_policy_accepts_another_share() -> None:
    view = fleet(node("gpu01", card(0, "busy", memory_used_bytes=30 * GIB)))
    assert labels(view, policy="memory") == []
    assert labels(view, policy="memory", max_used_percent=50.0) == ["gpu01:0"]


def test_a_gpu_without_memory_figures_is_never_the_next_likely_one() -> None:
    blind = card(0, "busy", memory_used_bytes=None, memory_total_bytes=None)
    found = find_offer(fleet(node("gpu01", blind)), GpuRequest(count=1))
    assert found.unmet == "no GPU is free"
