"""Set-up of a hub in a cluster: opens its connections and stores, as the settings say."""

import logging
import secrets
import socket
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from sqlalchemy import Engine

from fleet_smi.config.ip_addresses import is_loopback
from fleet_smi.config.settings import HubSettings
from fleet_smi.errors import StateError, UsageError
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

logger = logging.getLogger(__name__)
_ID_FILE, _CLUSTER_ID_FILE = "hub-id", "cluster-id"
_ID_LENGTH = 16


class ClusterSetup:
    """The parts of a cluster's hub. Raises `StateError` without its database."""

    def __init__(self, settings: HubSettings, folder: Path) -> None:
        self._settings = settings
        token = settings.read_cluster_token()
        require_token(settings.cluster, token, is_open=settings.cluster_open)
        name = f"fleet-smi hub {socket.gethostname()}"
        self._bus = MessageBus(settings.cluster, name, token, is_open=settings.cluster_open)
        self._hub_id = read_hub_id(folder)
        self._state: SharedState = open_shared_state(settings.history)
        try:
            remember_cluster(folder, self._state.cluster_id)
        except BaseException:
            self._state.engine.dispose()
            raise
        self._clock = SharedClock(self._state)
        self._leadership = Leadership(self._state, "leader", self._hub_id)
        self._ownership = Ownership(self._state, self._hub_id, self._leadership)

    @property
    def engine(self) -> Engine:
        """The shared database of nodes, tokens and users."""
        return self._state.engine

    @property
    def leadership(self) -> Leadership:
        """Which hub does what is to be done once for all."""
        return self._leadership

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


def require_token(servers: Sequence[str], token: str | None, *, is_open: bool) -> None:
    """Raise `UsageError` if a NATS server on another machine is to be used without a token."""
    remote = [server for server in servers if not is_loopback(urlsplit(server).hostname or "")]
    if remote and token is None and not is_open:
        raise UsageError(
            f"{remote[0]} is on another machine, and hub.cluster_token is not set: anybody there "
            "could invent nodes. Make nats-server require a token (docs/cluster.md), or set "
            "hub.cluster_open"
        )
    for server in remote:
        if not server.startswith("tls:"):
            logger.warning("%s is not encrypted: use tls:// where others can listen", server)


def remember_cluster(folder: Path, cluster_id: str) -> None:
    """Raise `StateError` if this hub was in another cluster before, whose nodes know it."""
    path = folder / _CLUSTER_ID_FILE
    try:
        found = path.read_text("ascii").strip()
    except FileNotFoundError:
        write_private_file(path, cluster_id.encode() + b"\n")
        return
    except (OSError, UnicodeDecodeError) as error:
        raise StateError(f"{path} cannot be read: {error}") from None
    if found != cluster_id:
        raise StateError(
            "hub.history is the database of another cluster, or a new one: correct it, or remove "
            f"{path} to move this hub there; its nodes then have to join again"
        )


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
