"""Several transports of one node: targets, failures, late and duplicate reports, labels."""

from typing import Any

import pytest

from fleet_smi.fleet.fleet import FleetState, Via
from fleet_smi.model.snapshot import Snapshot
from fleet_smi.model.units import GIB
from tests.builders import HOUR, NOON, gpu, process, snapshot
from tests.fleet.fleet_views import only_node

SSH = Via("ssh", "gpu01")
PUSH = Via("push", "id-of-gpu01")
TEN_MINUTES = 600.0


def numbered(sequence: int, *gpus: Any, run: str = "run-1", **fields: Any) -> Snapshot:
    """A report of an agent that numbers its reports, one per second."""
    fields.setdefault("taken_at", NOON + sequence)
    return snapshot(*(gpus or (gpu(),)), sequence=sequence, run_id=run, **fields)


def test_a_target_is_listed_before_its_first_report() -> None:
    fleet = FleetState()
    fleet.add_target(SSH)
    node = only_node(fleet)
    assert (node.node_id, node.name, node.via) == ("ssh:gpu01", "gpu01", "ssh")
    assert (node.silent, node.taken_at, node.age_seconds) == (True, None, None)
    assert (node.gpus, node.trouble) == ((), None)


def test_the_first_report_replaces_the_target_by_its_node() -> None:
    fleet = FleetState()
    fleet.add_target(SSH)
    fleet.take_dirty()
    fleet.apply(snapshot(gpu()), NOON, SSH)
    fleet.add_target(SSH)
    assert only_node(fleet).node_id == "id-of-gpu01"
    assert only_node(fleet).via == "ssh"
    assert fleet.take_dirty() == {"ssh:gpu01", "id-of-gpu01"}


def test_a_node_with_the_id_of_a_target_is_not_lost() -> None:
    fleet = FleetState()
    fleet.apply(snapshot(gpu(), node_id="ssh:gpu01"), NOON, PUSH)
    fleet.add_target(SSH)
    assert len(only_node(fleet).gpus) == 1


def test_a_failure_is_shown_until_the_next_report_by_that_route() -> None:
    fleet = FleetState()
    fleet.add_target(SSH)
    fleet.record_failure(SSH, "connection refused", NOON)
    assert only_node(fleet).trouble == "connection refused"
    fleet.apply(snapshot(gpu()), NOON + 1, SSH)
    assert only_node(fleet).trouble is None


def test_a_failure_does_not_make_a_node_silent() -> None:
    fleet = FleetState()
    fleet.apply(snapshot(gpu()), NOON, SSH)
    fleet.record_failure(SSH, "timed out", NOON + 1)
    node = only_node(fleet, NOON + 2)
    assert (node.trouble, node.silent, node.gpus[0].verdict.state) == ("timed out", False, "free")


def test_a_node_with_two_routes_is_not_silent_when_one_fails() -> None:
    fleet = FleetState()
    fleet.apply(numbered(1), NOON + 1, SSH)
    fleet.record_failure(SSH, "timed out", NOON + 2)
    fleet.apply(numbered(2), NOON + 2, PUSH)
    node = only_node(fleet, NOON + 2)
    assert (node.trouble, node.silent, node.via) == ("timed out", False, "push")
    fleet.apply(numbered(2), NOON + 2, SSH)  # a duplicate shows that the route works
    assert only_node(fleet, NOON + 2).trouble is None


def test_a_failure_from_before_the_last_report_is_ignored() -> None:
    fleet = FleetState()
    fleet.apply(snapshot(gpu()), NOON, SSH)
    fleet.record_failure(SSH, "timed out", NOON - 1)
    assert only_node(fleet).trouble is None


def test_a_target_that_is_another_machine_now_leaves_the_old_one_silent() -> None:
    fleet = FleetState()
    fleet.apply(snapshot(gpu(), node_id="old"), NOON, SSH)
    fleet.apply(snapshot(gpu(), node_id="new", taken_at=NOON + HOUR), NOON + HOUR, SSH)
    fleet.record_failure(SSH, "timed out", NOON + HOUR + 1)
    by_id = {node.node_id: node for node in fleet.view(NOON + HOUR + 1).nodes}
    assert [(by_id[name].silent, by_id[name].trouble) for name in ("old", "new")] == [
        (True, None),
        (False, "timed out"),
    ]


