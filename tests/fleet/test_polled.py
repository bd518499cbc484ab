"""A fleet without a hub: each view polls, and windows last while the command runs."""

import pytest

from fleet_smi.errors import Unreachable
from fleet_smi.fleet.delivery import Delivery
from fleet_smi.fleet.polled import PolledFleet
from fleet_smi.model.verdict.thresholds import DEFAULT_THRESHOLDS
from tests.builders import NOON, gpu, snapshot
from tests.scripted_source import ScriptedSource


class Fleet(PolledFleet):
    """A polled fleet whose clock the test sets."""

    def __init__(self, *sources: ScriptedSource) -> None:
        self.now = NOON
        super().__init__(sources, DEFAULT_THRESHOLDS, clock=lambda: self.now)


def reported(target: str, sequence: int = 0, interval: float | None = None) -> Delivery:
    taken = snapshot(
        gpu(0, uuid=f"GPU-{target}"),
        node=target,
        sequence=sequence,
        taken_at=NOON + sequence,
        interval_seconds=interval,
    )
    return Delivery(source="scripted", target=target, result=taken)


def failed(target: str) -> Delivery:
    return Delivery(source="scripted", target=target, result=Unreachable("unreachable", target))


def test_every_target_is_listed_whether_it_responds_or_not() -> None:
    source = ScriptedSource(["a", "b", "c"])
    fleet = Fleet(source)
    source.put(reported("a"))
    source.put(failed("b"))
    nodes = {node.name: node for node in fleet.view().nodes}
    assert [nodes[name].silent for name in "abc"] == [False, True, True]
    assert [nodes[name].trouble for name in "abc"] == [None, "unreachable", None]


def test_all_sources_make_up_one_fleet() -> None:
    first, second = ScriptedSource(), ScriptedSource()
    first.put(reported("a"))
    second.put(reported("b"))
    assert [node.name for node in Fleet(first, second).view().nodes] == ["a", "b"]


@pytest.mark.parametrize("polls, silent", [(1, False), (4, True)])
def test_three_failed_polls_make_a_node_silent(polls: int, silent: bool) -> None:
    source = ScriptedSource()
    fleet = Fleet(source)
    source.put(reported("a"))
    assert not fleet.view(2.0).nodes[0].silent
    for _ in range(polls):
        fleet.now += 2.0
        source.put(failed("a"))
        view = fleet.view(2.0)
    assert view.nodes[0].silent is silent
    assert view.nodes[0].trouble == "unreachable"


def test_the_interval_of_a_node_overrides_that_of_the_polls() -> None:
    source = ScriptedSource()
    fleet = Fleet(source)
    source.put(reported("a", interval=300.0))
    fleet.view(2.0)
    fleet.now += 60.0
    assert not fleet.view(2.0).nodes[0].silent


def test_since_does_not_lie_in_the_future_after_the_clock_was_set_back() -> None:
    source = ScriptedSource()
    fleet = Fleet(source)
    source.put(reported("a"))
    fleet.view(2.0)
    fleet.now -= 3600.0
    source.put(failed("a"))
    view = fleet.view(2.0)
    assert all(gpu.verdict.since <= view.taken_at for gpu in view.nodes[0].gpus)
    assert view.nodes[0].age_seconds == 0.0
