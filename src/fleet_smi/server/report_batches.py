"""Packed reports that wait for each other: they are applied and acknowledged together.

One that comes alone is handled at once. Where many agents report, each waits for a few hundredths
of a second, and all that came meanwhile cost little more than one.
"""

import asyncio
from collections.abc import Callable, Sequence
from typing import Protocol

from fleet_smi.server.backpressure import Backpressure
from fleet_smi.server.http_error import HttpError
from fleet_smi.server.report_checks import ReportSender
from fleet_smi.server.report_response import ReportResponse
from fleet_smi.wire.packed import is_packed

WAIT_SECONDS = 0.03
"""The least time between two batches. Less than 40 ms: after that, Linux acknowledges a report by a
packet of its own, instead of with the response."""
MAX_WAITING_BYTES = 1 << 15
"""A larger report does not wait: few nodes have as many GPUs and processes as that."""
# A batch of more would keep the event loop from all others for too long.
_MAX_REPORTS = 256
# How many are added before the time slice of reports is looked at again.
_PER_CHECK = 32


def may_wait(body: bytes, sender: ReportSender) -> bool:
    """Return whether a report may wait for others: a packed one of a known node, not too large."""
    is_known = sender.identity.node_id is not None
    return is_known and is_packed(body) and len(body) <= MAX_WAITING_BYTES


class WaitingReport(Protocol):
    """A report that waits, which is the connection that it came by.

    Its `sender` is known by its credential, and by that the `node_id`. `charged` is whether its
    budget was, for this report.
    """

    body: bytes
    sender: ReportSender
    node_id: str
    charged: bool

    def respond(self, response: ReportResponse | HttpError) -> None:
        """Write the response to the report."""

    def acknowledge(self, receipt: bytes, now: float) -> None:
        """Write a response that is encoded already; `now` is the time of the event loop."""


class ReportBatches:
    """Collects packed reports, and passes them to `handle` together."""

    def __init__(
        self, handle: Callable[[Sequence[WaitingReport]], None], backpressure: Backpressure
    ) -> None:
        self._handle = handle
        self._backpressure = backpressure
        self._waiting: list[WaitingReport] = []
        self._timer: asyncio.Handle | None = None
        self._handled_at = 0.0

    def try_add(self, report: WaitingReport) -> bool:
        """Add a report, unless it has to be deferred: return whether it was added."""
        backpressure = self._backpressure
        # To add one is next to no work: what is limited is that of the batches.
        is_checked = not len(self._waiting) % _PER_CHECK
        if backpressure.is_queueing or (is_checked and not backpressure.has_capacity()):
            return False
        self.add(report)
        return True

    def add(self, report: WaitingReport) -> None:
        """Add a report, and handle it with all others that come within a moment."""
        self._waiting.append(report)
        if self._timer is None:
            loop = asyncio.get_running_loop()
            delay = self._handled_at + WAIT_SECONDS - loop.time()
            if delay > 0.0:
                self._timer = loop.call_later(delay, self.flush)
            else:
                self._timer = loop.call_soon(self.flush)
        elif len(self._waiting) >= _MAX_REPORTS:
            self.flush()

    def flush(self) -> None:
        """Handle all that wait now."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        waiting, self._waiting = self._waiting, []
        if waiting:
            self._handled_at = asyncio.get_running_loop().time()
            self._handle(waiting)
