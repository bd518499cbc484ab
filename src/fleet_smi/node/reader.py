"""Reader: reads the machine through a worker, with deadlines, against slow and hung drivers.

A driver call that never returns sits in the kernel and cannot be interrupted; the process that
made it cannot exit. So all reading is done by a worker. A sample waits for it only so long; a
worker that needs longer is left at work, its subject is slow, and the other subjects are read by
a new worker. Once it answers, it is the reader's worker again, with all that it has initialised.
One that makes no progress until the deadline of its subject is hung; after a while it is killed
and replaced. One that cannot even be killed is left alone, and its subject is not read again
while it lives.

All subjects of a sample are one request and one response: a sample costs one exchange, however
many subjects it has. Meanwhile the worker reports its progress: which subject it has started,
what it waits for, which devices it has found. So a slow driver is distinguished from a hung one,
the culprit is known, and the GPUs behind a hung driver are still listed by name. A worker is a
child process (`reader_process.py`) or, at first in an agent, a thread (`thread_reader.py`).
"""

import time
from collections.abc import Callable, Sequence
from math import inf
from typing import Any

from fleet_smi.errors import (
    DriverMismatch,
    NotAnswering,
    ReadFailed,
    StillReading,
)
from fleet_smi.node.reader_types import (
    COLLECT_ERRORS,
    Deadlines,
    ReaderWorker,
    ReadResult,
    ReadTimeouts,
    SlowRead,
    SubjectBackoff,
    WaitListener,
)
from fleet_smi.node.reader_worker import RawResults, ReadRequest

__all__ = ["Deadlines", "ReadResult", "Reader", "ReaderWorker"]

_RETRY_SECONDS = 30.0
"""How long a hung subject is not read again, after its deadline."""

_MAX_SLOW_SECONDS = 30.0
"""How long a sample waits for a worker that makes progress."""

_SLICE_SECONDS = 0.5
_POLL_SECONDS = 0.005
_NOTIFY_AFTER_SECONDS = 1.0


