"""The hub's source `node_info`: polls nodes of gpu-cluster-monitor as its main node does."""

import time
from collections.abc import Callable, Sequence
from typing import NamedTuple

import msgspec
from msgspec.structs import replace

from fleet_smi.compat.node_info.codec import decode_status
from fleet_smi.compat.status_source import StatusSource
from fleet_smi.config import Settings
from fleet_smi.errors import UsageError
from fleet_smi.fleet.delivery import Source
from fleet_smi.hub.http_polling import PollRequest
from fleet_smi.model.snapshot import Snapshot

DEFAULT_PORT = 7080
_REFUSED = "refused the password: set that of the nodes in hub.node_info_password"


def create_sources(settings: Settings) -> list[Source]:
    """Create the source that polls `hub.node_info`; raise `UsageError` without a password."""
    hub = settings.hub
    password = hub.read_node_info_password()
    if password is None:
        raise UsageError(
            "hub.node_info needs the password of these nodes: set hub.node_info_password_file"
        )
    interval = hub.node_info_interval
    return [NodeInfoSource(hub.node_info, password=password, interval_seconds=interval)]


class _LastUpdate(NamedTuple):
    """The `last_update` of a node, and when the hub first received it."""

    text: str | None
    received_at: float


class NodeInfoSource(StatusSource):
    """Polls nodes, which read their GPUs every 4 seconds whether polled or not."""

    name = "node_info"
    min_interval_seconds = 4.0

    def __init__(
        self,
        targets: Sequence[str],
        *,
        password: str,
        interval_seconds: float = 4.0,
        timeout_seconds: float = 5.0,
        clock: Callable[[], float] = time.time,
    ) -> None:
        request = PollRequest(
            method="POST",
            path="/get-status",
            default_port=DEFAULT_PORT,
            headers={"Content-Type": "application/json"},
            body=msgspec.json.encode({"passwd": password}),
            # node_info.py answers a wrong password with 404, an agent of fleet-smi with 403 or 429.
            refusal_messages=dict.fromkeys((401, 403, 404, 429), _REFUSED),
        )
        super().__init__(
            targets,
            request,
            interval_seconds=interval_seconds,
            timeout_seconds=timeout_seconds,
            clock=clock,
        )
        self._last_updates: dict[str, _LastUpdate] = {}

    def decode(self, target: str, body: bytes, now: float) -> Snapshot:
        """Decode the node, taken when its `last_update` was first received.

        A node whose reader has died keeps answering with its last status. Its own time cannot
        show that: it has no zone, so an old one and a wrong clock look the same.
        """
        decoded = decode_status(body, now)
        last = self._last_updates.get(target)
        # Any change counts, not only a later time: the node's clock may be set back.
        if last is None or last.text != decoded.last_update:
            last = self._last_updates[target] = _LastUpdate(decoded.last_update, now)
        return replace(decoded.snapshot, taken_at=last.received_at)
