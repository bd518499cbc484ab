"""The hub of a cluster: a hub that owns some of the nodes, and shows those of the others."""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any

from fleet_smi.errors import StateError, Unreachable
from fleet_smi.fleet.delivery import Source
from fleet_smi.fleet.fleet import Via
from fleet_smi.hub.cluster import requests
from fleet_smi.hub.cluster.bus import MessageBus
from fleet_smi.hub.cluster.claims import Claimed, Claims
from fleet_smi.hub.cluster.fleet import ClusterFleet
from fleet_smi.hub.cluster.leadership import Leadership
from fleet_smi.hub.cluster.link import ClusterLink, HubName
from fleet_smi.hub.cluster.node_store import SharedNodeStore
from fleet_smi.hub.cluster.ownership import Ownership
from fleet_smi.hub.cluster.recorder import ClusterRecorder
from fleet_smi.hub.cluster.remote_history import ClusterHistory
from fleet_smi.hub.cluster.shared_clock import SharedClock
from fleet_smi.hub.hub import Hub
from fleet_smi.model.fleet import NodeView
from fleet_smi.wire.cluster import sanitize_view

logger = logging.getLogger(__name__)
_RESTART_SECONDS = 5.0
_CLAIM_TIMEOUT_SECONDS, _CLAIM_POLL_SECONDS = 10.0, 0.02


