"""Claims: a hub becomes the owner of the nodes that it hears, some at a time, in a thread."""

import asyncio
import logging
import time
from collections.abc import Callable, Collection
from typing import NamedTuple

from fleet_smi.errors import StateError
from fleet_smi.failure_log import FailureLog
from fleet_smi.fleet.fleet import NodeCheckpoint
from fleet_smi.hub.cluster.ownership import Ownership
from fleet_smi.hub.cluster.recorder import ClusterRecorder, LoadedRecorders

logger = logging.getLogger(__name__)
# Nodes that come together, as after another hub was lost, are claimed together.
_COLLECT_SECONDS = 0.05
_MAX_CLAIMED_TOGETHER = 200
_RETRY_SECONDS = 0.5
# Two machines with one id, at two hubs, must not claim their node from each other all the time.
_MIN_INTERVAL_SECONDS = 2.0
_FORGET_SECONDS = 60.0


class Claimed(NamedTuple):
    """Nodes that this hub owns now, and what other hubs have saved of them."""

    epochs: dict[str, int]
    checkpoints: dict[str, NodeCheckpoint | Exception]
    recorders: LoadedRecorders


class Claims:
    """The nodes that this hub hears and does not own yet."""

    def __init__(
        self,
        ownership: Ownership,
        recorder: ClusterRecorder,
        *,
        is_settled: Callable[[str], bool],
        on_claimed: Callable[[Claimed], None],
    ) -> None:
        """Create it; `is_settled` says whether what this hub once queued of a node is written."""
        self._ownership = ownership
        self._recorder = recorder
        self._is_settled = is_settled
        self._on_claimed = on_claimed
        self._pending: dict[str, None] = {}
        self._claimed_at: dict[str, float] = {}
        self._wake = asyncio.Event()
        self._failures = FailureLog(logger, "claims")

    def request(self, node_id: str) -> None:
        """Claim a node soon; does nothing if that is under way."""
        if node_id not in self._pending:
            self._pending[node_id] = None
            self._wake.set()

    async def run(self) -> None:
        """Claim what is requested, until cancelled."""
        while True:
            await self._wake.wait()
            await asyncio.sleep(_COLLECT_SECONDS)
            node_ids = self._next()
            if not node_ids:
                await asyncio.sleep(_RETRY_SECONDS)
                continue
            try:
                claimed = await asyncio.to_thread(self._claim, node_ids)
            except StateError as error:
                self._failures.record_failure(error)
                await asyncio.sleep(_RETRY_SECONDS)
                continue
            self._failures.record_success()
            now = time.monotonic()
            self._claimed_at = {
                node_id: at
                for node_id, at in self._claimed_at.items()
                if now - at < _FORGET_SECONDS
            } | dict.fromkeys(node_ids, now)
            for node_id in node_ids:
                self._pending.pop(node_id, None)
            if not self._pending:
                self._wake.clear()
            self._on_claimed(claimed)

    def _next(self) -> list[str]:
        now = time.monotonic()
        due = [
            node_id
            for node_id in self._pending
            if now - self._claimed_at.get(node_id, -_FORGET_SECONDS) > _MIN_INTERVAL_SECONDS
            and self._is_settled(node_id)
        ]
        return due[:_MAX_CLAIMED_TOGETHER]

    def _claim(self, node_ids: Collection[str]) -> Claimed:
        epochs = self._ownership.claim(node_ids)
        # After the claim: from here on no other hub writes anything of these nodes.
        return Claimed(epochs, self._ownership.checkpoints(node_ids), self._recorder.load(node_ids))
