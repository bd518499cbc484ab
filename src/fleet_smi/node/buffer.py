"""What the hub does not yet keep: samples in memory and, while it is away, on disk.

Samples go out in order. What was sent is held until the hub says that it keeps it, and goes
out again when the hub may have forgotten it. While the hub is away every sample goes to the
spool at once, so that an agent that is killed loses none; only where that cannot be written
do they stay in memory, thinned to fit.
"""

import logging
from collections import deque
from collections.abc import Iterable
from itertools import takewhile
from typing import NamedTuple

from fleet_smi.failure_log import FailureLog
from fleet_smi.node.spool import (
    MAX_BATCH_BYTES,
    MAX_BATCH_SAMPLES,
    EncodedSample,
    Spool,
    every_second,
)

logger = logging.getLogger(__name__)

_MOST_WAITING_BYTES = 2 << 20
_MOST_UNKEPT_BYTES = 512 << 10


class ReportBatch(NamedTuple):
    """Samples that go out together; from a segment of the spool, or from memory."""

    samples: list[EncodedSample]
    segment: int | None
    run_id: str | None
    sequence: int


class ReportBuffer:
    """The samples of one agent on their way to one hub. Not for several threads at once."""

    def __init__(self, spool: Spool | None) -> None:
        self._spool = spool
        self._waiting: deque[EncodedSample] = deque()  # newer than all that lies in the spool
        self._flying: ReportBatch | None = None
        self._sent: deque[ReportBatch] = deque()
        self._reached: int | None = None  # the last segment that was taken out to be sent
        self._away = False
        self._grain = 1  # while the hub is away every so many-th sample is kept
        self._faults = FailureLog(logger, "spool")

    def add(self, sample: EncodedSample) -> None:
        """Take one more sample in, the newest."""
        if self._away and sample.sequence % self._grain:
            return
        self._waiting.append(sample)
        if self._away or self._next_segment() is not None:
            self._store()
        if _bytes(self._waiting) > _MOST_WAITING_BYTES:
            self._waiting = deque(every_second([*self._waiting]))
            self._grain *= 2

    def next_batch(self) -> list[EncodedSample]:
        """The oldest that are to go out, as many as one report carries; none if none are left.

        Tell afterwards what became of them: `delivered`, `refused` or `returned`.
        """
        while self._spool is not None and (number := self._next_segment()) is not None:
            self._reached = number
            if samples := self._spool.load_segment(number):
                return self._fly(samples, number)
            self._spool.drop_segment(number)
        samples, size = [], 0
        while self._waiting and len(samples) < MAX_BATCH_SAMPLES:
            size += len(self._waiting[0].data)
            if samples and size > MAX_BATCH_BYTES:
                break
            samples.append(self._waiting.popleft())
        return self._fly(samples, None) if samples else []

    def acknowledge(self, durable_sequence: int | None) -> None:
        """The hub has what was taken, and keeps its run for good up to that sequence."""
        batch, self._away, self._grain = self._landed(), False, 1
        # What is on disk need not be held in memory too.
        self._sent.append(batch if batch.segment is None else batch._replace(samples=[]))
        known = [
            at
            for at, sent in enumerate(self._sent, 1)
            if durable_sequence is not None
            and sent.run_id == batch.run_id
            and sent.sequence <= durable_sequence
        ]
        for _ in range(max(known, default=0)):
            self._forget(self._sent.popleft())
        while _bytes(_samples(self._sent)) > _MOST_UNKEPT_BYTES:
            self._forget(self._sent.popleft())

    def discard(self) -> None:
        """The hub will never have what was taken: it is given up."""
        self._forget(self._landed())

    def requeue(self) -> None:
        """The hub is away, or may have forgotten: what it does not keep goes out again."""
        unkept = [*self._sent, *([self._flying] if self._flying else [])]
        self._sent.clear()
        self._flying, self._reached, self._away = None, None, True
        older = list(takewhile(lambda batch: batch.segment is None, unkept))
        newer = [batch for batch in unkept[len(older) :] if batch.segment is None]
        if self._next_segment() is None or not self._store_first(_samples(older)):
            newer = [*older, *newer]
        self._waiting.extendleft(reversed(_samples(newer)))
        self._store()

    def close(self) -> None:
        """Write down all that the hub does not keep."""
        self.requeue()
        spool, self._spool = self._spool, None
        if spool is not None:
            spool.close()

    def _next_segment(self) -> int | None:
        return None if self._spool is None else self._spool.next_segment(self._reached)

    def _fly(self, samples: list[EncodedSample], segment: int | None) -> list[EncodedSample]:
        last = samples[-1]
        self._flying = ReportBatch(samples, segment, last.run_id, last.sequence)
        return samples

    def _landed(self) -> ReportBatch:
        batch, self._flying = self._flying, None
        if batch is None:
            raise RuntimeError("nothing was taken")
        return batch

    def _forget(self, batch: ReportBatch) -> None:
        if self._spool is not None and batch.segment is not None:
            self._spool.drop_segment(batch.segment)

    def _store(self) -> None:
        """Move what waits to the spool, as far as that can be written."""
        if self._spool is None:
            return
        try:
            while self._waiting:
                self._spool.append(self._waiting[0])
                self._waiting.popleft()
            if self._reached is None and self._spool.thin_to_limit():
                self._grain *= 2
        except OSError as error:
            self._faults.record_failure(error)
        else:
            self._faults.record_success()

    def _store_first(self, samples: list[EncodedSample]) -> bool:
        try:
            if self._spool is not None and samples:
                self._spool.prepend(samples)
        except OSError as error:
            self._faults.record_failure(error)
            return False
        return True


def _samples(batches: Iterable[ReportBatch]) -> list[EncodedSample]:
    return [sample for batch in batches for sample in batch.samples]


def _bytes(samples: Iterable[EncodedSample]) -> int:
    return sum(len(sample.data) for sample in samples)
