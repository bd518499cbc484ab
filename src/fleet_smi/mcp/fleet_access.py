"""Access of the tools: the current fleet, the hub with its history, and the acting person."""

import threading
from collections.abc import Callable

from fleet_smi.client.hub import HubClient
from fleet_smi.errors import UsageError
from fleet_smi.model.fleet import FleetView
from fleet_smi.model.verdict.thresholds import Thresholds


class FleetAccess:
    """One fleet for all calls of an assistant, which use it one after the other.

    `hub` is its hub, if it has one; `act` opens a client whose requests are those of the person who
    started the server: who asks is never what the asker says.
    """

    def __init__(
        self,
        view: Callable[[], FleetView],
        thresholds: Thresholds,
        *,
        hub: HubClient | None = None,
        act: Callable[[], HubClient] | None = None,
    ) -> None:
        self.view = view
        self.thresholds = thresholds
        self.hub = hub
        self.lock = threading.Lock()
        self._act = act

    def require_hub(self) -> HubClient:
        """Return the hub; raise `UsageError` if there is none."""
        if self.hub is None:
            raise UsageError(
                "only a hub keeps history and a queue: start `fleet-smi mcp --hub URL`"
            )
        return self.hub

    def acting(self) -> HubClient:
        """Return a client that acts as the person who started the server."""
        if self._act is None:
            raise UsageError("this server is read-only: start it with --allow-actions")
        return self._act()

    def person(self) -> str | None:
        """Return whose token the server has, where it is the token of one person."""
        return None if self.hub is None else self.hub.session().person
