"""Reader: reads the machine through a worker, with timeouts, against hung drivers.

A driver call that never returns sits in the kernel and cannot be interrupted; the process that
made it cannot exit. So all reading is done by a worker, with a deadline. One that misses it is
killed. One that cannot even be killed is left alone, and its subject is not read again while it
lives; the other subjects are read by a new worker.

All subjects of a sample are one request and one response: a sample costs one exchange, however
many subjects it has. Meanwhile the worker reports its progress: which subject it has started,
which devices it has found. So a slow driver is distinguished from a hung one, the culprit is
known, and the GPUs behind a hung driver are still listed by name. A worker is a child process
(`reader_process.py`) or, at first in an agent, a thread (`thread_reader.py`).
"""

import time
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, Protocol

from fleet_smi.errors import CollectError, DriverMismatch, NotAnswering, NotPresent, ReadFailed
from fleet_smi.node.reader_worker import RawResults, ReadRequest

_ERRORS: dict[str, type[CollectError]] = {
    kind.__name__: kind for kind in (NotPresent, ReadFailed, DriverMismatch, NotAnswering)
}

_RETRY_SECONDS = 30.0
"""How long a subject that hung is not read again."""

_MAX_SLOW_SECONDS = 30.0
"""How long a worker that makes progress may take in all, beyond any other timeout."""


class ReadResult(NamedTuple):
    """The value that a binding returned, or its error, and the seconds that it took."""

    value: Any
    error: CollectError | None
    seconds: float


class SubjectBackoff(NamedTuple):
    """A subject that hung: since when, when to retry, and the worker that is stuck in it."""

    since: float
    retry_at: float
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


