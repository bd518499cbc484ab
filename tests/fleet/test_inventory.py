"""The inventory of GPUs: missing, moved, renamed, and several under one UUID."""

import pytest

from fleet_smi.fleet.fleet import FleetState
from fleet_smi.fleet.identity import NodeIdentities
from fleet_smi.model.snapshot import CollectorRun, Fault, Gpu
from tests.builders import HOUR, NOON, gpu, instance, process, snapshot
from tests.fleet.fleet_views import clock, fleet_of, gpu_rows, only_node


def test_a_missing_gpu_stays_listed_as_broken() -> None:
    fleet = fleet_of(snapshot(gpu(0), gpu(1)), snapshot(gpu(1), taken_at=NOON + 240))
    assert gpu_rows(fleet, NOON + 240) == [
        (0, "broken", f"missing since {clock(NOON)}"),
        (1, "free", "nobody on it"),
    ]
    lost = only_node(fleet, NOON + 240).gpus[0]
    assert (lost.name, lost.busy_percent, lost.processes) == ("NVIDIA H100 80GB HBM3", None, None)
    assert lost.fault == Fault(kind="missing", detail="missing", since=NOON)


def test_a_gpu_stays_missing_until_it_is_reported_again() -> None:
    fleet = fleet_of(
        snapshot(gpu(0), gpu(1)),
        snapshot(gpu(1), taken_at=NOON + 1),
        snapshot(gpu(1), taken_at=NOON + 60),
    )
    assert gpu_rows(fleet, NOON + 60)[0] == (0, "broken", f"missing since {clock(NOON)}")
    fleet.apply(snapshot(gpu(0), gpu(1), taken_at=NOON + 61), NOON + 61)
    assert [row[1] for row in gpu_rows(fleet, NOON + 61)] == ["free", "free"]


def test_gpus_of_a_failed_collector_are_unknown_and_not_missing() -> None:
    failed = CollectorRun(name="nvidia", outcome="failed", seconds=5.0, detail="no answer in 5 s")
    fleet = fleet_of(snapshot(gpu(0)), snapshot(taken_at=NOON + 1, runs=(failed,)))
    assert gpu_rows(fleet, NOON + 1) == [(0, "unknown", "no answer in 5 s")]


def test_a_missing_gpu_that_another_node_reports_stays_listed_and_says_so() -> None:
    fleet = fleet_of(
        snapshot(gpu(0), gpu(1), node="old"),
        snapshot(gpu(1), node="new", taken_at=NOON + 1),
        snapshot(gpu(0), node="old", taken_at=NOON + 2),
    )

    def rows(name: str) -> list[tuple[str, str]]:
        (node,) = [node for node in fleet.view(NOON + 3).nodes if node.name == name]
        return [(row.verdict.state, row.verdict.reason) for row in node.gpus]

    missing = "broken", f"missing since {clock(NOON)}: new reports it now"
    assert rows("old") == [("free", "nobody on it"), missing]
    assert rows("new") == [("free", "nobody on it")]
    # One that only claimed the UUID, and is removed by the administrator, leaves no trace.
    fleet.remove("id-of-new")
    fleet.apply(snapshot(gpu(0), node="old", taken_at=NOON + 3), NOON + 3)
    assert rows("old")[1] == ("broken", f"missing since {clock(NOON)}")


@pytest.mark.parametrize("credential", [True, False])
def test_a_gpu_that_was_moved_leaves_its_old_node_after_a_day(credential: bool) -> None:
    """Only if its new node has a credential: any node can report any UUID."""
    identities = NodeIdentities(has_credential=lambda node: credential and node == "id-of-new")
    fleet = FleetState(identities=identities)
    fleet.apply(snapshot(gpu(0), gpu(1), node="old"), NOON)

    def reasons_at(at: float, *moved: Gpu) -> list[str]:
        fleet.apply(snapshot(*moved, node="new", taken_at=at), at)
        fleet.apply(snapshot(gpu(0), node="old", taken_at=at + 1), at + 1)
        (node,) = [node for node in fleet.view(at + 1).nodes if node.name == "old"]
        return [row.verdict.reason.rpartition(": ")[2] for row in node.gpus[1:]]

    at_first, moved = "new reports it now", "moved to new"
    assert reasons_at(NOON + 1, gpu(1)) == [at_first]
    assert reasons_at(NOON + 2 * HOUR, gpu(1)) == [moved if credential else at_first]
    # It has to be there: nothing is let go because it was there once.
    assert reasons_at(NOON + 25 * HOUR) == [at_first]
    assert reasons_at(NOON + 25 * HOUR + 9, gpu(1)) == ([] if credential else [at_first])


