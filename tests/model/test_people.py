"""Users and what they hold."""

import pytest
from msgspec.structs import replace

from fleet_smi.model.fleet import JudgedGpu, NodeView
from fleet_smi.model.people import HIDDEN_USER, Person, owners, people_in_view
from fleet_smi.model.snapshot import Process
from fleet_smi.model.verdict.reasons import VACATED
from tests.terminal import samples
from tests.terminal.samples import (
    HOUR,
    NOW,
    busy_gpu,
    fleet,
    gib,
    gpu,
    hidden_process,
    node,
    process,
    verdict,
)


def named(user: str, *nodes: NodeView) -> Person:
    (person,) = (each for each in people_in_view(fleet(*nodes)) if each.user == user)
    return person


def test_a_user_is_counted_over_all_nodes() -> None:
    one = node("a", busy_gpu(0, process("alice", 10.0), busy_percent=90.0))
    two = node(
        "b", busy_gpu(0, process("alice", 30.0, started_at=NOW - 99 * HOUR), busy_percent=50.0)
    )
    alice = named("alice", one, two)
    assert (alice.gpus, alice.nodes, alice.memory_bytes) == (2, ("a", "b"), gib(40.0))
    assert alice.busy_percent == 70.0
    assert alice.since == NOW - 99 * HOUR
    assert (alice.idle_gpus, alice.idle_seconds) == (0, None)


@pytest.mark.parametrize("behind", [3 * HOUR, 20.0, -20.0])
def test_since_is_a_time_of_the_hubs_clock(behind: float) -> None:
    card = busy_gpu(0, process("alice", 10.0, started_at=NOW - 5 * HOUR - behind))
    slow = replace(node("a", card), taken_at=NOW - 2.0 - behind, age_seconds=2.0)
    assert named("alice", slow).since == NOW - 5 * HOUR


def test_several_processes_on_one_gpu_are_one_gpu() -> None:
    both = busy_gpu(0, process("alice", 1.0, pid=1), process("alice", 2.0, pid=2))
    assert named("alice", node("a", both)).gpus == 1


def test_idle_gpus_are_counted_with_the_longest_time() -> None:
    def held(index: int, hours: float) -> JudgedGpu:
        judged = verdict("held", idle_seconds=hours * HOUR)
        return gpu(index, judged, 4.0, processes=(process("bob", 4.0),))

    bob = named("bob", node("a", held(0, 3), held(1, 9), busy_gpu(2, process("bob"))))
    assert (bob.gpus, bob.idle_gpus, bob.idle_seconds) == (3, 2, 9 * HOUR)


def test_users_are_sorted_by_gpus_then_by_name_and_the_hidden_one_last() -> None:
    crowd = node(
        "a",
        busy_gpu(0, hidden_process()),
        busy_gpu(1, hidden_process()),
        busy_gpu(2, hidden_process()),
        busy_gpu(3, process("zoe"), process("bob", pid=2)),
        busy_gpu(4, process("zoe")),
        busy_gpu(5, process("ann")),
    )
    assert [person.user for person in people_in_view(fleet(crowd))] == [
        "zoe",
        "ann",
        "bob",
        HIDDEN_USER,
    ]


def test_a_gpu_in_use_without_visible_processes_belongs_to_the_hidden_user() -> None:
    unseen = named(HIDDEN_USER, node("a", busy_gpu(0, used=30.0)))
    assert (unseen.seen, unseen.gpus, unseen.memory_bytes) == (False, 1, gib(30.0))
    assert unseen.since is None


def test_a_gpu_that_is_called_busy_after_its_processes_ended_has_no_user() -> None:
    card = busy_gpu(0, used=30.0)
    vacated = replace(card, verdict=replace(card.verdict, notes=(VACATED,)))
    assert people_in_view(fleet(node("a", vacated))) == ()


def test_a_ghost_has_no_user_unless_the_owner_of_its_zombie_is_known() -> None:
    nobody = gpu(0, verdict("ghost"), 71.1)
    assert people_in_view(fleet(node("a", nobody))) == ()
    zombie = gpu(0, verdict("ghost"), 12.0, processes=(process("carol", condition="zombie"),))
    assert named("carol", node("a", zombie)).gpus == 1


@pytest.mark.parametrize(
    "bystander",
    [
        Process(pid=2, kind="graphics", user="root", name="Xorg"),
        Process(pid=2, kind="compute", user="root", name="nvidia-cuda-mps-server"),
    ],
)
def test_a_service_beside_a_compute_process_holds_nothing(bystander: Process) -> None:
    view = fleet(node("a", busy_gpu(0, process("alice"), bystander)))
    assert [person.user for person in people_in_view(view)] == ["alice"]


def test_a_free_gpu_has_no_user_whatever_runs_on_it() -> None:
    xorg = process("root", 0.1, kind="graphics")
    assert people_in_view(fleet(node("a", gpu(0, verdict("free"), processes=(xorg,))))) == ()


def test_a_silent_node_is_not_counted() -> None:
    assert people_in_view(fleet(replace(samples.eight(), silent=True))) == ()


def test_unmeasured_figures_stay_unknown() -> None:
    carol = named("carol", node("a", busy_gpu(0, process("carol", None), busy_percent=None)))
    assert carol.memory_bytes is None and carol.busy_percent is None


def test_a_sum_of_memory_is_unknown_when_a_part_of_it_is() -> None:
    one = busy_gpu(0, process("carol", 4.0, pid=1), process("carol", None, pid=2))
    assert named("carol", node("a", one)).memory_bytes is None
    other = busy_gpu(1, process("carol", 4.0, pid=3))
    assert named("carol", node("a", one, other)).memory_bytes is None


def test_on_a_shared_gpu_each_user_has_their_own_utilisation_where_it_is_measured() -> None:
    shared = busy_gpu(
        0,
        process("alice", busy_percent=70.0, pid=1),
        process("bob", busy_percent=20.0, pid=2),
        busy_percent=90.0,
    )
    assert named("alice", node("a", shared)).busy_percent == 70.0
    assert named("bob", node("a", shared)).busy_percent == 20.0


def test_instances_of_one_gpu_are_one_gpu_and_each_process_counts_once() -> None:
    sliced = samples.sliced()
    inside = tuple(one for part in sliced.gpus[0].instances for one in part.processes or ())
    doubled = replace(sliced, gpus=(replace(sliced.gpus[0], processes=inside), *sliced.gpus[1:]))
    for machine in (sliced, doubled):
        assert [(one.user, one.gpus) for one in people_in_view(fleet(machine))] == [
            ("alice", 1),
            ("bob", 1),
        ]
        assert named("alice", machine).memory_bytes == gib(17.8)
        assert named("bob", machine).idle_gpus == 1


def test_a_user_without_a_name_is_named_by_uid() -> None:
    assert owners([process(None, uid=1007)]) == ("uid 1007",)
    assert owners([hidden_process()]) == ()