class Reader:
    """Reads subjects within timeouts, through as many workers as that takes."""

    def __init__(self, start_worker: Callable[[], ReaderWorker]) -> None:
        self._start = start_worker
        self._worker: ReaderWorker | None = None
        self._prefetched: list[ReadRequest] = []
        self._backoff: dict[str, SubjectBackoff] = {}
        self._current_subject = ""
        self._partial_results: dict[str, dict[Any, Any]] = {}

    def preload(self, subject: str) -> None:
        """Load a binding in the worker now: for NVML that is most of the first sample's time."""
        self._send([(subject, None)])

    def prefetch(self, requests: Sequence[ReadRequest]) -> None:
        """Send requests without waiting; `read` with the same requests takes their results."""
        self._prefetched = [request for request in requests if not self._is_backing_off(request[0])]
        self._send(self._prefetched)

    def read(
        self, requests: Sequence[ReadRequest], timeout_seconds: float, total_timeout_seconds: float
    ) -> list[ReadResult]:
        """Return one result per request, in their order; subjects that hang have an error.

        A subject hangs if it makes no progress for `timeout_seconds`, or for less after another
        hang. After `total_timeout_seconds` no further subject is started. Slow progress is
        awaited beyond both, for up to half a minute.
        """
        results: dict[str, ReadResult] = {}
        left = [request for request in requests if not self._is_backing_off(request[0])]
        if self._prefetched and self._prefetched != left:
            self.close()  # prefetched for other requests: those results are useless
        until = time.monotonic() + total_timeout_seconds
        timeout_left = timeout_seconds
        while left and (seconds := min(timeout_left, until - time.monotonic())) > 0:
            results |= self._exchange(left, seconds)
            left = [request for request in left if request[0] not in results]
            # Less time for each further hang, so that several fit into one sample.
            timeout_left = max(timeout_left / 3, 0.1)
        return [results.get(subject) or self._skipped(subject) for subject, _ in requests]

    def close(self) -> None:
        """Stop the worker, if it can be stopped."""
        self._prefetched = []
        self._stop_worker()

    def detach(self) -> None:
        """Release a worker that belongs to another process: in a fork of its parent."""
        worker, self._worker = self._worker, None
        self._prefetched = []
        if worker is not None:
            worker.detach()

    def _exchange(self, requests: list[ReadRequest], seconds: float) -> dict[str, ReadResult]:
        """Return the results of all requests, or the failure of the one that stopped the worker."""
        since, worker = time.time(), self._worker
        if not self._prefetched or worker is None:
            worker = self._send(requests)
        self._prefetched = []
        try:
            raw = self._wait(worker, seconds)
        except (TimeoutError, EOFError) as stop:
            subjects = [subject for subject, _ in requests]
            # Without any progress message the first subject is the one that it is in.
            culprit = self._current_subject if self._current_subject in subjects else subjects[0]
            return {culprit: self._failed(culprit, stop, since, seconds)}
        pairs = zip(requests, raw, strict=True)
        results = {subject: _to_result(*result) for (subject, _), result in pairs}
        for subject in results:
            self._backoff.pop(subject, None)
        if any(isinstance(result.error, DriverMismatch) for result in results.values()):
            self.close()  # a new worker loads the new library
        return results

    def _wait(self, worker: ReaderWorker, seconds: float) -> RawResults:
        """Wait for results while the worker makes progress within the timeout: slow is not hung."""
        now = time.monotonic()
        deadline, last_deadline = now + seconds, now + _MAX_SLOW_SECONDS
        while True:
            try:
                # In slices, so that the progress pipe is emptied before it is full: a message that
                # does not fit is dropped, and a slow worker would count as hung.
                raw = worker.receive(min(deadline, time.monotonic() + seconds / 6))
            except TimeoutError:
                now = time.monotonic()
                # Each sign of progress extends the deadline, up to the last one.
                if self._process_progress(worker) and now < last_deadline:
                    deadline = now + seconds
                elif now >= deadline:
                    raise
            except EOFError:
                self._process_progress(worker)
                raise
            else:
                self._process_progress(worker)
                return raw

    def _process_progress(self, worker: ReaderWorker) -> bool:
        """Process progress messages; return whether there were any."""
        messages = worker.read_progress()
        for subject, partial_result in messages:
            self._current_subject = subject
            if partial_result is not None:
                self._partial_results.setdefault(subject, {}).update(partial_result)
        return bool(messages)

    def _failed(self, subject: str, stop: Exception, since: float, seconds: float) -> ReadResult:
        stuck = self._stop_worker()
        # A crash is over, unlike a hang: no backoff, the next read starts a new worker.
        if isinstance(stop, EOFError):
            return ReadResult(None, ReadFailed("the reader process died"), 0.0)
        before = self._backoff.get(subject)
        retry_at = time.monotonic() + _RETRY_SECONDS
        self._backoff[subject] = SubjectBackoff(before.since if before else since, retry_at, stuck)
        return self._not_answering(subject, f"no answer within {seconds:.2g} s", seconds)

    def _skipped(self, subject: str) -> ReadResult:
        hung = subject in self._backoff
        return self._not_answering(
            subject, "still no answer" if hung else "no time was left to read it", 0.0
        )

    def _not_answering(self, subject: str, message: str, seconds: float) -> ReadResult:
        backoff = self._backoff.get(subject)
        since = time.time() if backoff is None else backoff.since
        return ReadResult(
            None, NotAnswering(message, since, self._partial_results.get(subject)), seconds
        )

    def _is_backing_off(self, subject: str) -> bool:
        backoff = self._backoff.get(subject)
        if backoff is None:
            return False
        # While a worker is stuck in the driver, a second one would only get stuck beside it.
        return time.monotonic() < backoff.retry_at or not (
            backoff.stuck_worker is None or backoff.stuck_worker.has_exited()
        )

    def _send(self, requests: list[ReadRequest]) -> ReaderWorker:
        if self._worker is None:
            self._worker = self._start()
        self._worker.send(requests)
        return self._worker

    def _stop_worker(self) -> ReaderWorker | None:
        """Stop the worker; return it if it cannot be killed."""
        worker, self._worker = self._worker, None
        return worker if worker is not None and not worker.terminate() else None


def _to_result(outcome: str, value: Any, seconds: float) -> ReadResult:
    if outcome == "ok":
        return ReadResult(value, None, seconds)
    return ReadResult(None, _ERRORS[outcome](value), seconds)
