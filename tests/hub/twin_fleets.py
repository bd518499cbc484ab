"""A fleet that gets reports as figures, and its twin that gets each of them in full."""

from collections.abc import Iterator
from random import Random

from fleet_smi.fleet.fleet import FleetState
from fleet_smi.fleet.via import Via
from fleet_smi.model.views import NodeParts
from tests.fleet.random_reports import RandomNode
from tests.fleet.test_steady_samples import NODE, send

_NODES, _REPORTS_PER_NODE = 24, 250


class CountedFleet(FleetState):
    """Counts how often a node was made into parts."""

    parts_made = 0

    def node_parts(self, node_id: str, now: float) -> NodeParts | None:
        self.parts_made += 1
        return super().node_parts(node_id, now)


class TwinFleets:
    """One random node in two fleets."""

    def __init__(self, seed: int) -> None:
        self._seed, self._node, self._rng = seed, RandomNode(seed), Random(seed)
        self.fleet = CountedFleet(self._node.thresholds)
        self.reference = FleetState(self._node.thresholds)

    def moments(self) -> Iterator[tuple[float, str]]:
        """Send all reports; yield moments in between, often or seldom, and what to call them."""
        node, rng = self._node, self._rng
        share = rng.choice((0.1, 0.5, 1.0))
        for report in range(_REPORTS_PER_NODE):
            taken = node.next_snapshot()
            send(self.fleet, taken, node.at, as_figures=True)
            self.reference.apply(taken, node.at)
            if rng.random() < 0.01:
                self._change_facts()
            if rng.random() < share:
                # Never before the latest sample: a hub's clock does not go back.
                now = self.fleet._nodes[NODE].at + rng.choice((0.0, *[0.2] * 18, 200.0))
                yield now, f"seed {self._seed}, report {report}"

    def _change_facts(self) -> None:
        """Change something that no report has."""
        via, name = Via("ssh", "gpu01"), f"name-{self._rng.random()}"
        change = self._rng.randint(0, 2)
        for each in (self.fleet, self.reference):
            if change == 0:
                each.label(NODE, name, {"rack": name})
            elif change == 1:
                each.routes.add(via, each._nodes[NODE])
                each.record_failure(via, name, self._node.at)
            else:
                each.shift_times(3.0)


def all_twins() -> Iterator[TwinFleets]:
    return map(TwinFleets, range(_NODES))
