"""What other hubs have of the history in memory: open intervals, unfinished rows, usage sums."""

import asyncio
from collections.abc import Awaitable, Callable, Collection, Mapping
from typing import Any

from fleet_smi.errors import Unreachable
from fleet_smi.hub.cluster import requests
from fleet_smi.hub.cluster.fleet import ClusterFleet
from fleet_smi.hub.cluster.peers import Peers
from fleet_smi.hub.cluster.recorder import ClusterRecorder
from fleet_smi.hub.history.queries.current_usage import CurrentUsage
from fleet_smi.hub.history.recording.rows import OpenIntervals
from fleet_smi.hub.history.series.series_row import SeriesRow

# What these have open is some 100 kB, and a message of NATS has at most 1 MB.
_NODES_PER_REQUEST = 100
Ask = Callable[[str, requests.Request, Any], Awaitable[Any]]
"""Sends a request to a hub and decodes its response; raises `Unreachable`."""


class ClusterHistory:
    """Asks the other hubs, and answers them. What a hub that is away has open is left out."""

    def __init__(
        self, fleet: ClusterFleet, peers: Peers, recorder: ClusterRecorder, ask: Ask
    ) -> None:
        self.usage: CurrentUsage | None = None
        """Writes the sums of this hub; set once the queries exist."""
        self._fleet = fleet
        self._peers = peers
        self._recorder = recorder
        self._ask = ask

    async def open_intervals(self, node_ids: list[str] | None) -> OpenIntervals:
        """Return the open intervals of these nodes, or of all."""
        found = OpenIntervals([], [], [])
        for part in await self._ask_owners(node_ids, requests.GetOpenIntervals, OpenIntervals):
            found.periods.extend(part.periods)
            found.occupancies.extend(part.occupancies)
            found.presence.extend(part.presence)
        return found

    async def series_rows(self, node_ids: list[str] | None, at: float | None) -> list[SeriesRow]:
        """Return rows that are not stored: unfinished ones, or those that hold at a time."""

        def request(ids: tuple[str, ...]) -> requests.Request:
            return requests.GetSeriesRows(ids, at)

        parts = await self._ask_owners(node_ids, request, list[SeriesRow])
        return [row for part in parts for row in part]

    async def write_usage(self) -> str | None:
        """Have the other hubs write the sums of the current hour; return whose are missing."""
        hubs = list(self._nodes_by_hub(None))
        written = await asyncio.gather(*[self._write_usage_of(hub) for hub in hubs])
        return self._describe([hub for hub, done in zip(hubs, written, strict=True) if not done])

    def unheard(self) -> str | None:
        """Return which hubs with nodes are not heard, as text; `None` if all are."""
        return self._describe(self._nodes_by_hub(None).keys() & self._fleet.unheard)

    async def answer(self, request: requests.Request) -> bytes | None:
        """Answer a request of another hub; `None` for one that is not about the history."""
        if isinstance(request, requests.GetOpenIntervals):
            return requests.encode(self._own_open(request.node_ids))
        if isinstance(request, requests.GetSeriesRows):
            return requests.encode(self._own_rows(request.node_ids, request.at))
        if isinstance(request, requests.WriteUsage) and self.usage is not None:
            return requests.encode(await self.usage.write_for_others())
        return None

    def _own_open(self, node_ids: Collection[str] | None) -> OpenIntervals:
        batch, ended = self._recorder.open_batch(node_ids), self._recorder.pending_batch()

        def is_wanted(node_id: str) -> bool:
            return node_ids is None or node_id in node_ids

        return OpenIntervals(
            [*[row for row in ended.periods if is_wanted(row[0][0])], *batch.periods],
            [*[row for row in ended.occupancies if is_wanted(row[0][0])], *batch.occupancies],
            [*[row for row in ended.presence if is_wanted(row.node_id)], *batch.presence],
        )

    def _own_rows(self, node_ids: Collection[str], at: float | None) -> list[SeriesRow]:
        if at is not None:
            return self._recorder.rows_at(node_ids, at)
        ended = [row for row in self._recorder.pending_batch().series if row.node_id in node_ids]
        return [*ended, *self._recorder.partial_rows(node_ids)]

    def _nodes_by_hub(self, node_ids: list[str] | None) -> Mapping[str, list[str]]:
        by_hub: dict[str, list[str]] = {}
        for node_id in self._fleet.remote_ids() if node_ids is None else node_ids:
            if hub := self._fleet.hub_of(node_id):
                by_hub.setdefault(hub, []).append(node_id)
        return by_hub

    async def _ask_owners(
        self,
        node_ids: list[str] | None,
        request: Callable[[tuple[str, ...]], requests.Request],
        kind: Any,
    ) -> list[Any]:
        """Ask the owners of these nodes, or of all, in parts; return those that arrived."""

        async def ask_hub(hub: str, ids: list[str]) -> list[Any]:
            parts: list[Any] = []
            for first in range(0, len(ids), _NODES_PER_REQUEST):
                part = tuple(ids[first : first + _NODES_PER_REQUEST])
                try:
                    parts.append(await self._ask(hub, request(part), kind))
                except Unreachable:
                    break  # what is in the database
            return parts

        by_hub = self._nodes_by_hub(node_ids)
        found = await asyncio.gather(*[ask_hub(hub, ids) for hub, ids in by_hub.items()])
        return [part for parts in found for part in parts]

    async def _write_usage_of(self, hub: str) -> bool:
        try:
            done: bool = await self._ask(hub, requests.WriteUsage(), bool)
        except Unreachable:
            return False
        return done

    def _describe(self, hubs: Collection[str]) -> str | None:
        if not hubs:
            return None
        names = ", ".join(sorted(self._peers.name_of(hub) for hub in hubs))
        return f"not counted by other hubs of the cluster: {names}"
