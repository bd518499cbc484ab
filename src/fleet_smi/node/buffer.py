"""Report buffer of an agent: samples that are not durable in the hub, in memory or in the spool.

Samples are sent in order. A sent sample is held until the hub's receipt says that it is durable,
and is sent again when the hub may have lost it (at-least-once delivery; duplicates are harmless).
While the hub is unreachable or cannot record, every sample goes straight to the spool, so that an
agent that is killed loses none; only where the spool cannot be written do they stay in memory,
thinned to fit.
"""

import logging
from collections import deque
from collections.abc import Iterable, Iterator
from itertools import takewhile
from typing import NamedTuple

from fleet_smi.failure_log import FailureLog
from fleet_smi.model.snapshot import Snapshot
from fleet_smi.node.buffered_sample import BufferedSample
from fleet_smi.node.own_samples import adopt_samples
from fleet_smi.node.spool import MAX_BATCH_BYTES, MAX_BATCH_SAMPLES, Spool, every_second

logger = logging.getLogger(__name__)

_MAX_WAITING_BYTES = 2 << 20
_MAX_UNACKNOWLEDGED_BYTES = 512 << 10


class ReportBatch(NamedTuple):
    """Samples that are sent together: from a segment of the spool, or from memory."""

    samples: list[BufferedSample]
    segment: int | None
    run_id: str | None
    sequence: int


