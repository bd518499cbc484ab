"""The id of a node that joins: its own, unless that is the id of another machine."""

from typing import Any

import pytest

from fleet_smi.errors import Refused
from fleet_smi.fleet.fleet import FleetState, Via
from fleet_smi.fleet.identity import NodeIdentities
from fleet_smi.model.merge import with_node_id
from tests.builders import HOUR, NOON
from tests.fleet.senders import FILE, ID, Sender, send


def join(fleet: FleetState, sender: Sender, at: float, **facts: Any) -> str:
    """Return the id that the hub gives to a machine that joins at this moment."""
    known = sender.facts | {"name": sender.name} | facts
    return fleet.identities.joining_id(
        ID, known["boot_id"], known["name"], known["addresses"][0], at
    )


PULL = Via("pull", "gpu01:7071")


def test_a_machine_that_is_polled_may_join_under_its_own_id() -> None:
    fleet, node = FleetState(), Sender("gpu01", PULL, origin="report")
    send(fleet, node, NOON)
    assert join(fleet, node, NOON + 1) == ID
    # Through NAT, or after it was renamed.
    assert join(fleet, node, NOON + 1, addresses=("192.0.2.1",)) == ID
    assert join(fleet, node, NOON + 1, name="renamed") == ID
    # After a reboot, or when it was silent: then nobody is reporting under its id.
    assert join(fleet, node, NOON + HOUR, boot_id="another") == ID
    assert join(fleet, node, NOON + HOUR, boot_id=None) == ID


@pytest.mark.parametrize(
    "facts",
    [
        {"boot_id": None},
        {"boot_id": "another"},
        {"name": "gpu02", "addresses": ("192.0.2.1",)},
    ],
    ids=["no boot", "another boot", "a copy of a running machine"],
)
def test_nobody_takes_the_id_of_a_machine_that_is_polled_by_joining(facts: dict[str, Any]) -> None:
    fleet, node = FleetState(), Sender("gpu01", PULL, origin="report")
    send(fleet, node, NOON)
    assert join(fleet, node, NOON + 1, **facts).startswith(f"{ID}@")


def test_nobody_takes_the_id_of_an_older_tool_by_joining() -> None:
    fleet = FleetState()
    older = Sender("gpu01", Via("nvgpu", "gpu01"), origin="target")
    older.facts |= {"boot_id": None, "run_id": None, "addresses": (), "uuid": None}
    send(fleet, older, NOON)
    forged = {"boot_id": "some", "addresses": ("192.0.2.1",)}
    assert join(fleet, older, NOON + 1, **forged).startswith(f"{ID}@")


def test_nobody_takes_the_id_of_a_clone_by_reporting_or_joining_with_it() -> None:
    fleet = FleetState()
    first = Sender("gpu01", PULL, origin="report")
    clone = Sender("gpu02", Via("pull", "gpu02:7071"), origin="report")
    for tick in (0, 2):
        send(fleet, first, NOON + tick)
        send(fleet, clone, NOON + tick + 1)
    own_id = fleet.identities.node_id_of(clone.snapshot(NOON), clone.via)
    assert own_id == f"{ID}@gpu02:7071"
    forger = Sender("gpu02", FILE, origin="report", **clone.facts)
    claim = with_node_id(forger.snapshot(NOON + 4), own_id)
    with pytest.raises(Refused, match="comes by pull from gpu02:7071"):
        send(fleet, forger, NOON + 4, claim)
    given = fleet.identities.joining_id(own_id, None, "gpu02", "192.0.2.1", NOON + 4)
    assert given != own_id


def test_a_clone_does_not_get_an_id_that_somebody_reports() -> None:
    fleet = FleetState()
    forger = Sender("mallory", FILE, origin="report")
    claim = with_node_id(forger.snapshot(NOON), f"{ID}@gpu02")
    assert send(fleet, forger, NOON, claim) == f"{ID}@gpu02"
    first, clone = Sender("gpu01"), Sender("gpu02")
    for tick in (1, 3):
        send(fleet, first, NOON + tick)
        send(fleet, clone, NOON + tick + 1)
    assert {node.name for node in fleet.view(NOON + 4).nodes} == {"gpu01", "gpu02", "mallory"}


def test_a_clone_of_a_machine_that_is_off_joins_under_an_id_of_its_own() -> None:
    fleet = FleetState(identities=NodeIdentities(has_credential={ID}.__contains__))
    node, clone = Sender("gpu01"), Sender("gpu02")
    send(fleet, node, NOON)
    assert join(fleet, clone, NOON + HOUR) == f"{ID}@gpu02"
    # The machine itself, which has lost its credential: that is refused, and an admin decides.
    assert join(fleet, node, NOON + HOUR, boot_id="another") == ID
    assert join(fleet, node, NOON + HOUR, name="renamed") == ID
