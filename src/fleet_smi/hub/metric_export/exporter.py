"""Metric exporter: encodes the fleet round by round and passes it to the sender.

A round covers every node once, in groups that are spread over the interval, so that there is no
moment in which the whole fleet is encoded. Views are taken on the event loop, all else is done in
threads.
"""

import asyncio
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from math import ceil
from pathlib import Path
from typing import Literal, NamedTuple, Protocol

from msgspec import Struct

from fleet_smi.hub.hub import Hub
from fleet_smi.hub.metric_export.buffer import RequestBuffer, WriteRequest
from fleet_smi.hub.metric_export.receiver import Receiver
from fleet_smi.hub.metric_export.sender import Sender
from fleet_smi.hub.query_threads import run_in_query_thread
from fleet_smi.model.fleet import NodeView, State, Summary
from fleet_smi.model.people import HIDDEN_USER, node_holdings
from fleet_smi.model.views import build_summary
from fleet_smi.wire.prometheus import Family, OwnMetrics, fleet_families, node_families
from fleet_smi.wire.remote_write import Message

ExporterName = Literal["remote_write", "otlp"]
_NODES_PER_GROUP = 50
_FLEET = ""
"""In place of a node id, for what belongs to the whole fleet."""
_Faults = list[tuple[str, Exception]]


class Encoder(Protocol):
    """Encodes families of samples; in a round every node is encoded once, and the fleet itself."""

    def encode(
        self, families: Iterable[Family], node_ids: Iterable[str], at: float
    ) -> list[Message]:
        """Encode the samples of these nodes; the node id of the whole fleet is ""."""
        ...

    def end_round(self, node_ids: Iterable[str], at: float) -> list[Message]:
        """End the series of all nodes but these, which are those of the round."""
        ...


class Export(NamedTuple):
    """The parts in which exporters differ: format, receiver, interval and size of a batch.

    `max_buffer_bytes` is for what could not be sent yet.
    """

    encoder: Encoder
    compress: Callable[[bytes], bytes]
    receiver: Receiver
    interval_seconds: float
    max_buffer_bytes: int


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

    def families(self, own: OwnMetrics) -> Iterable[Family]:
        return fleet_families(self._summary(), own, self._users.values())

    def _summary(self) -> Summary:
        return build_summary(self._states, self._nodes, self._nodes_reporting)


class MetricExporter:
    """Sends the fleet of one hub to one receiver; begins with `run`."""

    def __init__(self, name: ExporterName, hub: Hub, export: Export, folder: Path) -> None:
        """`folder` is for what could not be sent yet."""
        self.name = name
        self.own_metrics: Callable[[], OwnMetrics] = lambda: OwnMetrics(self.counts())
        """Metrics of the hub itself; the server adds its own."""
        self._hub = hub
        self._encoder, self._compress = export.encoder, export.compress
        self._interval_seconds = export.interval_seconds
        self._buffer = RequestBuffer(folder, export.max_buffer_bytes)
        self._sender = Sender(export.receiver, self._buffer, name=name, clock=hub.clock)

    @property
    def error(self) -> str | None:
        """Why figures do not reach the receiver; `None` if all do."""
        return self._sender.error

    def counts(self) -> Mapping[str, float]:
        """Counters for monitoring; the keys are names of metrics."""
        return {
            f"{self.name}_samples_total": self._sender.samples_sent,
            f"{self.name}_dropped_samples_total": self._sender.samples_dropped,
            f"{self.name}_buffered_bytes": self._buffer.size_bytes,
        }

    async def run(self) -> None:
        """Send a round in every interval until cancelled."""
        loop = asyncio.get_running_loop()
        due = loop.time()
        while True:
            await self._run_round(due)
            due = max(due + self._interval_seconds, loop.time())
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
            due = start + number * self._interval_seconds / groups
            await asyncio.sleep(due - loop.time())
            now, first = hub.clock(), number * _NODES_PER_GROUP
            group = node_ids[first : first + _NODES_PER_GROUP]
            views = [view for each in group if (view := hub.fleet.node(each, now)) is not None]
            faults = await run_in_query_thread(self._put_nodes, round_id, views, totals, now)
            for node_id, error in faults:
                hub.fleet.faults.record(self.name, node_id, error)
        now, own = hub.clock(), self.own_metrics()
        with hub.fleet.faults.guard(self.name):
            await run_in_query_thread(self._put_fleet, round_id, totals, own, node_ids, now)

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
        own: OwnMetrics,
        node_ids: Sequence[str],
        now: float,
    ) -> None:
        ended = self._encoder.end_round(node_ids, now)
        self._put(
            round_id,
            now,
            [*ended, *self._encoder.encode(totals.families(own), [_FLEET], now)],
        )

    def _put(self, round_id: int, now: float, messages: Iterable[Message]) -> None:
        self._buffer.put(
            [
                WriteRequest(round_id, now, message.samples, self._compress(message.body))
                for message in messages
            ]
        )
