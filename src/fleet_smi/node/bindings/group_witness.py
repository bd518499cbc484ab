"""A witness in the process group of a job: which signals were sent to the whole group.

The kernel does not say whether a signal was meant for one process or for its group. A child that
does nothing tells them apart: what it receives too, the job has received already.
"""

import mmap
import os
import signal
import time
from collections.abc import Collection
from contextlib import suppress
from typing import NoReturn

_MAX_SIGNAL = 64
_PARENT_CHECK_SECONDS = 5.0
# The kernel signals a group process by process: this one may be woken before the witness.
_PATIENCE_SECONDS, _LOOK_SECONDS = 0.05, 0.001


class GroupWitness:
    """A child in the group of this process, from its creation to `close`.

    `signals` must be blocked by the caller, and are blocked in the child too.
    """

    def __init__(self, signals: Collection[signal.Signals]) -> None:
        self._signals = signals
        self._counts = mmap.mmap(-1, _MAX_SIGNAL + 1)  # shared with the child
        self._seen = bytearray(_MAX_SIGNAL + 1)
        parent = os.getpid()
        self._pid = os.fork()
        if self._pid == 0:
            self._watch(parent)

    def has_received(self, number: int) -> bool:
        """Whether a signal that has just arrived here has arrived at the witness too."""
        deadline = time.monotonic() + _PATIENCE_SECONDS
        while self._counts[number] == self._seen[number]:
            if time.monotonic() > deadline:
                return False
            if self._is_pending(number):
                # It has arrived; only the machine is too busy to let the witness count it.
                deadline = time.monotonic() + _PATIENCE_SECONDS
            time.sleep(_LOOK_SECONDS)
        self._seen[number] = self._counts[number]
        return True

    def _is_pending(self, number: int) -> bool:
        """Whether the witness has the signal and has not run since."""
        try:
            with open(f"/proc/{self._pid}/status", "rb") as status:
                pending = next(line for line in status if line.startswith(b"ShdPnd:"))
        except (OSError, StopIteration):
            return False
        return bool(int(pending.split()[1], 16) >> (number - 1) & 1)

    def close(self) -> None:
        """End the witness."""
        os.kill(self._pid, signal.SIGKILL)
        os.waitpid(self._pid, 0)
        self._counts.close()

    def _watch(self, parent: int) -> NoReturn:
        try:
            # Nothing of the parent's may stay open: leases, pipes of the job, its terminal.
            for name in os.listdir("/proc/self/fd"):
                with suppress(OSError):
                    os.close(int(name))
            while os.getppid() == parent:
                received = signal.sigtimedwait(self._signals, _PARENT_CHECK_SECONDS)
                if received is not None:
                    number = received.si_signo
                    self._counts[number] = (self._counts[number] + 1) % 256
        finally:
            os._exit(0)
