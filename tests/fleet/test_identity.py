"""Identity of nodes: clones stay apart, a reboot is no clone, and no route speaks for another."""

from timeit import repeat
from typing import Any

import pytest

from fleet_smi.errors import Refused
from fleet_smi.fleet.delivery import IdOrigin
from fleet_smi.fleet.fleet import FleetState, NodeCheckpoint, Via
from fleet_smi.fleet.identity import NodeIdentities
from fleet_smi.fleet.machines import evidence_of, suffixed_id
from tests.builders import HOUR, NOON
from tests.fleet.senders import FILE, ID, PUSH, Sender, by_name, send


def test_the_remedy_over_ssh_needs_no_agent() -> None:
    fleet = FleetState()
    for tick in range(4):
        for number in ("01", "02"):
            way = Via("ssh", f"gpu{number}")
            send(fleet, Sender(f"gpu{number}", uuid=f"GPU-{number}", via=way), NOON + tick)
    for node in by_name(fleet, NOON + 4).values():
        assert "systemd-machine-id-setup" in (node.trouble or "")
        assert "agent" not in (node.trouble or "")
        assert "if this is a hub" in (node.trouble or "")


@pytest.mark.parametrize(
    ("first", "second"),
    [
        (Sender("gpu01"), Sender("gpu02")),
        (Sender("gpu01", booted_at=None), Sender("gpu02", booted_at=None)),
        (Sender("gpu01", uuid=""), Sender("gpu02", uuid="")),
        # Containers of one host: one boot, separate GPUs.
        (Sender("gpu01", boot_id="one"), Sender("gpu02", boot_id="one")),
        # The same address behind NAT, and a simulated GPU with the same UUID.
        (
            Sender("gpu01", addresses=("10.0.2.15",), uuid="GPU-1"),
            Sender("gpu02", addresses=("10.0.2.15",), uuid="GPU-1"),
        ),
        (Sender("gpu01", uuid=None), Sender("gpu02", uuid=None)),
        # A virtual machine that was copied while its agent ran.
        (
            Sender("gpu01", boot_id="one", run_id="one"),
            Sender("gpu02", boot_id="one", run_id="one"),
        ),
    ],
    ids=["all", "no boot time", "no GPU", "one boot", "same address", "no UUID", "one run"],
)
def test_two_machines_with_one_id_are_two_nodes(first: Sender, second: Sender) -> None:
    fleet = FleetState()
    for tick in range(0, 20, 2):
        send(fleet, first, NOON + tick)
        send(fleet, second, NOON + tick + 1)
    now = NOON + 20
    found = by_name(fleet, now)
    assert {name: node.node_id for name, node in found.items()} == {
        "gpu01": ID,
        "gpu02": f"{ID}@gpu02",
    }
    for name, other in (("gpu01", "gpu02"), ("gpu02", "gpu01")):
        node = found[name]
        assert not node.silent
        assert [each.verdict.state for each in node.gpus] == ["free"] * len(node.gpus)
        assert f"same machine-id as {other}" in (node.trouble or "")
        assert "systemd-machine-id-setup" in (node.trouble or "")
    # The warning ends with the clash: the fixed one reports another id now.
    for tick in range(20, 60, 2):
        send(fleet, first, NOON + tick)
    assert by_name(fleet, NOON + 60)["gpu01"].trouble is None


def test_a_reboot_a_new_gpu_or_a_new_address_is_no_second_machine() -> None:
    fleet, node = FleetState(), Sender("gpu01")
    ids = {send(fleet, node, NOON)}
    now = NOON
    changes: list[dict[str, Any]] = [
        {},
        {"uuid": "GPU-replacement"},
        {"addresses": ("192.168.7.7",)},
        {"uuid": "GPU-other", "addresses": ("192.168.7.8",)},
    ]
    for change in changes:
        for pause in (3.0, 100.0):  # kexec, and a server with a slow firmware
            node.reboots(now + pause - 1.0, **change)
            ids |= {send(fleet, node, now + pause + tick) for tick in (0, 2, 4)}
            now += pause + 4
    assert ids == {ID}
    # Without a reboot, in one run of the agent: a new lease of DHCP.
    for number in range(3):
        node.facts["addresses"] = (f"172.16.0.{number % 2}",)
        now += 2
        ids.add(send(fleet, node, now))
    assert ids == {ID}
    (view,) = fleet.view(now).nodes
    assert view.trouble is None