def test_a_target_that_is_the_first_machine_again_fails_for_that_one() -> None:
    fleet = FleetState()
    for minutes, node_id in enumerate(("first", "second", "first")):
        at = NOON + minutes * TEN_MINUTES
        fleet.apply(snapshot(gpu(), node_id=node_id, taken_at=at), at, SSH)
    fleet.record_failure(SSH, "timed out", NOON + HOUR)
    troubles = {node.node_id: node.trouble for node in fleet.view(NOON + HOUR).nodes}
    assert troubles == {"first": "timed out", "second": None}


def test_a_removed_target_is_listed_again_when_it_fails_again() -> None:
    fleet = FleetState()
    fleet.add_target(SSH)
    assert fleet.remove("ssh:gpu01")
    assert fleet.view(NOON).nodes == ()
    fleet.record_failure(SSH, "timed out", NOON)
    assert only_node(fleet).trouble == "timed out"


def test_a_late_report_fills_its_gap_and_changes_no_present_state() -> None:
    fleet = FleetState()
    fleet.apply(numbered(1), NOON + 1)
    fleet.apply(numbered(3, gpu(busy_percent=50.0)), NOON + 3)
    before = fleet.view(NOON + 4)
    assert before.nodes[0].missing_reports == 1
    change = fleet.apply(numbered(2), NOON + 2)
    assert change is not None
    assert (change.is_late, change.at, change.transitions) == (True, NOON + 2, ())
    assert only_node(fleet, NOON + 4).missing_reports == 0
    assert fleet.view(NOON + 4).nodes[0].gpus == before.nodes[0].gpus


def test_a_duplicate_report_is_ignored() -> None:
    fleet = FleetState()
    for number in (1, 2, 3):
        assert fleet.apply(numbered(number), NOON + number) is not None
    assert fleet.apply(numbered(3), NOON + 4) is None
    assert fleet.apply(numbered(1), NOON + 4) is None


def test_sequence_numbers_outweigh_the_clock_of_the_node() -> None:
    fleet = FleetState()
    fleet.apply(numbered(5, gpu(0)), NOON)
    change = fleet.apply(numbered(6, gpu(0), taken_at=NOON - HOUR), NOON + 1)
    assert change is not None
    assert not change.is_late
    late = fleet.apply(numbered(4, gpu(0), taken_at=NOON + HOUR), NOON - 1)
    assert late is not None
    assert late.is_late


def test_an_agent_that_restarts_with_its_clock_set_back_is_accepted_immediately() -> None:
    fleet = FleetState()
    fleet.apply(numbered(900), NOON)
    set_back = numbered(1, run="run-2", taken_at=NOON - TEN_MINUTES)
    change = fleet.apply(set_back, NOON + 2)
    assert change is not None
    assert not change.is_late


def test_reports_that_were_buffered_while_the_hub_was_down_build_the_window() -> None:
    held = gpu(processes=(process(),), memory_used_bytes=17 * GIB)
    fleet = FleetState()
    for number in range(0, 1200, 10):
        fleet.apply(numbered(number, held, interval_seconds=10.0), NOON + number)
    node = only_node(fleet, NOON + 1200)
    assert (node.silent, node.gpus[0].verdict.state) == (False, "held")
    assert only_node(fleet, NOON + 1300).silent


def test_a_buffered_report_is_as_old_as_when_it_was_taken() -> None:
    fleet = FleetState()
    fleet.apply(numbered(1), NOON + 1)
    node = only_node(fleet, NOON + TEN_MINUTES)
    assert (node.silent, node.age_seconds) == (True, TEN_MINUTES - 1)


def test_a_slightly_slower_transport_does_not_restart_the_window() -> None:
    idle = gpu(processes=(process(),), memory_used_bytes=17 * GIB)
    fleet = FleetState()
    fleet.apply(numbered(1, idle), NOON + 1)
    fleet.apply(numbered(2, idle), NOON + 3.5)
    fleet.apply(numbered(3, idle), NOON + 3)
    assert only_node(fleet, NOON + 4).gpus[0].verdict.idle_seconds == 2.5