class ReportBuffer:
    """The unacknowledged samples of one agent for one hub. Not thread-safe."""

    def __init__(self, spool: Spool | None) -> None:
        self._spool = spool
        self._waiting: deque[BufferedSample] = deque()  # newer than everything in the spool
        self._in_flight: ReportBatch | None = None
        self._sent: deque[ReportBatch] = deque()
        self._read_up_to: int | None = None  # the last segment that was read for sending
        self._unreachable = False
        self._keep_every = 1  # while the hub is unreachable, every n-th sample is buffered
        self._failures = FailureLog(logger, "spool")

    def add(self, sample: BufferedSample) -> None:
        """Add the newest sample."""
        if self._unreachable and sample.sequence % self._keep_every:
            return
        self._waiting.append(sample)
        # A backlog on disk is sent first. Until then a new sample has to wait as well: on disk,
        # where it survives a kill.
        if self._unreachable or self._next_segment() is not None:
            self._move_to_spool()
        if _bytes(self._waiting) > _MAX_WAITING_BYTES:
            # Later samples are thinned alike, so that the whole outage is covered evenly.
            self._waiting = deque(every_second([*self._waiting]))
            self._keep_every *= 2

    def next_batch(self, latest: Snapshot | None = None) -> list[BufferedSample]:
        """Take the oldest unsent samples, as many as one report carries; empty if there are none.

        All of them are of this machine and have the node id of `latest`, its latest sample.
        Afterwards call `acknowledge`, `discard`, `return_batch` or `requeue`.
        """
        while self._spool is not None and (number := self._next_segment()) is not None:
            self._read_up_to = number
            samples = self._spool.load_segment(number)
            if samples := samples if latest is None else adopt_samples(samples, latest):
                return self._start_batch(samples, number)
            # Nothing in it can be read, as when a kill tore its first record.
            self._spool.drop_segment(number)
        samples, size = [], 0
        while self._waiting and len(samples) < MAX_BATCH_SAMPLES:
            size += self._waiting[0].size_bytes
            # `samples and`: one sample above the limit is sent alone, or it would block the rest.
            if samples and size > MAX_BATCH_BYTES:
                break
            samples.append(self._waiting.popleft())
        samples = samples if latest is None else adopt_samples(samples, latest)
        return self._start_batch(samples, None) if samples else []

    def acknowledge(self, durable_sequence: int | None, *, recorded: bool = True) -> None:
        """Record that the hub received the batch, and has it on disk up to `durable_sequence`.

        What it has not `recorded` is nowhere else: then it goes to the spool.
        """
        batch, self._unreachable, self._keep_every = self._finish_batch(), False, 1
        # Samples in the spool need not be held in memory as well.
        self._sent.append(batch if batch.segment is None else batch._replace(samples=[]))
        # Sequence numbers of different runs cannot be compared. But batches are sent in order, so
        # everything before the last batch that is known to be durable is durable too.
        durable = [
            position
            for position, sent in enumerate(self._sent, 1)
            if durable_sequence is not None
            and sent.run_id == batch.run_id
            and sent.sequence <= durable_sequence
        ]
        for _ in range(max(durable, default=0)):
            self._drop(self._sent.popleft())
        # Bounded memory: those of the spool count as empty here.
        if not recorded or _bytes(_samples(self._sent)) > _MAX_UNACKNOWLEDGED_BYTES:
            self._spill_sent()

    def discard(self) -> None:
        """Drop the batch: the hub will never accept it."""
        self._drop(self._finish_batch())

    def return_batch(self) -> None:
        """Take the batch back, to be sent again next: the hub has no room for it now."""
        if self._spool is not None and self._spool.is_over_limit:
            self.requeue()  # which thins the spool
            return
        batch = self._finish_batch()
        if batch.segment is None:
            self._waiting.extendleft(reversed(batch.samples))
            self._move_to_spool()
        else:
            self._read_up_to = batch.segment - 1

    def requeue(self) -> None:
        """Queue again all that is not durable: the hub is unreachable or was restarted."""
        unacknowledged = [*self._sent, *([self._in_flight] if self._in_flight else [])]
        self._sent.clear()
        # Segments are deleted only when durable: reading from the first one again resends them.
        self._in_flight, self._read_up_to, self._unreachable = None, None, True
        # Batches from memory go back to where they were: before the spool's segments, or after.
        older = list(takewhile(lambda batch: batch.segment is None, unacknowledged))
        newer = [batch for batch in unacknowledged[len(older) :] if batch.segment is None]
        if self._next_segment() is None or not self._prepend_to_spool(_samples(older)):
            newer = [*older, *newer]
        self._waiting.extendleft(reversed(_samples(newer)))
        self._move_to_spool()

    def close(self) -> None:
        """Write all that is not durable in the hub to the spool."""
        self.requeue()
        spool, self._spool = self._spool, None
        if spool is not None:
            spool.close()

    def _spill_sent(self) -> None:
        """Move sent samples, which the hub does not call durable, from memory to the spool.

        Where that cannot be written, the oldest are given up when there are too many.
        """
        spool, unread = self._spool, self._next_segment()
        if spool is not None and unread is None:
            try:
                self._write_sent(spool)
            except OSError as error:
                self._failures.record_failure(error)
            else:
                self._failures.record_success()
            if spool.is_over_limit:
                # Sent again from the beginning, which thins the spool.
                self.requeue()
        while unread is None and _bytes(_samples(self._sent)) > _MAX_UNACKNOWLEDGED_BYTES:
            self._drop(self._sent.popleft())

    def _write_sent(self, spool: Spool) -> None:
        """Write sent samples to the spool; where that fails, the rest stays in memory."""
        pending, self._sent = deque(_single_samples(self._sent)), deque()
        try:
            while pending:
                batch = pending[0]
                if batch.segment is None:
                    number = self._read_up_to = spool.append(batch.samples[0])
                    batch = batch._replace(samples=[], segment=number)
                    # A segment is deleted as a whole, when its last sample is durable.
                    if self._sent and self._sent[-1].segment == number:
                        self._sent.pop()
                self._sent.append(batch)
                pending.popleft()
        finally:
            self._sent.extend(pending)

    def _next_segment(self) -> int | None:
        return None if self._spool is None else self._spool.next_segment(self._read_up_to)

    def _start_batch(
        self, samples: list[BufferedSample], segment: int | None
    ) -> list[BufferedSample]:
        last = samples[-1]
        self._in_flight = ReportBatch(samples, segment, last.run_id, last.sequence)
        return samples

    def _finish_batch(self) -> ReportBatch:
        batch, self._in_flight = self._in_flight, None
        if batch is None:
            raise RuntimeError("no batch was taken")
        return batch

    def _drop(self, batch: ReportBatch) -> None:
        if self._spool is not None and batch.segment is not None:
            self._spool.drop_segment(batch.segment)

    def _move_to_spool(self) -> None:
        """Move waiting samples to the spool, as far as it can be written."""
        if self._spool is None:
            return
        if self._read_up_to is not None:
            self._spool.end_segment(self._read_up_to)  # it has been sent
        try:
            while self._waiting:
                # In this order: a sample that cannot be written stays in memory.
                self._spool.append(self._waiting[0])
                self._waiting.popleft()
            # Thinning rewrites segments: never while one of them is being sent.
            if self._read_up_to is None and self._spool.thin_to_limit():
                self._keep_every *= 2
        except OSError as error:
            self._failures.record_failure(error)
        else:
            self._failures.record_success()

    def _prepend_to_spool(self, samples: list[BufferedSample]) -> bool:
        try:
            if self._spool is not None and samples:
                self._spool.prepend(samples)
        except OSError as error:
            self._failures.record_failure(error)
            return False
        return True


def _single_samples(batches: Iterable[ReportBatch]) -> Iterator[ReportBatch]:
    """Yield the batches, those of memory as one for each sample."""
    for batch in batches:
        if batch.segment is not None:
            yield batch
        for sample in batch.samples:
            yield ReportBatch([sample], None, sample.run_id, sample.sequence)


def _samples(batches: Iterable[ReportBatch]) -> list[BufferedSample]:
    return [sample for batch in batches for sample in batch.samples]


def _bytes(samples: Iterable[BufferedSample]) -> int:
    return sum([sample.size_bytes for sample in samples])
