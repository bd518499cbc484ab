"""Limits of how many nodes there may be: one polled target is not a fleet."""

import pytest

from fleet_smi.errors import Refused
from fleet_smi.fleet.fleet import FleetState, Via
from tests.builders import NOON, gpu, snapshot


def test_a_polled_target_that_invents_node_ids_does_not_fill_the_fleet() -> None:
    fleet, inventor, honest = FleetState(), Via("pull", "gpu01:7071"), Via("pull", "gpu02:7071")
    fleet.identities.set_routes([inventor, honest], ["push"])

    def receive(node: str, via: Via, at: float) -> None:
        sent = snapshot(gpu(0, uuid=f"GPU-{node}"), node=node, taken_at=at)
        known, own_via = fleet.identities.identify(sent, at, via, fleet.thresholds)
        fleet.apply(known, at, own_via)

    for number in range(16):
        receive(f"invented{number}", inventor, NOON + number)
    with pytest.raises(Refused, match="has reported 16 node ids"):
        receive("invented16", inventor, NOON + 16)
    # The ids that it has had are its own, and nobody else is refused.
    receive("invented3", inventor, NOON + 17)
    receive("gpu02", honest, NOON + 18)
    for number in range(20):
        receive(f"pushed{number}", Via("push", f"id-of-pushed{number}"), NOON + 20)
    assert len(fleet.view(NOON + 21).nodes) == 16 + 1 + 20
    # Removing those that are gone makes room.
    fleet.remove("id-of-invented0")
    receive("invented16", inventor, NOON + 22)
