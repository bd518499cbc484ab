"""Remote writer: encodes the fleet round by round and passes it to the sender.

A round covers every node once, in groups that are spread over the interval, so that there is no
moment in which the whole fleet is encoded. Views are taken on the event loop, all else is done in
threads.
"""

import asyncio
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from math import ceil
from pathlib import Path

from cramjam import snappy
from msgspec import Struct

from fleet_smi.config.settings import HubSettings
from fleet_smi.hub.hub import Hub
from fleet_smi.hub.query_threads import run_in_query_thread
from fleet_smi.hub.remote_write.buffer import RequestBuffer, WriteRequest
from fleet_smi.hub.remote_write.receiver import Receiver, basic_credentials
from fleet_smi.hub.remote_write.sender import Sender
from fleet_smi.model.fleet import NodeView, State, Summary
from fleet_smi.model.people import HIDDEN_USER, node_holdings
from fleet_smi.model.views import build_summary
from fleet_smi.wire.prometheus import Family, fleet_families, node_families
from fleet_smi.wire.remote_write import Message, SeriesEncoder

FOLDER = "remote-write"
_NODES_PER_GROUP = 50
_FLEET = ""
"""In place of a node id, for what belongs to the whole fleet."""
_Faults = list[tuple[str, Exception]]


class _UserCounts(Struct):
    user: str
    seen: bool
    gpus: int = 0
    idle_gpus: int = 0


class _Totals:
    """The counts of one round, added up group by group."""

    def __init__(self) -> None:
        self._states: Counter[State] = Counter()
        self._nodes = self._nodes_reporting = 0
        self._users: dict[str, _UserCounts] = {}

    def add(self, nodes: Iterable[NodeView]) -> None:
        for node in nodes:
            self._nodes += 1
            self._nodes_reporting += not node.silent
            self._states.update([gpu.verdict.state for gpu in node.gpus])
            for holding in node_holdings(node):
                user = holding.user
                counts = self._users.setdefault(user, _UserCounts(user, user != HIDDEN_USER))
                counts.gpus += 1
                counts.idle_gpus += holding.idle

    def families(self, hub_counts: Mapping[str, float]) -> Iterable[Family]:
        return fleet_families(self._summary(), hub_counts, self._users.values())

    def _summary(self) -> Summary:
        return build_summary(self._states, self._nodes, self._nodes_reporting)


class RemoteWriter:
    """Sends the fleet of one hub to one receiver; begins with `run`."""

    def __init__(self, hub: Hub, settings: HubSettings, url: str, folder: Path) -> None:
        """Raise `UsageError` where a credential is missing."""
        self._hub = hub
        self._settings = settings
        self._encoder = SeriesEncoder(settings.remote_write_labels)
        self._credentials()  # a file that cannot be read is an error at the start
        self._buffer = RequestBuffer(folder / FOLDER, settings.remote_write_buffer)
        self._sender = Sender(Receiver(url, self._credentials), self._buffer, clock=hub.clock)

    @property
    def error(self) -> str | None:
        """Why figures do not reach the receiver; `None` if all do."""
        return self._sender.error

    def counts(self) -> Mapping[str, float]:
        """Counters for monitoring; the keys are names of metrics."""
        return {
            "remote_write_samples_total": self._sender.samples_sent,
            "remote_write_dropped_samples_total": self._sender.samples_dropped,
            "remote_write_buffered_bytes": self._buffer.size_bytes,
        }

    async def run(self) -> None:
        """Send a round in every interval until cancelled."""
        loop = asyncio.get_running_loop()
        due = loop.time()
        while True:
            await self._run_round(due)
            due = max(due + self._settings.remote_write_interval, loop.time())
            await asyncio.sleep(due - loop.time())

    def close(self) -> None:
        """Stop sending; what is not sent is saved for the next hub."""
        self._sender.close()
        self._buffer.save()

    async def _run_round(self, start: float) -> None:
        hub, loop, totals = self._hub, asyncio.get_running_loop(), _Totals()
        round_id, node_ids = round(hub.clock() * 1000), hub.fleet.node_ids
        groups = ceil(len(node_ids) / _NODES_PER_GROUP)
        for number in range(groups):
            due = start + number * self._settings.remote_write_interval / groups
            await asyncio.sleep(due - loop.time())
            now, first = hub.clock(), number * _NODES_PER_GROUP
            group = node_ids[first : first + _NODES_PER_GROUP]
            views = [view for each in group if (view := hub.fleet.node(each, now)) is not None]
            faults = await run_in_query_thread(self._put_nodes, round_id, views, totals, now)
            for node_id, error in faults:
                hub.fleet.faults.record("remote_write", node_id, error)
        now, counts = hub.clock(), {**hub.counts(), **self.counts()}
        with hub.fleet.faults.guard("remote_write"):
            await run_in_query_thread(self._put_fleet, round_id, totals, counts, node_ids, now)

    def _put_nodes(
        self, round_id: int, views: Sequence[NodeView], totals: _Totals, now: float
    ) -> _Faults:
        """Encode the samples of nodes; return the nodes that a bug leaves out."""
        faults: _Faults = []
        try:
            self._put(round_id, now, self._encode(views, totals, now))
        except Exception:  # noqa: BLE001  # one node must not take the others with it
            for view in views:
                try:
                    self._put(round_id, now, self._encode([view], totals, now))
                except Exception as error:  # noqa: BLE001  # reported at its node
                    faults.append((view.node_id, error))
        return faults

    def _encode(self, views: Sequence[NodeView], totals: _Totals, now: float) -> list[Message]:
        messages = self._encoder.encode(node_families(views), [view.node_id for view in views], now)
        totals.add(views)
        return messages

    def _put_fleet(
        self,
        round_id: int,
        totals: _Totals,
        counts: Mapping[str, float],
        node_ids: Sequence[str],
        now: float,
    ) -> None:
        ended = self._encoder.end_round(node_ids, now)
        self._put(
            round_id,
            now,
            [*ended, *self._encoder.encode(totals.families(counts), [_FLEET], now)],
        )

    def _put(self, round_id: int, now: float, messages: Iterable[Message]) -> None:
        self._buffer.put(
            [
                WriteRequest(
                    round_id, now, message.samples, bytes(snappy.compress_raw(message.body))
                )
                for message in messages
            ]
        )

    def _credentials(self) -> Mapping[str, str]:
        token = self._settings.read_remote_write_token()
        if token is not None:
            return {"Authorization": f"Bearer {token}"}
        user = self._settings.remote_write_user
        if user is None:
            return {}
        password = self._settings.read_remote_write_password() or ""
        return {"Authorization": basic_credentials(user, password)}