def test_reports_that_were_buffered_before_a_reboot_are_of_the_same_machine() -> None:
    fleet, node = FleetState(), Sender("gpu01")
    send(fleet, node, NOON)
    buffered = [(NOON + tick, node.snapshot(NOON + tick)) for tick in (2, 4, 6)]
    node.reboots(NOON + 60, uuid="GPU-replacement", addresses=("10.9.9.9",))
    ids = {send(fleet, node, NOON + 70)}
    ids |= {send(fleet, node, at, sent) for at, sent in buffered}
    ids |= {send(fleet, node, NOON + 72), send(fleet, node, NOON + 74)}
    # Also long after the reboot, when the hub had been away.
    ids |= {send(fleet, node, NOON + 70 + tick) for tick in range(0, 2000, 2)}
    ids |= {send(fleet, node, at, sent) for at, sent in buffered}
    assert ids == {ID}


def test_clones_keep_their_ids_over_reboots_and_a_restart_of_the_hub() -> None:
    fleet, first, second = FleetState(), Sender("gpu01"), Sender("gpu01", addresses=("10.0.0.9",))
    second.facts |= {"boot_id": "other", "run_id": "other", "uuid": "GPU-2"}
    for tick in range(4):
        send(fleet, first, NOON + tick)
        send(fleet, second, NOON + tick + 0.5)
    before = [node.node_id for node in fleet.view(NOON + 5).nodes]
    assert before == [ID, f"{ID}@10.0.0.9"]
    again = FleetState()
    for checkpoint in reversed([fleet.checkpoint(node_id) for node_id in before]):
        assert isinstance(checkpoint, NodeCheckpoint)
        again.restore(checkpoint)
    second.reboots(NOON + 100)
    for tick in range(110, 120, 2):
        assert send(again, second, NOON + tick) == before[1]
        assert send(again, first, NOON + tick + 1) == before[0]
    first.reboots(NOON + 200)
    assert send(again, first, NOON + 210) == before[0]
    assert again.identities.node_id_of(second.snapshot(NOON), PUSH) == before[1]
    # A machine that was removed and still reports is listed again, under the same id.
    again.remove(before[1])
    assert send(again, second, NOON + 211) == before[1]


SSH = Via("ssh", "gpu01")


def test_an_id_belongs_to_the_first_route_that_it_came_by() -> None:
    fleet, node = FleetState(), Sender("gpu01", SSH, origin="report")
    send(fleet, node, NOON)
    forger = Sender("gpu01", FILE, origin="report", **node.facts)
    for at in (NOON + 1, NOON + HOUR):  # also while the node is off
        with pytest.raises(Refused, match="comes by ssh from gpu01"):
            send(fleet, forger, at)
    assert send(fleet, node, NOON + HOUR + 1) == ID
    # Once the admin removed the node, it belongs to the first that claims it.
    fleet.remove(ID)
    assert send(fleet, forger, NOON + HOUR + 2) == ID


def test_an_id_with_a_credential_is_accepted_by_push_only() -> None:
    credentials = {ID}
    fleet = FleetState(identities=NodeIdentities(has_credential=credentials.__contains__))
    node, forger = Sender("gpu01"), Sender("gpu01", SSH, origin="report")
    with pytest.raises(Refused, match=r"credential.*hub\.trusted_transports"):
        send(fleet, forger, NOON)
    assert send(fleet, node, NOON + 1) == ID
    with pytest.raises(Refused, match="credential"):
        send(fleet, forger, NOON + 2)
    trusting = FleetState(identities=NodeIdentities(("ssh",), credentials.__contains__))
    assert send(trusting, node, NOON) == send(trusting, forger, NOON + 1) == ID
    assert len(trusting.view(NOON + 2).nodes) == 1


def test_a_clone_by_another_route_is_listed_beside_the_node_with_the_credential() -> None:
    fleet = FleetState(identities=NodeIdentities(has_credential={ID}.__contains__))
    node, clone = Sender("gpu01"), Sender("gpu02", Via("pull", "gpu02:7071"), origin="report")
    send(fleet, node, NOON)
    send(fleet, clone, NOON + 1)
    send(fleet, node, NOON + 2)
    assert {name: each.node_id for name, each in by_name(fleet, NOON + 2).items()} == {
        "gpu01": ID,
        "gpu02": f"{ID}@gpu02:7071",
    }


def test_nobody_takes_the_id_of_a_clone_with_a_credential_by_its_name() -> None:
    credentials = {ID, f"{ID}@gpu02"}
    fleet = FleetState(identities=NodeIdentities(has_credential=credentials.__contains__))
    node, forger = Sender("gpu01"), Sender("gpu02")
    send(fleet, node, NOON)
    send(fleet, forger, NOON + 1)
    send(fleet, node, NOON + 2)
    ids = {each.node_id for each in fleet.view(NOON + 2).nodes}
    assert len(ids) == 2
    assert f"{ID}@gpu02" not in ids


