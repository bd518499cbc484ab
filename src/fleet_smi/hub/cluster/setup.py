"""Set-up of a hub in a cluster: opens its connections and stores, as the settings say."""

import secrets
import socket
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

from sqlalchemy import Engine

from fleet_smi.config.settings import HubSettings
from fleet_smi.errors import StateError
from fleet_smi.fleet.delivery import Source
from fleet_smi.fleet.identity import NodeIdentities
from fleet_smi.hub.cluster.bus import MessageBus
from fleet_smi.hub.cluster.fleet import ClusterFleet
from fleet_smi.hub.cluster.hub import ClusterHub
from fleet_smi.hub.cluster.leadership import Leadership
from fleet_smi.hub.cluster.node_store import SharedNodeStore
from fleet_smi.hub.cluster.ownership import Ownership
from fleet_smi.hub.cluster.recorder import ClusterRecorder
from fleet_smi.hub.cluster.shared_clock import SharedClock
from fleet_smi.hub.cluster.state_database import SharedState, open_shared_state
from fleet_smi.hub.history.archive import Archive
from fleet_smi.hub.history.storage.retention import RetentionPolicy
from fleet_smi.hub.state_folder import write_private_file
from fleet_smi.model.verdict.thresholds import Thresholds

_ID_FILE = "hub-id"
_ID_LENGTH = 16


class ClusterSetup:
    """The parts of a cluster's hub. Raises `StateError` without its database."""

    def __init__(self, settings: HubSettings, folder: Path) -> None:
        self._settings = settings
        self._bus = MessageBus(
            settings.cluster, f"fleet-smi hub {socket.gethostname()}", settings.read_cluster_token()
        )
        self._hub_id = read_hub_id(folder)
        self._state: SharedState = open_shared_state(settings.history)
        self._clock = SharedClock(self._state)
        self._leadership = Leadership(self._state, "leader", self._hub_id)
        self._ownership = Ownership(self._state, self._hub_id, self._leadership)

    @property
    def engine(self) -> Engine:
        """The shared database of nodes, tokens and users."""
        return self._state.engine

    def create_node_store(self) -> SharedNodeStore:
        """Create the node store, which writes what this hub owns."""
        return SharedNodeStore(self._state, self._ownership, self._hub_id)

    def create_fleet(self, thresholds: Thresholds, identities: NodeIdentities) -> ClusterFleet:
        """Create the fleet, which shows the nodes of all hubs."""
        return ClusterFleet(thresholds, identities, self._settings.nodes_most)

    def create_archive(self, retention: RetentionPolicy, fleet: ClusterFleet) -> Archive:
        """Open the shared history; this hub writes what it owns."""
        create = partial(ClusterRecorder, is_leader=self._ownership.is_leader)
        location = self._settings.history or ""
        return Archive(
            location,
            retention,
            fleet,
            fence=self._ownership,
            create_recorder=create,
            clock=self._clock,
        )

    def create_hub(
        self,
        fleet: ClusterFleet,
        sources: Sequence[Source],
        node_store: SharedNodeStore,
        archive: Archive,
        **options: Any,
    ) -> ClusterHub:
        """Create the hub from its parts."""
        recorder = archive.recorder
        if not isinstance(recorder, ClusterRecorder):
            raise TypeError("the archive of a cluster has a recorder of its own")
        hub = ClusterHub(
            fleet,
            sources,
            node_store,
            recorder,
            hub_id=self._hub_id,
            name=socket.gethostname(),
            cluster_id=self._state.cluster_id,
            bus=self._bus,
            ownership=self._ownership,
            leadership=self._leadership,
            clock=self._clock,
            **options,
        )
        archive.queries.set_remote(hub.remote_history)
        hub.remote_history.usage = archive.queries.current_usage
        return hub


def read_hub_id(folder: Path) -> str:
    """The id of the hub of a state folder, created with the first run."""
    path = folder / _ID_FILE
    try:
        found = path.read_text("ascii").strip()
    except FileNotFoundError:
        found = secrets.token_hex(_ID_LENGTH // 2)
        write_private_file(path, found.encode() + b"\n")
    except (OSError, UnicodeDecodeError) as error:
        raise StateError(f"{path} cannot be read: {error}") from None
    if not (len(found) == _ID_LENGTH and found.isalnum()):
        raise StateError(f"{path} is damaged: remove it, and the hub gets a new id")
    return found