class Reader:
    """Reads subjects within deadlines, through as many workers as that takes."""

    def __init__(
        self, start_worker: Callable[[], ReaderWorker], deadlines: Deadlines | None = None
    ) -> None:
        self.deadlines = deadlines or Deadlines()
        self.on_wait: WaitListener | None = None
        self._start = start_worker
        self._worker: ReaderWorker | None = None
        self._prefetched: list[ReadRequest] = []
        self._slow: dict[str, SlowRead] = {}
        self._backoff: dict[str, SubjectBackoff] = {}
        self._current_subject = ""
        self._progress_at = 0.0
        self._partial_results: dict[str, dict[Any, Any]] = {}

    def preload(self, subject: str) -> None:
        """Load a binding in the worker now: for NVML that is most of the first sample's time."""
        self._send([(subject, None)])

    def prefetch(self, requests: Sequence[ReadRequest]) -> None:
        """Send requests without waiting; `read` with the same requests takes their results."""
        self._prefetched = [request for request in requests if not self._is_held_back(request[0])]
        self._send(self._prefetched)

    def read(self, requests: Sequence[ReadRequest], timeouts: ReadTimeouts) -> list[ReadResult]:
        """Return one result per request; a subject that is slow or hung does not stop the rest."""
        timeout_seconds, total_seconds = timeouts
        results = self._late_results(requests) if self._slow else {}
        left = [
            request
            for request in requests
            if request[0] not in results and not self._is_held_back(request[0])
        ]
        if self._prefetched and self._prefetched != left:
            self._stop_current()  # prefetched for other requests: those results are useless
        until = inf if total_seconds is None else time.monotonic() + total_seconds
        while left and (seconds_left := until - time.monotonic()) > 0:
            seconds = None if timeout_seconds is None else min(timeout_seconds, seconds_left)
            results |= self._exchange(left, seconds)
            left = [request for request in left if request[0] not in results]
            # The rest is read by a new worker, which has to start: on a busy machine that takes
            # a while. A subject that is slow delays only this one read.
            until = max(until, time.monotonic() + (timeout_seconds or 0.0))
        return [results.get(subject) or self._skipped(subject) for subject, _ in requests]

    def close(self) -> None:
        """Stop the workers, as far as they can be stopped."""
        self._stop_current()
        for slow in self._slow.values():
            slow.worker.terminate()
        self._slow.clear()

    def detach(self) -> None:
        """Release workers that belong to another process: in a fork of its parent."""
        workers = [slow.worker for slow in self._slow.values()]
        if self._worker is not None:
            workers.append(self._worker)
        self._worker, self._prefetched = None, []
        self._slow.clear()
        for worker in workers:
            worker.detach()

    def _exchange(
        self, requests: list[ReadRequest], seconds: float | None
    ) -> dict[str, ReadResult]:
        """Return the results of all requests, or the failure of the one that the worker is in."""
        since, worker = time.time(), self._worker
        if not self._prefetched or worker is None:
            worker = self._send(requests)
        self._prefetched = []
        try:
            raw = self._wait(worker, requests, seconds)
        except TimeoutError:
            culprit, self._worker = self._culprit(requests), None
            before = self._backoff.get(culprit)
            self._slow[culprit] = SlowRead(
                worker, requests, since if before is None else before.since, self._progress_at
            )
            return {culprit: self._unanswered(culprit)}
        except EOFError:
            # A crash is over, unlike a hang: no backoff, the next read starts a new worker.
            self._stop_current()
            error = ReadFailed("the reader process died")
            return {self._culprit(requests): ReadResult(None, error, 0.0)}
        return self._accept(requests, raw)

    def _accept(self, requests: list[ReadRequest], raw: RawResults) -> dict[str, ReadResult]:
        """Return what the worker answered; these subjects are sound again."""
        pairs = zip(requests, raw, strict=True)
        results = {subject: _to_result(*result) for (subject, _), result in pairs}
        for subject in results:
            self._backoff.pop(subject, None)
        if any(isinstance(result.error, DriverMismatch) for result in results.values()):
            self._stop_current()  # a new worker loads the new library
        return results

    def _wait(
        self, worker: ReaderWorker, requests: list[ReadRequest], seconds: float | None
    ) -> RawResults:
        """Wait for results while the worker makes progress: slow is not hung."""
        started = self._progress_at = time.monotonic()
        notified = False
        try:
            while True:
                patience = self._deadline(self._culprit(requests))
                if seconds is not None:
                    patience = min(seconds, patience)
                try:
                    # In slices, so that the progress pipe is emptied before it is full: a message
                    # that does not fit is dropped, and a slow worker would count as hung.
                    pause = min(patience / 6, _SLICE_SECONDS)
                    raw = worker.receive(
                        min(self._progress_at + patience, time.monotonic() + pause)
                    )
                except TimeoutError:
                    now = time.monotonic()
                    # A sample does not wait for ever, not even for one that makes progress.
                    patient = seconds is None or now - started < _MAX_SLOW_SECONDS
                    if self._process_progress(worker) and patient:
                        self._progress_at = now
                    elif now >= self._progress_at + patience:
                        raise
                    notified = self._notify(self._culprit(requests), now - started) or notified
                except EOFError:
                    self._process_progress(worker)
                    raise
                else:
                    self._process_progress(worker)
                    return raw
        finally:
            if notified and self.on_wait is not None:
                self.on_wait(None, time.monotonic() - started)

    def _notify(self, subject: str, seconds: float) -> bool:
        """Notify the listener of a long wait for a subject; return whether it was notified."""
        if self.on_wait is None or seconds < _NOTIFY_AFTER_SECONDS:
            return False
        self.on_wait(self._partial_results.get(subject, {}).get("step") or subject, seconds)
        return True

    def _culprit(self, requests: list[ReadRequest]) -> str:
        """Return the subject that the worker is in; the first one until it reports another."""
        subjects = [subject for subject, _ in requests]
        return self._current_subject if self._current_subject in subjects else subjects[0]

    def _deadline(self, subject: str) -> float:
        initialising = self._partial_results.get(subject, {}).get("initialising")
        return self.deadlines.initialisation if initialising else self.deadlines.call

    def _process_progress(self, worker: ReaderWorker) -> bool:
        """Process progress messages; return whether there were any."""
        messages = worker.read_progress()
        for subject, partial_result in messages:
            self._current_subject = subject
            if partial_result is not None:
                self._partial_results.setdefault(subject, {}).update(partial_result)
        return bool(messages)

    def _late_results(self, requests: Sequence[ReadRequest]) -> dict[str, ReadResult]:
        """Return what slow workers have answered meanwhile; give up those past their deadline."""
        results: dict[str, ReadResult] = {}
        requested = {subject for subject, _ in requests}
        # Only those that are read now: another read in the same sample must not use them up.
        due = [(subject, slow) for subject, slow in self._slow.items() if subject in requested]
        for subject, slow in due:
            current, self._current_subject = self._current_subject, subject
            if self._process_progress(slow.worker):
                slow = slow._replace(progress_at=time.monotonic())  # noqa: PLW2901
                self._slow[subject] = slow
            self._current_subject = current
            try:
                raw = slow.worker.receive(time.monotonic() + _POLL_SECONDS)
            except TimeoutError:
                self._give_up_hung(subject, slow)
            except EOFError:
                del self._slow[subject]
                slow.worker.terminate()
            else:
                # With all that it has initialised it is worth more than its substitute.
                del self._slow[subject]
                self._stop_current()
                self._worker = slow.worker
                late = self._accept(slow.requests, raw)
                sent = dict(slow.requests)
                results |= {
                    name: late[name] for name, arguments in requests if sent.get(name) == arguments
                }
        return results

    def _give_up_hung(self, subject: str, slow: SlowRead) -> None:
        """Kill a worker some time after its deadline: until then it may still answer."""
        deadline = self._deadline(subject)
        hung_for = time.monotonic() - slow.progress_at - deadline
        if hung_for < max(_RETRY_SECONDS, deadline):
            return
        del self._slow[subject]
        stuck = None if slow.worker.terminate() else slow.worker
        self._backoff[subject] = SubjectBackoff(slow.since, stuck)

    def _unanswered(self, subject: str) -> ReadResult:
        """Return the failure of a subject whose worker is still at work on it."""
        slow = self._slow[subject]
        waited, deadline = time.monotonic() - slow.progress_at, self._deadline(subject)
        seconds, found = time.time() - slow.since, self._partial_results.get(subject)
        if waited >= deadline or subject in self._backoff:
            message = f"no answer within {deadline:.2g} s"
            return ReadResult(None, NotAnswering(message, slow.since, found), seconds)
        message = f"{seconds:.0f} s so far"
        return ReadResult(None, StillReading(message, slow.since, found), seconds)

    def _skipped(self, subject: str) -> ReadResult:
        if subject in self._slow:
            return self._unanswered(subject)
        backoff = self._backoff.get(subject)
        message = "no time was left to read it" if backoff is None else "still no answer"
        since = time.time() if backoff is None else backoff.since
        found = self._partial_results.get(subject)
        return ReadResult(None, NotAnswering(message, since, found), 0.0)

    def _is_held_back(self, subject: str) -> bool:
        """Whether a worker is in this subject: a second one would only get stuck beside it."""
        if subject in self._slow:
            return True
        backoff = self._backoff.get(subject)
        stuck = None if backoff is None else backoff.stuck_worker
        return stuck is not None and not stuck.has_exited()

    def _send(self, requests: list[ReadRequest]) -> ReaderWorker:
        if self._worker is None:
            self._worker = self._start()
        self._worker.send(requests)
        return self._worker

    def _stop_current(self) -> None:
        """Stop the worker that is not known to be slow."""
        worker, self._worker, self._prefetched = self._worker, None, []
        if worker is not None:
            worker.terminate()


def _to_result(outcome: str, value: Any, seconds: float) -> ReadResult:
    if outcome == "ok":
        return ReadResult(value, None, seconds)
    return ReadResult(None, COLLECT_ERRORS[outcome](value), seconds)
