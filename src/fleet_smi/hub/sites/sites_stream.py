"""The stream of a hub that follows sites: one of all nodes, and one of its own for other hubs."""

from collections.abc import Collection

from fleet_smi.fleet.fleet import FleetState
from fleet_smi.hub.sites.shown_fleet import ShownFleet
from fleet_smi.hub.sites.sites import Sites
from fleet_smi.hub.stream import Stream

__all__ = ["Sites", "SitesStream", "open_stream"]


class SitesStream(Stream):
    """The stream of all nodes that are shown; `own` has those that report to this hub."""

    def __init__(self, fleet: FleetState, sites: Sites, instance_id: str) -> None:
        self.shown = ShownFleet(fleet, sites)
        super().__init__(self.shown, instance_id)
        self._own = Stream(fleet, instance_id)
        self._sites = sites

    @property
    def own(self) -> Stream:
        """The stream of the nodes that report to this hub."""
        return self._own

    def enqueue(self, changed: Collection[str], now: float) -> None:
        """Queue changed nodes of the own fleet to be published."""
        super().enqueue(changed, now)
        self._own.enqueue(changed, now)

    def publish(self, node_ids: Collection[str], now: float) -> None:
        """Publish the changes of these nodes, and queue those of sites."""
        self._sites.tick(now)
        if changed := self._sites.take_dirty():
            super().enqueue(changed, now)
        self._own.publish([each for each in node_ids if each in self._own.pending], now)
        super().publish(node_ids, now)

    def close(self) -> None:
        """End the stream for every subscriber."""
        super().close()
        self._own.close()


def open_stream(
    fleet: FleetState, sites: Sites | None, instance_id: str
) -> tuple[FleetState | ShownFleet, Stream]:
    """Return the fleet that a hub shows and its stream, both with the nodes of sites, if any."""
    if sites is None:
        return fleet, Stream(fleet, instance_id)
    stream = SitesStream(fleet, sites, instance_id)
    return stream.shown, stream