@pytest.mark.parametrize("off", [-TEN_MINUTES, 0.0, 30.0, TEN_MINUTES])
def test_a_clock_that_is_off_causes_a_warning_and_no_other_change(off: float) -> None:
    def reports(skew: float) -> FleetState:
        fleet = FleetState()
        young = process(5, "bob", started_at=NOON + 100 - skew)
        for second in range(0, 900, 5):
            processes = (process(started_at=NOON - HOUR - skew), *([young] if second > 100 else []))
            cards = (gpu(0, processes=processes), gpu(1))[: 1 if second > 300 else 2]
            taken_at = NOON + second - skew
            fleet.apply(numbered(second, *cards, taken_at=taken_at), NOON + second)
        return fleet

    node, right = (only_node(reports(skew), NOON + 895) for skew in (off, 0.0))
    assert [row.verdict for row in node.gpus] == [row.verdict for row in right.gpus]
    assert (node.silent, node.age_seconds) == (right.silent, right.age_seconds)
    assert node.clock_skew_seconds == (off if abs(off) > 60 else None)


def test_name_and_labels_of_the_administrator_override_those_of_the_node() -> None:
    fleet = FleetState()
    own = {"rack": "1", "room": "B"}
    fleet.apply(snapshot(gpu(), labels=own), NOON)
    assert only_node(fleet).labels == own
    assert fleet.label("id-of-gpu01", name="big one", labels={"rack": "7"})
    node = only_node(fleet)
    assert (node.name, node.labels) == ("big one", {"rack": "7", "room": "B"})
    assert not fleet.label("unknown", name="x")


def test_an_empty_name_or_label_restores_that_of_the_node() -> None:
    fleet = FleetState()
    fleet.apply(snapshot(gpu(), labels={"rack": "1"}), NOON)
    fleet.label("id-of-gpu01", name="big one", labels={"rack": "7"})
    fleet.label("id-of-gpu01", labels={"rack": ""})
    assert (only_node(fleet).name, only_node(fleet).labels) == ("big one", {"rack": "1"})
    fleet.label("id-of-gpu01", name="")
    assert only_node(fleet).name == "gpu01"


def test_nodes_are_sorted_by_the_name_that_the_administrator_gave() -> None:
    fleet = FleetState()
    fleet.apply(snapshot(node="a"), NOON)
    fleet.apply(snapshot(node="b"), NOON)
    fleet.label("id-of-a", name="c")
    assert [node.name for node in fleet.view(NOON).nodes] == ["b", "c"]


def test_changed_nodes_are_returned_once() -> None:
    fleet = FleetState()
    fleet.apply(snapshot(gpu()), NOON)
    assert fleet.take_dirty() == {"id-of-gpu01"}
    assert fleet.take_dirty() == set()
    fleet.apply(snapshot(gpu()), NOON)
    assert fleet.take_dirty() == set()
    fleet.record_failure(PUSH, "refused", NOON)
    fleet.record_failure(PUSH, "refused", NOON + 1)
    fleet.remove("id-of-gpu01")
    assert fleet.take_dirty() == {"push:id-of-gpu01", "id-of-gpu01"}


def test_a_node_that_becomes_silent_is_marked_as_changed_once() -> None:
    fleet = FleetState()
    fleet.apply(snapshot(gpu()), NOON)
    fleet.apply(snapshot(gpu(), node="other", interval_seconds=None), NOON)
    fleet.take_dirty()
    fleet.tick(NOON + 3)
    assert fleet.take_dirty() == set()
    fleet.tick(NOON + 3.1)
    assert fleet.take_dirty() == {"id-of-gpu01"}
    fleet.tick(NOON + 5)
    assert fleet.take_dirty() == set()


@pytest.mark.parametrize(("source", "missing"), [("push", 3), ("pull", 0), ("files", 0)])
def test_missing_reports_are_counted_only_where_every_report_is_sent(
    source: str, missing: int
) -> None:
    fleet = FleetState()
    for sequence in (1, 5):
        fleet.apply(numbered(sequence), NOON + sequence, Via(source, "gpu01"))
    assert only_node(fleet, NOON + 5).missing_reports == missing
