"""A fleet without a hub: every look asks, and what was seen before is remembered."""

import pytest

from fleet_smi.errors import Unreachable
from fleet_smi.fleet.delivery import Delivery
from fleet_smi.fleet.polled import PolledFleet
from fleet_smi.model.verdict.thresholds import DEFAULT_THRESHOLDS
from tests.builders import NOON, gpu, snapshot
from tests.scripted_source import ScriptedSource


class Fleet(PolledFleet):
    """With a clock of the test's."""

    def __init__(self, *sources: ScriptedSource) -> None:
        self.now = NOON
        super().__init__(sources, DEFAULT_THRESHOLDS, clock=lambda: self.now)


def heard(target: str, sequence: int = 0, interval: float | None = None) -> Delivery:
    what = snapshot(
        gpu(0, uuid=f"GPU-{target}"),
        node=target,
        sequence=sequence,
        taken_at=NOON + sequence,
        interval_seconds=interval,
    )
    return Delivery(source="scripted", target=target, result=what)


def failed(target: str) -> Delivery:
    return Delivery(source="scripted", target=target, result=Unreachable("is away", target))


def test_every_target_is_listed_whether_it_answers_or_not() -> None:
    source = ScriptedSource(["a", "b", "c"])
    fleet = Fleet(source)
    source.put(heard("a"))
    source.put(failed("b"))
    nodes = {node.name: node for node in fleet.view().nodes}
    assert [nodes[name].silent for name in "abc"] == [False, True, True]
    assert [nodes[name].trouble for name in "abc"] == [None, "is away", None]


def test_the_answers_of_all_sources_are_one_fleet() -> None:
    first, second = ScriptedSource(), ScriptedSource()
    first.put(heard("a"))
    second.put(heard("b"))
    assert [node.name for node in Fleet(first, second).view().nodes] == ["a", "b"]


@pytest.mark.parametrize("looks, silent", [(1, False), (4, True)])
def test_three_looks_without_an_answer_make_a_node_silent(looks: int, silent: bool) -> None:
    source = ScriptedSource()
    fleet = Fleet(source)
    source.put(heard("a"))
    assert not fleet.view(2.0).nodes[0].silent
    for _ in range(looks):
        fleet.now += 2.0
        source.put(failed("a"))
        view = fleet.view(2.0)
    assert view.nodes[0].silent is silent
    assert view.nodes[0].trouble == "is away"


def test_the_pace_of_a_node_itself_counts_more_than_that_of_the_looks() -> None:
    source = ScriptedSource()
    fleet = Fleet(source)
    source.put(heard("a", interval=300.0))
    fleet.view(2.0)
    fleet.now += 60.0
    assert not fleet.view(2.0).nodes[0].silent
