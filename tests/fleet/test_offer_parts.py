"""Offers are the same whether only free GPUs or all of them are up to date."""

from random import Random

from fleet_smi.fleet.fleet import FleetState
from fleet_smi.fleet.offer_parts import offer_parts
from fleet_smi.model.candidates import GpuRequest
from fleet_smi.model.select import choose_devices
from fleet_smi.model.units import GIB
from fleet_smi.model.views import NodeParts, summarize_parts
from tests.fleet.random_reports import RandomNode
from tests.fleet.test_steady_samples import NODE, send

NODES, REPORTS_PER_NODE = 24, 200


def test_random_reports_give_the_offers_of_full_views() -> None:
    met = 0
    for seed in range(NODES):
        node, rng = RandomNode(seed), Random(seed)
        fleet, reference = FleetState(node.thresholds), FleetState(node.thresholds)
        for report in range(REPORTS_PER_NODE):
            taken = node.next_snapshot()
            send(fleet, taken, node.at, as_figures=True)
            reference.apply(taken, node.at)
            now = fleet._nodes[NODE].at + rng.choice((0.0, 0.2))
            if rng.random() < 0.5:
                live = fleet.live_node(NODE, now)
                quick = None if live is None else offer_parts(live, now)
                full = reference.node_parts(NODE, now)
                if quick is not None and full is not None:
                    met += assert_same_offers(quick, full, rng, f"seed {seed}, report {report}")
    print(f"{met} requests were met")
    assert met > 100


def assert_same_offers(quick: NodeParts, full: NodeParts, rng: Random, case: str) -> bool:
    request = GpuRequest(count=rng.randint(0, 2), min_free_bytes=rng.choice((0, 10 * GIB)))
    assert summarize_parts([quick]) == summarize_parts([full]), case
    chosen, expected = choose_devices([quick], request), choose_devices([full], request)
    names = [(one.label, one.uuid, one.node.ssh_host) for one in expected.offered]
    assert [(one.label, one.uuid, one.node.ssh_host) for one in chosen.offered] == names, case
    # Otherwise the hub makes the offer from full views.
    if expected.unmet is None:
        assert chosen.reason == expected.reason, case
    return expected.unmet is None