class ClusterHub(Hub):
    """Records what it owns, shows what anybody owns, and asks the owner for the rest."""

    fleet: ClusterFleet
    history: ClusterRecorder

    def __init__(
        self,
        fleet: ClusterFleet,
        sources: Sequence[Source],
        node_store: SharedNodeStore,
        history: ClusterRecorder,
        *,
        hub_id: str,
        name: str,
        cluster_id: str,
        bus: MessageBus,
        ownership: Ownership,
        leadership: Leadership,
        clock: SharedClock,
        **settings: Any,
    ) -> None:
        super().__init__(fleet, sources, node_store, history, clock=clock, **settings)
        self._hub_id = hub_id
        self._shared_store = node_store
        self._ownership = ownership
        self._leadership = leadership
        self._shared_clock = clock
        # The part of a receipt that changes with the owner of its node: an agent then sends
        # again what is not durable, as after a restart of the hub.
        self._generations: dict[str, int] = {}
        # Up to which batches this hub may have queued something of a node that it released.
        self._released: dict[str, tuple[int, int]] = {}
        self._claims = Claims(
            ownership, history, is_settled=self._is_settled, on_claimed=self._on_claimed
        )
        own = HubName(hub_id, self.instance_id, name)
        self.link = ClusterLink(bus, cluster_id, own, fleet, clock=clock, on_claimed=self._release)
        self.remote_history = ClusterHistory(fleet, self.link.peers, history, self._ask)

    async def run(self) -> None:
        """Receive and publish until cancelled, beside the other hubs."""
        parts: list[tuple[str, Callable[[], Awaitable[None]]]] = [
            ("link", lambda: self.link.run(self._answer)),
            ("claims", self._claims.run),
            ("leadership", self._leadership.run),
            ("clock", self._shared_clock.run),
        ]
        tasks = [asyncio.create_task(_run_again(name, part)) for name, part in parts]
        try:
            await super().run()
        finally:
            await self.link.leave()
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    def receipt_id_of(self, node_id: str) -> str:
        """The id in receipts for the sender of a node's reports."""
        return f"{self.receipt_id}.{self._generations.get(node_id, 0)}"

    async def node_detail(self, node_id: str) -> NodeView | None:
        """A node with all its data, from its owner where that answers."""
        hub = self.fleet.hub_of(node_id)
        if hub is not None:
            try:
                found = await self._ask(hub, requests.GetNode(node_id), NodeView | None)
            except Unreachable:
                pass  # what this hub has of it in brief
            else:
                if found is not None:
                    return sanitize_view(found)
        return await super().node_detail(node_id)

    async def label(
        self, node_id: str, name: str | None = None, labels: Mapping[str, str] | None = None
    ) -> bool:
        """Set a name and labels, at the hub that owns the node."""
        hub = self.fleet.hub_of(node_id)
        if hub is not None:
            request = requests.LabelNode(node_id, name, None if labels is None else dict(labels))
            if (done := await self._forward(hub, request)) is not None:
                return done
            await self._become_owner(node_id)
        return await super().label(node_id, name, labels)

    async def remove(self, node_id: str) -> bool:
        """Remove a node at the hub that owns it, and so at all."""
        hub = self.fleet.hub_of(node_id)
        if hub is not None:
            if (done := await self._forward(hub, requests.RemoveNode(node_id))) is not None:
                self.fleet.remove_remote(node_id)  # not when its owner says so: the next view
                return done
            await self._become_owner(node_id)
        self.link.publisher.remove(node_id)
        existed = await super().remove(node_id)
        self.fleet.owned.pop(node_id, None)
        return existed

    def is_owned(self, node_id: str, via: Via) -> bool:
        """Whether the history of a node is this hub's to record; if it is nobody's, ask for it."""
        if node_id in self.fleet.owned:
            return True
        # An agent sends to one hub at a time. What several hubs poll belongs to the first of them,
        # as long as that reaches it.
        if via.source == "push" or not self.fleet.is_live_elsewhere(node_id, self.clock()):
            self._claims.request(node_id)
        return False

    def _restore(self) -> None:
        self.fleet.owned = self._ownership.epochs()
        super()._restore()
        for owner, checkpoint in self._shared_store.others:
            with self.fleet.faults.guard("restore"):
                self.fleet.list_remote(checkpoint, owner)
        self._shared_store.others = []

    def _collect_changes(self) -> None:
        for node_id in self._ownership.take_lost():
            if node_id in self.fleet.owned:
                self._release(node_id, "")
        super()._collect_changes()
        if changed := self.fleet.take_remote_dirty():
            self.stream.enqueue(changed, self.clock())

    def _on_claimed(self, claimed: Claimed) -> None:
        """Continue nodes from what their last owner has saved; their agents resend the rest."""
        now = self.clock()
        for node_id, epoch in claimed.epochs.items():
            checkpoint = claimed.checkpoints.get(node_id)
            with self.fleet.faults.guard("restore"):
                if isinstance(checkpoint, Exception):
                    self.fleet.faults.record("restore", node_id, checkpoint)
                elif checkpoint is not None:
                    self.fleet.adopt(checkpoint, self._hub_id, now)
            self.fleet.owned[node_id] = epoch
            self._released.pop(node_id, None)
            self._generations[node_id] = self._generations.get(node_id, 0) + 1
        self.history.adopt(claimed.recorders)

    def _release(self, node_id: str, hub: str) -> None:
        """Another hub owns this node now: write nothing more of it."""
        self.history.release(node_id)
        # What was recorded so far goes to the writer, which leaves it out.
        self.history.flush()
        self.checkpointer.release(node_id)
        self._released[node_id] = self.history.last_batch, self._shared_store.last_batch
        self._generations[node_id] = self._generations.get(node_id, 0) + 1
        self.fleet.release(node_id, hub, self.clock())

    def _is_settled(self, node_id: str) -> bool:
        history_batch, store_batch = self._released.get(node_id, (0, 0))
        is_stored = store_batch <= self._shared_store.durable_batch
        return is_stored and self.history.is_saved(history_batch)

    async def _become_owner(self, node_id: str) -> None:
        """Claim a node whose owner does not answer; raise `StateError` if that takes too long."""
        self._claims.request(node_id)
        try:
            async with asyncio.timeout(_CLAIM_TIMEOUT_SECONDS):
                while node_id not in self.fleet.owned:
                    await asyncio.sleep(_CLAIM_POLL_SECONDS)
        except TimeoutError:
            raise StateError(
                "the hub of this node does not answer, and the database of the cluster is not "
                "available: try again later"
            ) from None

    async def _forward(self, hub: str, request: requests.Request) -> bool | None:
        """The response of the owner; `None` if it does not answer."""
        try:
            done: bool = await self._ask(hub, request, bool)
        except Unreachable:
            return None
        return done

    async def _ask(self, hub: str, request: requests.Request, kind: Any) -> Any:
        if not hub:
            raise Unreachable("no hub owns this node")
        subject = self.link.subject_of(hub)
        data = await self.link.bus.request(subject, requests.encode(request))
        return requests.decode_response(data, kind)

    async def _answer(self, data: bytes) -> bytes | None:
        """Answer the request of another hub; nothing for one that is not known."""
        request = requests.decode_request(data)
        if isinstance(request, requests.GetNode):
            return requests.encode(await super().node_detail(request.node_id))
        if isinstance(request, requests.LabelNode):
            done = await super().label(request.node_id, request.name, request.labels)
            return requests.encode(done)
        if isinstance(request, requests.RemoveNode):
            self.link.publisher.remove(request.node_id)
            done = await super().remove(request.node_id)
            self.fleet.owned.pop(request.node_id, None)
            return requests.encode(done)
        return None if request is None else await self.remote_history.answer(request)


async def _run_again(name: str, part: Callable[[], Awaitable[None]]) -> None:
    """Run a part of the cluster, and again after a bug: it must not end the hub."""
    while True:
        try:
            await part()
        except Exception:
            logger.exception("cluster=%s has a bug", name)
        await asyncio.sleep(_RESTART_SECONDS)
