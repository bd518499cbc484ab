"""Packed reports that wait for each other: they are applied and acknowledged together.

One that comes alone is handled at once. Where many agents report, each waits for a few hundredths
of a second, and all that came meanwhile cost little more than one.
"""

import asyncio
from collections.abc import Callable, Sequence
from typing import NamedTuple, Protocol

from fleet_smi.server.http_error import HttpError
from fleet_smi.server.report_checks import ReportSender
from fleet_smi.server.report_response import ReportResponse

WAIT_SECONDS = 0.03
"""The least time between two batches."""
MAX_WAITING_BYTES = 1 << 15
"""A larger report does not wait: few nodes have as many GPUs and processes as that."""
# A batch of more would keep the event loop from all others for too long.
_MAX_REPORTS = 256


class WaitingConnection(Protocol):
    """The connection that a report came by."""

    def respond(self, response: ReportResponse | HttpError) -> None:
        """Write the response to the report."""

    def acknowledge(self, receipt: bytes, now: float) -> None:
        """Write a response that is encoded already; `now` is the time of the event loop."""


class WaitingReport(NamedTuple):
    """An admitted report, and the connection that it came by."""

    body: bytes
    sender: ReportSender
    connection: WaitingConnection


class ReportBatches:
    """Collects packed reports, each of another node, and passes them to `handle` together."""

    def __init__(self, handle: Callable[[Sequence[WaitingReport]], None]) -> None:
        self._handle = handle
        self._waiting: list[WaitingReport] = []
        self._nodes: set[str] = set()
        self._timer: asyncio.Handle | None = None
        self._handled_at = 0.0

    def add(self, body: bytes, sender: ReportSender, connection: WaitingConnection) -> None:
        """Add a report of a node that is known by its credential."""
        node_id = sender.identity.node_id or ""
        if node_id in self._nodes:
            self.flush()
        self._nodes.add(node_id)
        self._waiting.append(WaitingReport(body, sender, connection))
        if len(self._waiting) >= _MAX_REPORTS:
            self.flush()
        elif self._timer is None:
            loop = asyncio.get_running_loop()
            delay = self._handled_at + WAIT_SECONDS - loop.time()
            if delay > 0.0:
                self._timer = loop.call_later(delay, self.flush)
            else:
                self._timer = loop.call_soon(self.flush)

    def flush(self) -> None:
        """Handle all that wait now."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        waiting, self._waiting = self._waiting, []
        self._nodes.clear()
        if waiting:
            self._handled_at = asyncio.get_running_loop().time()
            self._handle(waiting)
