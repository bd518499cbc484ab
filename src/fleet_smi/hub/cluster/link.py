"""The link of a hub to the others: sends its nodes in brief, receives theirs, and answers them."""

import asyncio
import time
from collections.abc import Callable
from typing import NamedTuple

from fleet_smi.errors import Undecodable
from fleet_smi.failure_log import FailureLog
from fleet_smi.hub.cluster.bus import MessageBus, RequestHandler, logger
from fleet_smi.hub.cluster.fleet import ClusterFleet
from fleet_smi.hub.cluster.peers import Peers
from fleet_smi.hub.cluster.publisher import ChangePublisher
from fleet_smi.hub.cluster.shared_clock import SharedClock
from fleet_smi.hub.sources.polling import ticks
from fleet_smi.wire.cluster import (
    Changes,
    CredentialsChanged,
    HubPresence,
    decode_message,
    encode_message,
)

_PUBLISH_SECONDS, _PRESENCE_SECONDS = 0.1, 1.0
_MAX_MESSAGES_PER_SLOT = 5
RESEND = b"resend"
"""The request to send all nodes again; it has no response."""


class HubName(NamedTuple):
    """How a hub is known to others: its id, one run of it, the name of its machine."""

    hub: str
    instance: str
    name: str


class ClusterLink:
    """Exchanges nodes with the other hubs of one cluster; lives on one event loop."""

    def __init__(
        self,
        bus: MessageBus,
        cluster_id: str,
        own: HubName,
        fleet: ClusterFleet,
        *,
        clock: SharedClock,
        on_claimed: Callable[[str, str], None],
    ) -> None:
        self.on_credentials: Callable[[], None] = lambda: None
        """Is called when another hub has changed tokens or users."""
        self.problem: str | None = None
        """The problem with NATS or with other hubs, as text; `None` without one."""
        self.bus = bus
        self.publisher = ChangePublisher(fleet, own.hub, own.instance)
        self._own = own
        self._fleet = fleet
        self._clock = clock
        self._prefix = f"fleet-smi.{cluster_id}"
        self._tasks: set[asyncio.Task[bool]] = set()
        self._failures = FailureLog(logger, "cluster")
        self.peers = Peers(
            fleet,
            own.hub,
            own.instance,
            request_resend=lambda hub: self._send(self.subject_of(hub), RESEND),
            on_claimed=on_claimed,
        )
        bus.on_connected = self._on_connected

    def subject_of(self, hub: str) -> str:
        """The subject of requests to a hub."""
        return f"{self._prefix}.requests.{hub}"

    async def run(self, on_request: RequestHandler) -> None:
        """Exchange nodes until cancelled; `on_request` answers other hubs."""

        async def handle(data: bytes) -> bytes | None:
            if data == RESEND:
                self.publisher.resend_all()
                return None
            return await on_request(data)

        async with asyncio.TaskGroup() as group:
            group.create_task(
                self.bus.run(
                    f"{self._prefix}.fleet.*",
                    self._on_message,
                    self.subject_of(self._own.hub),
                    handle,
                )
            )
            group.create_task(self._publish_in_slots())
            group.create_task(self._send_presence())

    async def leave(self) -> None:
        """Send what is left, and say goodbye: the others need not miss this hub."""
        await self._publish()
        await self.bus.publish(self._broadcast, encode_message(self._presence(is_leaving=True)))
        await self.bus.flush()

    def send_credentials_changed(self) -> None:
        """Make the other hubs read tokens and users again."""
        self._send(self._broadcast, encode_message(CredentialsChanged(self._own.hub)))

    @property
    def _broadcast(self) -> str:
        return f"{self._prefix}.fleet.{self._own.hub}"

    def _on_connected(self) -> None:
        self.publisher.resend_all()
        self.peers.forget_sequences()

    def _on_message(self, data: bytes) -> None:
        now, monotonic = self._clock(), time.monotonic()
        try:
            message = decode_message(data)
        except Undecodable as error:
            self._failures.record_failure(error)
            return
        with self._fleet.faults.guard("stream"):
            if isinstance(message, Changes):
                self.peers.receive_changes(message, now, monotonic)
            elif isinstance(message, HubPresence):
                self.peers.receive_presence(message, now, monotonic)
            else:
                self.on_credentials()

    async def _publish_in_slots(self) -> None:
        async for _ in ticks(_PUBLISH_SECONDS):
            await self._publish()

    async def _publish(self) -> None:
        self.publisher.enqueue(self._fleet.take_unpublished())
        # Without a connection they stay queued, each once.
        for _ in range(_MAX_MESSAGES_PER_SLOT if self.bus.is_connected else 0):
            changes = self.publisher.next_changes(self._clock())
            if changes is None:
                break
            await self.bus.publish(self._broadcast, encode_message(changes))

    async def _send_presence(self) -> None:
        async for _ in ticks(_PRESENCE_SECONDS):
            await self.bus.publish(self._broadcast, encode_message(self._presence()))
            self._fleet.set_unheard(self.peers.unheard(time.monotonic()))
            self._fleet.drop_outdated()
            # While there is no connection, that is the cause, and not each hub.
            error = self.bus.error
            others = self.peers.problem(time.monotonic())
            bus_problem = others if error is None else f"no connection to NATS at {error}"
            problems = bus_problem, self.bus.warning, self._clock.problem
            self.problem = "; ".join(filter(None, problems)) or None

    def _presence(self, *, is_leaving: bool = False) -> HubPresence:
        return HubPresence(
            hub=self._own.hub,
            instance=self._own.instance,
            name=self._own.name,
            now=self._clock(),
            sequence=self.publisher.sequence,
            is_leaving=is_leaving,
        )

    def _send(self, subject: str, data: bytes) -> None:
        task = asyncio.get_running_loop().create_task(self.bus.publish(subject, data))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
