"""The other hubs of a cluster: what each has sent, and which of them are not heard."""

import logging
from collections.abc import Callable

from fleet_smi.errors import Undecodable
from fleet_smi.failure_log import FailureLog
from fleet_smi.hub.cluster.fleet import ClusterFleet
from fleet_smi.hub.cluster.remote_node import RemoteNode
from fleet_smi.model.safe_text import sanitize_text
from fleet_smi.model.units import format_duration
from fleet_smi.wire.cluster import Changes, HubPresence, decode_brief

logger = logging.getLogger(__name__)
UNHEARD_SECONDS = 4.0
"""A hub that sent no sign of life for this long is not heard."""
_MAX_CLOCK_DIFFERENCE_SECONDS = 5.0
_RESEND_SECONDS = 1.0
_MAX_PEERS = 200
_MAX_NAME = 128


class Peer:
    """One other hub."""

    def __init__(self, hub: str) -> None:
        self.hub = hub
        self.name = hub
        self.instance: str | None = None
        self.sequence: int | None = None
        """The last message that was received of it; `None` where earlier ones are missing."""
        self.numbers: dict[int, RemoteNode] = {}
        self.heard_at = 0.0
        self.clock_difference = 0.0
        self.resend_due = 0.0


class Peers:
    """Applies messages of the other hubs to the fleet; times are of a monotonic clock."""

    def __init__(
        self,
        fleet: ClusterFleet,
        hub: str,
        instance: str,
        *,
        request_resend: Callable[[str], None],
        on_claimed: Callable[[str, str], None],
    ) -> None:
        self._fleet = fleet
        self._hub, self._instance = hub, instance
        self._request_resend = request_resend
        self._on_claimed = on_claimed
        self._peers: dict[str, Peer] = {}
        self._failures = FailureLog(logger, "cluster")
        self._twin_heard_at = -60.0

    def receive_changes(self, message: Changes, now: float, monotonic: float) -> None:
        """Apply what another hub sent; ask it to send all again where something is missing."""
        peer = self._heard(message.hub, message.instance, monotonic)
        if peer is None:
            return
        is_next = peer.sequence is not None and message.sequence == peer.sequence + 1
        # Unless it was asked, the gap stays open: the next message asks again.
        is_complete = is_next or self._ask_again(peer, monotonic)
        peer.sequence = message.sequence if is_complete else None
        for raw in message.nodes:
            try:
                brief = decode_brief(raw)
            except Undecodable as error:
                self._failures.record_failure(error)
                continue
            node_id = brief.view.node_id
            own_epoch = self._fleet.owned.get(node_id)
            if own_epoch is not None and brief.epoch is not None and brief.epoch > own_epoch:
                self._on_claimed(node_id, peer.hub)
            node = self._fleet.apply_brief(peer.hub, brief, now)
            if node is None:
                peer.numbers.pop(brief.number, None)
            else:
                peer.numbers[brief.number] = node
        for update in message.updates:
            known = peer.numbers.get(update.number)
            if known is not None and not self._fleet.apply_update(known, update, now):
                self._ask_again(peer, monotonic)
        for node_id in message.removed:
            self._fleet.remove_remote(node_id)

    def receive_presence(self, message: HubPresence, now: float, monotonic: float) -> None:
        """Note that a hub is there, or leaves."""
        peer = self._heard(message.hub, message.instance, monotonic)
        if peer is None:
            return
        peer.name = sanitize_text(message.name, _MAX_NAME) or peer.hub
        peer.clock_difference = message.now - now
        if peer.sequence is None or peer.sequence < message.sequence:
            self._ask_again(peer, monotonic)
        if message.is_leaving:
            del self._peers[peer.hub]

    def forget_sequences(self) -> None:
        """Ask every hub to send all again with its next message: some were missed."""
        for peer in self._peers.values():
            peer.sequence = None

    def unheard(self, monotonic: float) -> dict[str, Peer]:
        """The hubs that were heard once, and are not now."""
        return {
            hub: peer
            for hub, peer in self._peers.items()
            if monotonic - peer.heard_at > UNHEARD_SECONDS
        }

    def name_of(self, hub: str) -> str:
        """Return the name of the machine of a hub; its id if it was not heard yet."""
        peer = self._peers.get(hub)
        return hub if peer is None else peer.name

    def problem(self, monotonic: float) -> str | None:
        """The problem with other hubs, as text; `None` without one."""
        counts, problems = self._fleet.count_by_hub(), list[str]()
        for hub, peer in self.unheard(monotonic).items():
            # Whether it has nodes or not: it may hear some that this hub does not know.
            age, nodes = format_duration(monotonic - peer.heard_at), counts.get(hub, 0)
            problems.append(
                f"hub {peer.name} is not heard for {age}; it had {nodes} of the nodes shown here"
            )
        for peer in self._peers.values():
            if abs(peer.clock_difference) > _MAX_CLOCK_DIFFERENCE_SECONDS:
                difference = format_duration(abs(peer.clock_difference))
                problems.append(f"the clock of hub {peer.name} differs by {difference}")
        if monotonic - self._twin_heard_at < 2 * UNHEARD_SECONDS:
            problems.append(
                "another hub runs with a copy of this hub's state folder: give it one of its own"
            )
        return "; ".join(problems) or None

    def _heard(self, hub: str, instance: str, monotonic: float) -> Peer | None:
        if hub == self._hub:
            if instance != self._instance:
                self._twin_heard_at = monotonic
            return None
        peer = self._peers.get(hub)
        if peer is None:
            # Ids are made by `read_hub_id`; anything else would be sent to as a subject of NATS.
            if len(self._peers) >= _MAX_PEERS or not (len(hub) < _MAX_NAME and hub.isalnum()):
                return None
            peer = self._peers[hub] = Peer(hub)
        if peer.instance != instance:
            peer.instance, peer.sequence, peer.numbers = instance, None, {}
        peer.heard_at = monotonic
        return peer

    def _ask_again(self, peer: Peer, monotonic: float) -> bool:
        """Ask a hub to send all again; return false if that was not long enough ago."""
        if monotonic < peer.resend_due:
            return False
        peer.resend_due = monotonic + _RESEND_SECONDS
        self._request_resend(peer.hub)
        return True
