"""Figures that come the short way are applied like others; where it is not safe, there is none."""

from collections.abc import Callable

import pytest
from msgspec.structs import replace

from fleet_smi.fleet.delivery import Delivery
from fleet_smi.fleet.fleet import NodeCheckpoint
from fleet_smi.fleet.via import Via
from fleet_smi.hub.node_store import NodeStore
from fleet_smi.model.snapshot import Host, Snapshot
from fleet_smi.model.snapshot_figures import figures_of
from tests.builders import NOON, gpu, process, snapshot
from tests.hub.clocked_hub import ClockedHub
from tests.hub.history.in_memory_history import InMemoryHistory

NODE = "id-of-gpu01"


def taken(sequence: int, run_id: str = "run-1") -> Snapshot:
    card = gpu(busy_percent=float(sequence), processes=(process(),))
    return snapshot(
        card, gpu(1), sequence=sequence, run_id=run_id, taken_at=NOON + sequence, boot_id="boot-1"
    )


def pushed(sent: Snapshot) -> Delivery:
    return Delivery(source="push", target=sent.node_id, result=sent, id_origin="credential")


@pytest.fixture
def clocked(memory: NodeStore[NodeCheckpoint]) -> ClockedHub:
    """A hub to which one node has pushed a full report."""
    clocked = ClockedHub(memory, InMemoryHistory(), NOON + 1)
    clocked.hub.deliver(pushed(taken(1)))
    return clocked


def test_figures_that_come_the_short_way_are_applied_and_recorded(clocked: ClockedHub) -> None:
    for sequence in range(2, 9):
        clocked.pass_time(1.0)
        route = clocked.hub.figures.route(NODE)
        assert route is not None
        clocked.hub.figures.apply(route, figures_of(taken(sequence)), 0.25, None)
    assert clocked.fleet.latest_snapshot(NODE) == taken(8)
    assert clocked.hub.reports_received == 8
    node = clocked.fleet.node(NODE, clocked.now)
    assert node is not None
    assert (node.age_seconds, node.missing_reports) == (0.25, 0)
    assert clocked.hub.receipt(taken(8), NODE) == clocked.hub.receipt(taken(8))


def label(clocked: ClockedHub) -> None:
    clocked.fleet.label(NODE, "other")


def report_in_full(clocked: ClockedHub) -> None:
    clocked.hub.deliver(pushed(taken(2)))


@pytest.mark.parametrize("change", [label, report_in_full])
def test_the_way_is_found_again_after_a_change(
    clocked: ClockedHub, change: Callable[[ClockedHub], None]
) -> None:
    before = clocked.hub.figures.route(NODE)
    change(clocked)
    after = clocked.hub.figures.route(NODE)
    assert before is not None
    assert after is not None
    assert after.revision > before.revision


def remove(clocked: ClockedHub) -> None:
    clocked.fleet.remove(NODE)


def fail(clocked: ClockedHub) -> None:
    clocked.fleet.record_failure(Via("push", NODE), "refused", clocked.now + 1)


def report_from_a_clone(clocked: ClockedHub) -> None:
    for sequence in range(2, 6):
        own = replace(taken(sequence), host=Host(addresses=("10.0.0.1",)))
        clone = replace(
            snapshot(gpu(7), sequence=sequence, run_id="run-2", boot_id="boot-2"),
            host=Host(addresses=("10.0.0.2",)),
            taken_at=NOON + sequence,
        )
        clocked.pass_time(1.0)
        clocked.hub.deliver(pushed(own))
        clocked.hub.deliver(pushed(clone))


@pytest.mark.parametrize("change", [remove, fail, report_from_a_clone])
def test_there_is_no_short_way_where_a_report_needs_all_checks(
    clocked: ClockedHub, change: Callable[[ClockedHub], None]
) -> None:
    assert clocked.hub.figures.route(NODE) is not None
    change(clocked)
    assert clocked.hub.figures.route(NODE) is None


def test_a_bug_is_a_fault_of_the_node(clocked: ClockedHub, monkeypatch: pytest.MonkeyPatch) -> None:
    route = clocked.hub.figures.route(NODE)
    assert route is not None
    with monkeypatch.context() as patched:
        patched.setattr(clocked.fleet.figure_reports, "apply", None)
        clocked.hub.figures.apply(route, figures_of(taken(2)), 0.0, None)
    assert clocked.fleet.faults.has("report", NODE)
    clocked.hub.figures.apply(route, figures_of(taken(2)), 0.0, None)
    assert not clocked.fleet.faults.has("report", NODE)
