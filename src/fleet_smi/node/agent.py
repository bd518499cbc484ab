"""The spine of the agent: ticks -> sampler -> snapshot -> outlets. Read this first."""

import math
import random
import time
from collections.abc import Sequence
from typing import Literal, Protocol

from fleet_smi.model.snapshot import Snapshot
from fleet_smi.node.sampler import Sampler

MAX_INTERVAL_SECONDS = 300.0
"""However slow a hub asks for: an agent that is heard of less often would look dead."""


class Outlet(Protocol):
    """The node's end of one way to a hub."""

    name: str

    @property
    def requested_interval_seconds(self) -> float | None:
        """How often the other end wants to hear, if it has said so."""

    def publish(self, snapshot: Snapshot) -> None:
        """Take one snapshot in; quick, whatever the other end does."""

    def deliver(self, snapshot: Snapshot) -> None:
        """Bring one snapshot to the other end before this returns, or raise `FleetError`."""

    def close(self) -> None:
        """Let go within a second, even where the other end hangs."""


class Ticker:
    """Points in time at a fixed distance: never later by summing up, never two for one missed."""

    def __init__(self, interval_seconds: float, anchor: float) -> None:
        self.interval_seconds = interval_seconds
        self._anchor = anchor
        self._count = 0

    def next_after(self, now: float) -> float:
        """The next point, which is in the future; those that were missed are gone."""
        passed = math.floor((now - self._anchor) / self.interval_seconds)
        self._count = max(self._count, passed) + 1
        return self._anchor + self._count * self.interval_seconds


class Agent:
    """Samples this machine on ticks of its own, and offers each sample to every outlet."""

    def __init__(
        self,
        sampler: Sampler,
        outlets: Sequence[Outlet],
        *,
        interval_seconds: float,
        command_visibility: Literal["full", "name", "hidden"] = "full",
    ) -> None:
        self._sampler = sampler
        self._commands = command_visibility
        self._outlets = outlets
        self._interval_seconds = interval_seconds
        self._offering = False
        self._stopping = False

    def run(self) -> None:
        """Sample until `stop`, or until an outlet raises because its reader is gone."""
        # Machines that were switched on together must not all report at the same moment.
        started = time.monotonic() - random.random() * self._interval_seconds  # noqa: S311
        ticks = Ticker(self._interval_seconds, started)
        while True:
            snapshot = self._take(ticks.interval_seconds)
            self._offer(snapshot)
            if (wanted := self._wanted_interval_seconds()) != ticks.interval_seconds:
                ticks = Ticker(wanted, time.monotonic())
            time.sleep(max(0.0, ticks.next_after(now := time.monotonic()) - now))

    def stop(self, *_: object) -> None:
        """End by `KeyboardInterrupt`: at once, but not in the middle of an offer.

        For a signal's handler, which may come between any two steps.
        """
        self._stopping = True
        if not self._offering:
            raise KeyboardInterrupt

    def run_once(self) -> None:
        """Sample once and bring it to every outlet."""
        snapshot = self._take(None)
        for outlet in self._outlets:
            outlet.deliver(snapshot)

    def close(self) -> None:
        """Let go of the outlets and of the machine."""
        for outlet in self._outlets:
            outlet.close()
        self._sampler.close()

    def _take(self, interval_seconds: float | None) -> Snapshot:
        snapshot = self._sampler.sample(interval_seconds)
        if self._commands == "full":
            return snapshot
        from fleet_smi.model.privacy import mask_commands

        return mask_commands(snapshot, self._commands)

    def _offer(self, snapshot: Snapshot) -> None:
        self._offering = True
        for outlet in self._outlets:
            outlet.publish(snapshot)
        self._offering = False
        if self._stopping:
            raise KeyboardInterrupt

    def _wanted_interval_seconds(self) -> float:
        """The agent's own interval, or a slower one that somebody asks for."""
        asked = [outlet.requested_interval_seconds or 0.0 for outlet in self._outlets]
        return max(self._interval_seconds, min(max(asked), MAX_INTERVAL_SECONDS))
