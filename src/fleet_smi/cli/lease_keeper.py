"""Keeping leases while a job or a holder runs, and what is said to people meanwhile."""

import sys
import time
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

    from fleet_smi.node.bindings.lease_locks import LeaseLock
    from fleet_smi.node.leasing import Details


class LeaseKeeper:
    """Keeps leases while a job runs. A lost lease is taken again; the job runs on either way."""

    def __init__(
        self, folder: int, locks: "Iterable[LeaseLock]", details: "Details", until: float | None
    ) -> None:
        self._folder = folder
        self._locks = {lock.uuid: lock for lock in locks}
        self._lost: set[str] = set()
        self._details = details
        # By a clock that cannot be set.
        self._over_at = None if until is None else time.monotonic() + until - time.time()
        self._warned: set[str] = set()

    def check(self) -> None:
        """Take lost leases again, and warn once when the declared time is over."""
        from fleet_smi.errors import StateError
        from fleet_smi.node.bindings.lease_locks import try_take

        for uuid, lock in list(self._locks.items()):
            if not lock.is_intact:
                lock.release()
                del self._locks[uuid]
                self._lost.add(uuid)
        for uuid in sorted(self._lost):
            try:
                again = try_take(self._folder, uuid, self._details)
            except StateError:
                again = None
            if again is None:
                self._warn(f"the lease of {uuid} is lost: the job runs on without lease")
            else:
                self._locks[uuid] = again
                self._lost.discard(uuid)
        if self._over_at is not None and time.monotonic() > self._over_at:
            self._warn("the declared --max-hours are over: the job runs on")

    def release(self) -> None:
        """Give everything back."""
        for lock in self._locks.values():
            lock.release()
        self._locks.clear()

    def _warn(self, text: str) -> None:
        if text not in self._warned:
            self._warned.add(text)
            say(text)


class WaitMessages:
    """Says on stderr what is waited for, whenever that changes."""

    def __init__(self, count: int) -> None:
        self._what = "a GPU" if count == 1 else f"{count} GPUs"
        self._last = ""

    def __call__(self, reason: str) -> None:
        if reason != self._last:
            self._last = reason
            say(f"waiting for {self._what}: {reason}")


def say(text: str) -> None:
    """Print one line for people on stderr."""
    print(f"fleet-smi: {' '.join(text.split())}", file=sys.stderr, flush=True)
