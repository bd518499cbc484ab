"""What a `Reader` and its workers exchange: requests, results, progress, deadlines."""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, Protocol

from fleet_smi.errors import (
    CollectError,
    DriverMismatch,
    NotAnswering,
    NotPresent,
    ReadFailed,
    StillReading,
)
from fleet_smi.node.reader_worker import RawResults, ReadRequest

COLLECT_ERRORS: dict[str, type[CollectError]] = {
    kind.__name__: kind
    for kind in (NotPresent, ReadFailed, DriverMismatch, NotAnswering, StillReading)
}
"""Every error that a reading can end with, by the name that pipes and capture files have."""


class Deadlines(NamedTuple):
    """How long a worker may make no progress before its subject counts as hung.

    `initialisation` is for a driver that is being initialised, which takes 30 s and more on a
    machine with many GPUs and without persistence mode.
    """

    call: float = 10.0
    initialisation: float = 60.0


class ReadTimeouts(NamedTuple):
    """How long a read waits for a worker without progress, and in all; `None` is without limit.

    The deadline of a subject ends a wait in any case.
    """

    progress_seconds: float | None = None
    total_seconds: float | None = None


class ReadResult(NamedTuple):
    """The value that a binding returned, or its error, and the seconds that it took."""

    value: Any
    error: CollectError | None
    seconds: float


class SlowRead(NamedTuple):
    """A worker that is still at work on a subject, and since when, by the clock of the machine.

    `progress_at`, its last sign of progress, is by the monotonic clock.
    """

    worker: "ReaderWorker"
    requests: list[ReadRequest]
    since: float
    progress_at: float


class SubjectBackoff(NamedTuple):
    """A subject that hung: since when, and the worker in it that could not be killed."""

    since: float
    stuck_worker: "ReaderWorker | None"


class ReaderWorker(Protocol):
    """Runs bindings for a `Reader`; it may be slow, hang or die."""

    def send(self, requests: Sequence[ReadRequest]) -> None:
        """Send requests, without waiting."""

    def receive(self, deadline: float) -> RawResults:
        """Return the next results; raise `TimeoutError` at the deadline, `EOFError` if it ended.

        After a `TimeoutError` the same results can be waited for again.
        """

    def read_progress(self) -> list[tuple[str, Any]]:
        """Return the progress messages since the last call."""

    def has_exited(self) -> bool:
        """Whether it is gone, so that its subject can be read again."""

    def detach(self) -> None:
        """Release it; it exits by itself when it has no other user."""

    def terminate(self) -> bool:
        """Stop it as far as possible; return whether it is gone."""


class SubjectReader(Protocol):
    """Reads subjects for a sampler: a `Reader`, or one that replays a capture."""

    def prefetch(self, requests: Sequence[ReadRequest]) -> None:
        """Send requests without waiting; `read` with the same requests takes their results."""

    def read(self, requests: Sequence[ReadRequest], timeouts: ReadTimeouts) -> list[ReadResult]:
        """Return one result per request."""

    def detach(self) -> None:
        """Release workers that belong to another process."""

    def close(self) -> None:
        """Stop the workers."""


WaitListener = Callable[[str | None, float], None]
"""Receives what is waited for and the seconds so far; `None` when the waiting is over."""