def test_a_gpu_that_returns_from_another_node_is_missing_there() -> None:
    fleet = fleet_of(
        snapshot(gpu(0), gpu(1), node="old"),
        snapshot(gpu(1), node="new", taken_at=NOON + 1),
        snapshot(gpu(0), node="old", taken_at=NOON + 2),
        snapshot(gpu(0), gpu(1), node="old", taken_at=NOON + 3),
        snapshot(node="new", taken_at=NOON + 4),
    )
    states = {
        node.name: [row.verdict.state for row in node.gpus] for node in fleet.view(NOON + 4).nodes
    }
    assert states == {"old": ["free", "free"], "new": ["broken"]}


@pytest.mark.parametrize("order", [(True, False), (False, True)], ids=["to", "from"])
def test_a_gpu_that_changes_between_placeholder_and_uuid_is_the_same_gpu(
    order: tuple[bool, bool],
) -> None:
    cards = {
        True: (gpu(0, uuid="gpu0@vm", uuid_is_made=True), gpu(1)),
        False: (gpu(0, uuid="GPU-a"), gpu(1)),
    }
    first, then = (cards[each] for each in order)
    fleet = fleet_of(snapshot(*first), snapshot(*then, taken_at=NOON + 60))
    assert [row.uuid for row in only_node(fleet, NOON + 60).gpus] == [card.uuid for card in then]


def test_a_gpu_without_a_uuid_in_another_slot_is_not_the_missing_one() -> None:
    old = gpu(0, pci_bus_id="0000:01:00.0")
    new = gpu(0, uuid="gpu0@vm", uuid_is_made=True, pci_bus_id="0000:81:00.0")
    fleet = fleet_of(snapshot(old), snapshot(new, taken_at=NOON + 60))
    assert [row[1] for row in gpu_rows(fleet, NOON + 60)].count("broken") == 1


def test_the_number_of_missing_gpus_is_limited() -> None:
    fleet = FleetState()
    for second in range(300):
        card = gpu(0, uuid=f"GPU-{second}")
        fleet.apply(snapshot(card, taken_at=NOON + second), NOON + second)
    assert len(only_node(fleet, NOON + 299).gpus) < 100


def test_gpus_with_one_uuid_get_distinct_uuids() -> None:
    fleet = FleetState()
    for second in range(3):
        busy = gpu(1, uuid="GPU-a", processes=(process(),), busy_percent=90.0)
        cards = gpu(0, uuid="GPU-a"), busy, gpu(2, uuid="GPU-a#2"), gpu(3, uuid="GPU-a")
        change = fleet.apply(snapshot(*cards, taken_at=NOON + second), NOON + second)
        assert change is not None
        assert len(change.transitions) == (4 if second == 0 else 0)
    rows = fleet.view(NOON + 2).nodes[0].gpus
    assert [row.uuid for row in rows] == ["GPU-a", "GPU-a#3", "GPU-a#2", "GPU-a#4"]
    assert [row.verdict.state for row in rows] == ["free", "busy", "free", "free"]
    assert [row.uuid_is_made for row in rows] == [False, True, False, True]


def test_an_instance_with_the_uuid_of_its_gpu_gets_its_own() -> None:
    taken = instance(1, uuid="GPU-a", processes=(process(),))
    card = gpu(0, uuid="GPU-a", mig_mode=True, instances=(taken, instance(2, uuid="GPU-a")))
    fleet = FleetState()
    fleet.apply(snapshot(card), NOON)
    (row,) = fleet.view(NOON).nodes[0].gpus
    assert [part.uuid for part in row.instances] == ["GPU-a#2", "GPU-a#3"]
    assert [part.verdict.state for part in row.instances] == ["busy", "free"]


def test_a_thousand_gpus_with_one_uuid_get_distinct_uuids() -> None:
    fleet = FleetState()
    fleet.apply(snapshot(*[gpu(index, uuid="GPU-a") for index in range(1000)]), NOON)
    assert len({row.uuid for row in fleet.view(NOON).nodes[0].gpus}) == 1000
