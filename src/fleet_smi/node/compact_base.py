"""The base of compact reports: the last snapshot that the hub has acknowledged, and what it allows.

A full report is sent every few minutes nevertheless, and for a while after a compact one was
refused: something else than this agent may change what the hub has of the node.
"""

import random
import time

from fleet_smi.model.snapshot import Snapshot
from fleet_smi.wire.compact import (
    COMPACT_VERSION,
    CompactReport,
    SnapshotParts,
    compact_parts,
    split,
)
from fleet_smi.wire.report import Receipt

FULL_REPORT_SECONDS = 300.0
"""The longest time between two full reports."""


class CompactBase:
    """What the next report of one agent to one hub can build on. Not thread-safe."""

    def __init__(self) -> None:
        self._base: SnapshotParts | None = None
        self._sending: SnapshotParts | None = None
        self._last: CompactReport | None = None
        self._full_due_at = 0.0
        self._paused_until = 0.0

    def compact(self, snapshot: Snapshot) -> CompactReport | None:
        """Return the compact report of a snapshot; `None` where the full one has to be sent."""
        self._sending = None
        if self._base is None or time.monotonic() >= self._full_due_at:
            return None
        self._sending = split(snapshot)
        report = compact_parts(self._base, self._sending, self._last)
        self._last = report or self._last
        return report

    def acknowledge_compact(self) -> None:
        """Build on the snapshot whose compact report was acknowledged."""
        self._base, self._sending = self._sending, None

    def acknowledge_full(self, snapshot: Snapshot | None, receipt: Receipt) -> None:
        """Build on a snapshot that was acknowledged in full, if the hub reads compact reports."""
        now = time.monotonic()
        # At random, so that agents which began together do not send the next one together.
        self._full_due_at = now + FULL_REPORT_SECONDS * (1.0 + random.random()) / 2  # noqa: S311
        self._base = self._last = None
        if (
            snapshot is not None
            and COMPACT_VERSION in receipt.versions
            and now >= self._paused_until
        ):
            self._base = self._sending or split(snapshot)
        self._sending = None

    def forget(self) -> None:
        """Build on nothing: it is not known what the hub has."""
        self._base = self._sending = self._last = None

    def pause(self) -> None:
        """Send full reports for a while: the hub could not use a compact one."""
        self._paused_until = time.monotonic() + FULL_REPORT_SECONDS
        self.forget()
