"""Sender of an exporter: a thread that sends buffered requests, and retries with back-off.

Requests of one round have no series in common, so a few are sent at the same time; one round is
sent before the next, because a receiver may refuse samples that are older than the last.
"""

import logging
import random
import threading
import time
from collections.abc import Callable
from math import inf

from fleet_smi.errors import UsageError
from fleet_smi.failure_log import FailureLog
from fleet_smi.hub.metric_export.buffer import DroppedSamples, RequestBuffer, WriteRequest
from fleet_smi.hub.metric_export.receiver import Receiver, Rejected, Unavailable
from fleet_smi.model.units import format_size

logger = logging.getLogger(__name__)
MAX_PARALLEL = 4
_WAIT_SECONDS = 1.0
_MAX_BACKOFF_SECONDS = 30.0
_CLOSE_SECONDS = 2.0
# For so long after it happened a loss is shown among the problems.
_DROPPED_SHOWN_SECONDS = 3600.0


class Sender:
    """Sends what is in a buffer until closed."""

    def __init__(
        self,
        receiver: Receiver,
        buffer: RequestBuffer,
        *,
        name: str = "remote_write",
        clock: Callable[[], float] = time.time,
        backoff_seconds: float = 1.0,
    ) -> None:
        self.samples_sent = self.samples_dropped = 0
        self._name = name
        self._receiver = receiver
        self._buffer = buffer
        self._clock = clock
        self._backoff_seconds = backoff_seconds
        self._failures = 0
        self._last_error: str | None = None
        self._last_dropped: DroppedSamples | None = None
        self._dropped_at = -inf
        self._log = FailureLog(logger, name)
        self._lock = threading.Lock()
        self._closing = threading.Event()
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)
        self._thread.start()

    @property
    def error(self) -> str | None:
        """What is wrong now, or was lost in the last hour; `None` if nothing."""
        last_error, dropped = self._last_error, self._last_dropped
        problems = []
        if last_error is not None:
            problems += [last_error, f"{format_size(self._buffer.size_bytes)} are buffered"]
        if dropped is not None and self._clock() < self._dropped_at + _DROPPED_SHOWN_SECONDS:
            problems.append(
                f"{dropped.samples} samples{_time_range(dropped)} are lost: {dropped.reason}"
            )
        return "; ".join(problems) or None

    def close(self) -> None:
        """Stop; what is not sent stays in the buffer."""
        self._closing.set()
        self._buffer.interrupt()
        # Not for long: a receiver that hangs must not delay the end of the hub.
        self._thread.join(_CLOSE_SECONDS)
        self._receiver.close()

    def _run(self) -> None:
        while not self._closing.is_set():
            batch = self._buffer.next_batch(MAX_PARALLEL, _WAIT_SECONDS)
            for dropped in self._buffer.take_dropped():
                self._record_dropped(dropped)
            if batch:
                self._closing.wait(self._send_all(batch))

    def _send_all(self, batch: list[WriteRequest]) -> float:
        """Send these at the same time; return how long to wait before the next."""
        waits: list[float] = []
        # Threads of their own: those of a pool would be joined when the interpreter exits, however
        # long the receiver hangs. Starting one costs little beside a request.
        threads = [
            threading.Thread(target=self._send, args=(request, waits), daemon=True)
            for request in batch[1:]
        ]
        for thread in threads:
            thread.start()
        self._send(batch[0], waits)
        for thread in threads:
            thread.join()
        if not waits:
            self._failures, self._last_error = 0, None
            self._log.record_success()
            return 0.0
        self._failures += 1
        return max(waits)

    def _send(self, request: WriteRequest, waits: list[float]) -> None:
        try:
            self._receiver.send(request.body)
        except Rejected as error:
            rejected = request.samples if error.samples is None else error.samples
            self._record_dropped(DroppedSamples(rejected, request.at, request.at, str(error)))
            self._add_sent(request.samples - rejected)
        except (Unavailable, UsageError) as error:
            waits.append(self._wait_after(error))
            return
        except Exception as error:
            logger.exception("%s has a bug", self._name)
            reason = f"a bug: {error!r}"
            self._record_dropped(DroppedSamples(request.samples, request.at, request.at, reason))
        else:
            self._add_sent(request.samples)
        self._buffer.done(request)

    def _add_sent(self, samples: int) -> None:
        with self._lock:
            self.samples_sent += max(0, samples)

    def _wait_after(self, error: Exception) -> float:
        self._last_error = str(error)
        self._log.record_failure(error)
        requested = getattr(error, "retry_after_seconds", None)
        # The exponent is bounded: a receiver that is away for weeks must not overflow a float.
        longest = min(_MAX_BACKOFF_SECONDS, self._backoff_seconds * 2.0 ** min(self._failures, 16))
        return requested or longest * random.uniform(0.5, 1.0)  # noqa: S311

    def _record_dropped(self, dropped: DroppedSamples) -> None:
        with self._lock:
            self.samples_dropped += dropped.samples
            before = self._last_dropped
            # Losses that follow each other for the same reason are one.
            if before is not None and before.reason == dropped.reason:
                dropped = DroppedSamples(
                    before.samples + dropped.samples,
                    min(before.start, dropped.start),
                    max(before.end, dropped.end),
                    dropped.reason,
                )
            else:
                logger.error("%s: samples are lost: %s", self._name, dropped.reason)
            self._last_dropped, self._dropped_at = dropped, self._clock()


def _time_range(dropped: DroppedSamples) -> str:
    if not dropped.end:
        return ""
    first, last = (
        time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(at))
        for at in (dropped.start, dropped.end)
    )
    return f" of {first}" if first == last else f" of {first} to {last}"
