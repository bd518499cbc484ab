"""The hub's end of `node_info`: nodes of gpu-cluster-monitor, asked as its main node does."""

import time
from collections.abc import Callable, Sequence
from typing import NamedTuple

import msgspec
from msgspec.structs import replace

from fleet_smi.compat.duplicate_ids import DuplicateIdResolver
from fleet_smi.compat.node_info.codec import decode_status
from fleet_smi.config import Settings
from fleet_smi.errors import UsageError
from fleet_smi.fleet.delivery import DeliverCallback, Delivery, Source
from fleet_smi.hub.http_polling import HttpPoller, PollRequest

DEFAULT_PORT = 7080
# A node looks at its GPUs that often: asked more often, it tells the same again.
_LOOKS_EVERY_SECONDS = 4.0
_REFUSED = "refused the password: give the hub the nodes' own in hub.node_info_password"


def create_sources(settings: Settings) -> list[Source]:
    """Create the source that polls the nodes named in `hub.node_info`."""
    hub = settings.hub
    password = hub.read_node_info_password()
    if password is None:
        raise UsageError(
            "hub.node_info needs the password of these nodes: set hub.node_info_password_file"
        )
    interval = hub.node_info_interval
    return [NodeInfoSource(hub.node_info, password=password, interval_seconds=interval)]


class _Seen(NamedTuple):
    """What a node said of when it last looked, and since when it has been saying so."""

    last_update: str | None
    since: float


class NodeInfoSource:
    """Asks many nodes at once, each with its own deadline."""

    name = "node_info"

    def __init__(
        self,
        targets: Sequence[str],
        *,
        password: str,
        interval_seconds: float = 4.0,
        timeout_seconds: float = 5.0,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self.targets = tuple(targets)
        self._interval_seconds = interval_seconds
        self._pace_seconds = max(interval_seconds, _LOOKS_EVERY_SECONDS)
        self._clock = clock
        self._seen: dict[str, _Seen] = {}
        self._namesakes = DuplicateIdResolver()
        question = PollRequest(
            method="POST",
            path="/get-status",
            default_port=DEFAULT_PORT,
            headers={"Content-Type": "application/json"},
            body=msgspec.json.encode({"passwd": password}),
            refusal_messages=dict.fromkeys((401, 403, 404, 429), _REFUSED),
        )
        self._nodes = HttpPoller(self.name, targets, question, self._delivery, timeout_seconds)

    async def poll(self) -> Sequence[Delivery]:
        """Ask every node once."""
        return await self._nodes.poll_once()

    async def run(self, deliver: DeliverCallback) -> None:
        """Ask every node on its own ticks until cancelled."""
        await self._nodes.poll_until_cancelled(deliver, self._interval_seconds)

    def _delivery(self, target: str, body: bytes) -> Delivery:
        now = self._clock()
        told = decode_status(body, now)
        since = self._since(target, told.last_update, now)
        snapshot = replace(told.snapshot, taken_at=since, interval_seconds=self._pace_seconds)
        return Delivery(
            source=self.name,
            target=target,
            result=self._namesakes.disambiguate(snapshot, target),
            age_seconds=now - since,
        )

    def _since(self, target: str, last_update: str | None, now: float) -> float:
        """When this was first told: one that tells the same for long has stopped to look."""
        seen = self._seen.get(target)
        if seen is None or seen.last_update != last_update:
            seen = self._seen[target] = _Seen(last_update, now)
        return seen.since
