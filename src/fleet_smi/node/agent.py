"""The agent's main loop: a ticker samples the machine and every outlet publishes the sample."""

import math
import random
import time
from collections.abc import Sequence
from typing import Literal, Protocol

from fleet_smi.model.snapshot import Snapshot
from fleet_smi.node.sampler import Sampler

MAX_INTERVAL_SECONDS = 300.0
"""Upper bound on the interval that a hub requests: an agent that reports less often looks dead."""


class Outlet(Protocol):
    """The node's end of one transport to a hub."""

    name: str

    @property
    def requested_interval_seconds(self) -> float | None:
        """The interval that the other end requests, if it does."""

    def publish(self, snapshot: Snapshot) -> None:
        """Accept one snapshot; returns quickly, whatever the other end does."""

    def deliver(self, snapshot: Snapshot) -> None:
        """Deliver one snapshot before this returns, or raise `FleetError`."""

    def close(self) -> None:
        """Close within a second, even where the other end hangs."""


class Ticker:
    """Points in time at a fixed interval, without drift and without catching up on missed ones."""

    def __init__(self, interval_seconds: float, anchor: float) -> None:
        self.interval_seconds = interval_seconds
        self._anchor = anchor
        self._count = 0

    def next_after(self, now: float) -> float:
        """Return the next point in the future; missed ones are skipped."""
        # `max`: where rounding puts `now` just before the last tick, that tick is not repeated.
        passed = math.floor((now - self._anchor) / self.interval_seconds)
        self._count = max(self._count, passed) + 1
        return self._anchor + self._count * self.interval_seconds


class Agent:
    """Samples this machine at its own interval and publishes each sample to every outlet."""

    def __init__(
        self,
        sampler: Sampler,
        outlets: Sequence[Outlet],
        *,
        interval_seconds: float,
        command_visibility: Literal["full", "script", "name", "hidden"] = "full",
    ) -> None:
        self._sampler = sampler
        self._commands = command_visibility
        self._outlets = outlets
        self._interval_seconds = interval_seconds
        self._publishing = False
        self._stopping = False

    def run(self) -> None:
        """Sample until `stop`, or until an outlet raises because its reader is gone."""
        # A random phase: machines that were switched on together must not report together.
        started = time.monotonic() - random.random() * self._interval_seconds  # noqa: S311
        ticks = Ticker(self._interval_seconds, started)
        while True:
            snapshot = self._sample(ticks.interval_seconds)
            self._publish(snapshot)
            if (interval := self._effective_interval_seconds()) != ticks.interval_seconds:
                ticks = Ticker(interval, time.monotonic())
            time.sleep(max(0.0, ticks.next_after(now := time.monotonic()) - now))

    def stop(self, *_: object) -> None:
        """End the run by `KeyboardInterrupt`, but not in the middle of publishing.

        A signal handler, which may run between any two steps.
        """
        # An interrupt while publishing could tear a line of output, or lose a sample between the
        # buffer and the spool: `_publish` raises it when it is done.
        self._stopping = True
        if not self._publishing:
            raise KeyboardInterrupt

    def run_once(self) -> None:
        """Sample once and deliver it to every outlet."""
        snapshot = self._sample(None)
        for outlet in self._outlets:
            outlet.deliver(snapshot)

    def close(self) -> None:
        """Close the outlets and the sampler."""
        for outlet in self._outlets:
            outlet.close()
        self._sampler.close()

    def _sample(self, interval_seconds: float | None) -> Snapshot:
        snapshot = self._sampler.sample(interval_seconds)
        if self._commands == "full":
            return snapshot
        # Imported by the agents that mask only: every import is memory on every machine.
        from fleet_smi.model.privacy import mask_commands

        return mask_commands(snapshot, self._commands)

    def _publish(self, snapshot: Snapshot) -> None:
        self._publishing = True
        for outlet in self._outlets:
            outlet.publish(snapshot)
        self._publishing = False
        if self._stopping:
            raise KeyboardInterrupt

    def _effective_interval_seconds(self) -> float:
        """The agent's own interval, or a slower one that an outlet requests."""
        requested = [outlet.requested_interval_seconds or 0.0 for outlet in self._outlets]
        return max(self._interval_seconds, min(max(requested), MAX_INTERVAL_SECONDS))
