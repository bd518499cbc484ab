"""A fleet that can no longer be reached."""

from hypothesis import given

from fleet_smi.model.fleet import FleetView
from fleet_smi.model.verdict.last_known import mark_all_silent
from tests.terminal import samples
from tests.terminal.fleet_strategies import FLEET
from tests.terminal.samples import fleet


def test_the_last_known_view_ages() -> None:
    old = mark_all_silent(fleet(samples.eight()), 600)
    (node,) = old.nodes
    assert node.silent and node.age_seconds == 602
    assert node.gpus[0].verdict.was == "busy (alice)"
    assert node.gpus[0].memory_used_bytes == samples.gib(60.0)
    assert old.summary.nodes_reporting == 0


def test_a_broken_gpu_stays_broken() -> None:
    assert mark_all_silent(fleet(samples.not_answering()), 600).summary.broken == 2


def test_a_node_that_was_silent_keeps_its_last_state() -> None:
    (node,) = mark_all_silent(fleet(samples.silent()), 60).nodes
    assert node.age_seconds == 300
    assert [gpu.verdict.was for gpu in node.gpus][-1] == "free"


@given(FLEET)
def test_no_gpu_of_a_silent_fleet_is_free(view: FleetView) -> None:
    old = mark_all_silent(fleet(*(node for node in view.nodes if not node.silent)), 60)
    gpus = [gpu for node in old.nodes for gpu in node.gpus]
    assert {gpu.verdict.state for gpu in gpus} <= {"broken", "unknown"}
    instances = [instance for gpu in gpus for instance in gpu.instances]
    assert {instance.verdict.state for instance in instances} <= {"broken", "unknown"}