def test_a_route_that_is_gone_owns_nothing() -> None:
    fleet, node = FleetState(), Sender("gpu01", SSH, origin="report")
    send(fleet, node, NOON)
    checkpoint = fleet.checkpoint(ID)
    assert checkpoint is not None
    renamed = Sender("gpu01", Via("ssh", "gpu01.lab"), origin="report", **node.facts)
    for targets, accepted in (([SSH, renamed.via], False), ([renamed.via], True)):
        again = FleetState()
        again.restore(checkpoint)
        again.identities.set_routes(targets, ["push", "files"])
        if accepted:
            assert send(again, renamed, NOON + 1) == ID
        else:
            with pytest.raises(Refused):
                send(again, renamed, NOON + 1)
    # A file that was deleted.
    files, other = FleetState(), Sender("gpu01", Via("files", "new-name"), origin="report")
    send(files, Sender("gpu01", FILE, origin="report"), NOON)
    files.drop_target(FILE)
    assert send(files, other, NOON + 1) == ID


@pytest.mark.parametrize("length", [32, 160])
def test_a_clone_never_gets_an_id_that_is_taken(length: int) -> None:
    node_id = "f" * length
    alike = evidence_of(Sender("gpu01", addresses=()).snapshot(NOON), NOON, PUSH)
    taken = {node_id}
    given = []
    for _ in range(4):
        given.append(suffixed_id(node_id, alike, [alike], taken))
        assert given[-1] not in taken
        taken.add(given[-1])
    # A node that is removed frees its id; those of the others stay taken.
    taken.remove(given[1])
    assert suffixed_id(node_id, alike, [alike], taken) not in taken


def test_a_clone_does_not_hide_a_gpu_that_its_twin_misses() -> None:
    fleet, first, clone = FleetState(), Sender("gpu01"), Sender("gpu02")
    for tick in range(0, 60, 2):
        send(fleet, first, NOON + tick)
        send(fleet, clone, NOON + tick + 1)
    # The GPU of the first is exchanged, and the clone claims the one that is gone.
    gone = first.facts["uuid"]
    first.reboots(NOON + 70, uuid="GPU-replacement")
    send(fleet, first, NOON + 80)
    clone.facts["uuid"] = gone
    for tick in range(82, 90, 2):
        send(fleet, clone, NOON + tick)
        send(fleet, first, NOON + tick + 1)
    by_uuid = {each.uuid: each.verdict.state for each in by_name(fleet, NOON + 90)["gpu01"].gpus}
    assert by_uuid == {"GPU-replacement": "free", gone: "broken"}


def test_who_claims_the_id_of_an_older_tool_first_does_not_own_it() -> None:
    fleet, forger = FleetState(), Sender("mallory", FILE, origin="report")
    assert send(fleet, forger, NOON) == ID
    older = Sender("gpu01", Via("nvgpu", "gpu01"), origin="target", **forger.facts)
    assert send(fleet, older, NOON + 1) == ID
    with pytest.raises(Refused, match="comes by nvgpu from gpu01"):
        send(fleet, forger, NOON + 2)


@pytest.mark.parametrize("source", ["push", "pull"])
def test_the_remedy_names_the_clone_its_old_entry_and_what_its_transport_needs(source: str) -> None:
    fleet = FleetState()
    origin: IdOrigin = "credential" if source == "push" else "report"
    first, clone = (
        Sender(name, PUSH if source == "push" else Via("pull", name), origin=origin)
        for name in ("gpu01", "gpu02")
    )
    for tick in range(0, 8, 2):
        send(fleet, first, NOON + tick)
        send(fleet, clone, NOON + tick + 1)
    found = by_name(fleet, NOON + 8)
    for name, where in (("gpu01", "On gpu02 ("), ("gpu02", "On this machine run")):
        trouble = found[name].trouble or ""
        assert where in trouble
        assert trouble.endswith(f"Then run `fleet-smi nodes remove {ID}@gpu02`")
        assert ("credential.json" in trouble) == (source == "push")


def test_clones_of_one_machine_make_no_other_node_more_expensive() -> None:
    identities = NodeIdentities()

    def seconds() -> float:
        return min(repeat(lambda: identities.twins("another"), repeat=5, number=100))

    identities.add_clone(f"{ID}@0", ID)
    beside_one = seconds()
    for number in range(1, 10_000):
        identities.add_clone(f"{ID}@{number}", ID)
    assert seconds() < 20 * beside_one  # to look at every clone takes a thousand times as long
    assert identities.twins(ID) == [f"{ID}@{number}" for number in range(10_000)]
