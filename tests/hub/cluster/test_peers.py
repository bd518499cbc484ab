"""Messages of other hubs that are lost: all is requested again, until it has come."""

from fleet_smi.fleet.identity import NodeIdentities
from fleet_smi.hub.cluster.fleet import ClusterFleet
from fleet_smi.hub.cluster.peers import Peers
from fleet_smi.model.verdict.thresholds import DEFAULT_THRESHOLDS
from fleet_smi.wire.cluster import Changes


def test_a_message_that_is_lost_right_after_another_is_requested_again_too() -> None:
    requested: list[str] = []
    fleet = ClusterFleet(DEFAULT_THRESHOLDS, NodeIdentities(), 10)
    peers = Peers(fleet, "own", "run", request_resend=requested.append, on_claimed=lambda *_: None)

    def receive(sequence: int, at: float) -> int:
        peers.receive_changes(Changes("other", "run", sequence), at, at)
        return len(requested)

    assert receive(1, 100.0) == 1, "all that was before"
    assert receive(2, 100.1) == 1
    assert receive(4, 100.2) == 1, "not more than once in a second"
    assert receive(5, 100.3) == 1
    assert receive(6, 101.1) == 2, "the third is still missing"
    assert receive(7, 103.0) == 2
