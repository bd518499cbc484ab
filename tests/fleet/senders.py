"""Machines that report to a fleet, with all that tells them apart."""

from typing import Any

from fleet_smi.fleet.delivery import IdOrigin
from fleet_smi.fleet.fleet import FleetState, Via
from fleet_smi.model.fleet import NodeView
from fleet_smi.model.snapshot import Host, Snapshot
from tests.builders import HOUR, NOON, gpu, snapshot

ID = "5fec0123456789abcdef0123456789ab"
PUSH = Via("push", ID)
FILE = Via("files", "mallory")


class Sender:
    """A machine that reports an id, with all that tells it apart from another."""

    def __init__(
        self, name: str, via: Via = PUSH, *, origin: IdOrigin = "credential", **facts: Any
    ) -> None:
        self.name, self.via, self.origin = name, via, origin
        self.facts: dict[str, Any] = {
            "boot_id": f"boot-of-{name}",
            "run_id": f"run-of-{name}",
            "addresses": (f"10.0.0.{len(name)}{ord(name[-1])}",),
            "uuid": f"GPU-of-{name}",
            "booted_at": NOON - HOUR,
        } | facts
        self.sequence = 0

    def snapshot(self, at: float) -> Snapshot:
        facts = self.facts
        self.sequence += 1
        device = (
            gpu(0, uuid=facts["uuid"])
            if facts["uuid"]
            else gpu(0, uuid=f"gpu0@{ID}", uuid_is_made=True)
        )
        return snapshot(
            *((device,) if facts["uuid"] != "" else ()),
            node=self.name,
            node_id=ID,
            taken_at=at,
            interval_seconds=2.0,
            sequence=self.sequence,
            boot_id=facts["boot_id"],
            run_id=facts["run_id"],
            host=Host(addresses=facts["addresses"], booted_at=facts["booted_at"]),
        )

    def reboots(self, at: float, **facts: Any) -> None:
        self.sequence = 0
        self.facts |= {
            "boot_id": f"boot-at-{at}",
            "run_id": f"run-at-{at}",
            "booted_at": at,
        } | facts


def send(fleet: FleetState, sender: Sender, at: float, sent: Snapshot | None = None) -> str:
    """Send one report as a hub receives it; return the id of the node that it is listed under."""
    known, via = fleet.identities.identify(
        sent or sender.snapshot(at), at, sender.via, fleet.thresholds, origin=sender.origin
    )
    fleet.apply(known, at, via)
    return known.node_id


def by_name(fleet: FleetState, at: float) -> dict[str, NodeView]:
    view = fleet.view(at)
    assert len(view.nodes) == len({node.name for node in view.nodes})
    return {node.name: node for node in view.nodes}
