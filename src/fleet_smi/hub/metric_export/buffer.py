"""Buffer of requests that the receiver has not taken yet: in memory first, then on disk.

Requests leave it in the order in which they came. Those that fit into memory never touch the disk;
when there are more, all of them become one segment, a file. At the size limit the oldest segment
is dropped, which is counted and reported.
"""

import threading
from collections import deque
from collections.abc import Iterable
from itertools import islice, takewhile
from pathlib import Path

import msgspec
from msgspec import Struct

from fleet_smi.model.units import MIB
from fleet_smi.paths import ensure_private_folder

_SUFFIX = ".requests"
_FIRST_NUMBER = 1 << 40  # leaves numbers for segments that come before the others


class WriteRequest(Struct, frozen=True, array_like=True, gc=False):
    """A compressed message; requests of one round have no series in common."""

    round: int
    at: float
    samples: int
    body: bytes


class DroppedSamples(Struct, frozen=True):
    """Samples that will never be sent: how many, of which time, and why."""

    samples: int
    start: float
    end: float
    reason: str


_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(list[WriteRequest]).decode


class RequestBuffer:
    """The requests in one folder, which belongs to one hub; safe to use from several threads."""

    def __init__(self, folder: Path, max_bytes: int, max_memory_bytes: int = 16 * MIB) -> None:
        ensure_private_folder(str(folder))
        self._folder = folder
        self._max_bytes = max_bytes
        self._max_memory_bytes = max_memory_bytes
        self._added = threading.Condition()
        self._interrupted = False
        self._dropped: list[DroppedSamples] = []
        # Oldest first: the requests being sent, of the first segment or of none; the other
        # segments by number with their sizes; the newest requests.
        self._sending: deque[WriteRequest] = deque()
        self._sending_segment: int | None = None
        self._segments = _find_segments(folder)
        self._newest: list[WriteRequest] = []
        self._newest_bytes = 0
        self.size_bytes = sum(self._segments.values())
        """The size of everything that waits; read without the lock, which a slow disk may hold."""

    def put(self, requests: Iterable[WriteRequest]) -> None:
        """Append requests; never blocks on the receiver."""
        with self._added:
            for request in requests:
                self._newest.append(request)
                self._newest_bytes += len(request.body)
            if self._newest_bytes > self._max_memory_bytes:
                number = max(self._segments, default=_FIRST_NUMBER) + 1
                self._write_segment(number, self._newest)
                self._newest, self._newest_bytes = [], 0
                self._drop_excess()
            self._update_size()
            self._added.notify_all()

    def next_batch(self, max_requests: int, wait_seconds: float) -> list[WriteRequest]:
        """Return the oldest requests, all of one round; empty if none came in time."""
        with self._added:
            self._added.wait_for(lambda: self._load() or self._interrupted, wait_seconds)
            oldest = self._sending[0].round if self._sending else None
            same_round = takewhile(lambda request: request.round == oldest, self._sending)
            return list(islice(same_round, max_requests))

    def interrupt(self) -> None:
        """End the wait of `next_batch`, now and for ever: the hub ends."""
        with self._added:
            self._interrupted = True
            self._added.notify_all()

    def done(self, request: WriteRequest) -> None:
        """Remove a request of the last batch: it was sent, or never will be."""
        with self._added:
            if request in self._sending:  # not if it was saved meanwhile, at the end of the hub
                self._sending.remove(request)
            if not self._sending and self._sending_segment is not None:
                self._remove_segment(self._sending_segment)
                self._sending_segment = None
            self._update_size()

    def take_dropped(self) -> list[DroppedSamples]:
        """What was dropped since the last call."""
        with self._added:
            dropped, self._dropped = self._dropped, []
        return dropped

    def save(self) -> None:
        """Write what is in memory to disk, for the next hub."""
        with self._added:
            if self._sending:
                first = min(self._segments, default=_FIRST_NUMBER)
                # The rest of a segment replaces it: what was sent is not sent again.
                self._write_segment(self._sending_segment or first - 1, list(self._sending))
            if self._newest:
                self._write_segment(max(self._segments, default=_FIRST_NUMBER) + 1, self._newest)
            self._sending.clear()
            self._sending_segment, self._newest, self._newest_bytes = None, [], 0
            self._update_size()

    def _load(self) -> bool:
        """Have the oldest requests in memory; whether there are any."""
        while not self._sending and self._segments:
            number = min(self._segments)
            try:
                self._sending.extend(_decode(self._path(number).read_bytes()))
            except (OSError, msgspec.DecodeError) as error:
                self._dropped.append(DroppedSamples(0, 0.0, 0.0, f"a damaged buffer: {error}"))
            self._sending_segment = number if self._sending else None
            if not self._sending:
                self._remove_segment(number)
        if not self._sending:
            self._sending.extend(self._newest)
            self._newest, self._newest_bytes = [], 0
        return bool(self._sending)

    def _update_size(self) -> None:
        in_memory = 0 if self._sending_segment is not None else _size(self._sending)
        self.size_bytes = sum(self._segments.values()) + self._newest_bytes + in_memory

    def _write_segment(self, number: int, requests: list[WriteRequest]) -> None:
        path, data = self._path(number), _encode(requests)
        unfinished = path.with_suffix(".new")
        try:
            unfinished.write_bytes(data)
            unfinished.replace(path)
        except OSError as error:
            unfinished.unlink(missing_ok=True)
            self._record_dropped(requests, f"the buffer cannot be written: {error.strerror}")
        else:
            self._segments[number] = len(data)

    def _drop_excess(self) -> None:
        while sum(self._segments.values()) > self._max_bytes:
            waiting = [each for each in sorted(self._segments) if each != self._sending_segment]
            if not waiting:
                return
            try:
                requests = _decode(self._path(waiting[0]).read_bytes())
            except (OSError, msgspec.DecodeError):
                requests = []
            self._remove_segment(waiting[0])
            self._record_dropped(requests, "the buffer was full")

    def _record_dropped(self, requests: list[WriteRequest], reason: str) -> None:
        times = [request.at for request in requests] or [0.0]
        samples = sum(request.samples for request in requests)
        self._dropped.append(DroppedSamples(samples, min(times), max(times), reason))

    def _remove_segment(self, number: int) -> None:
        self._segments.pop(number, None)
        self._path(number).unlink(missing_ok=True)

    def _path(self, number: int) -> Path:
        return self._folder / f"{number:016d}{_SUFFIX}"


def _find_segments(folder: Path) -> dict[int, int]:
    return {
        int(path.stem): path.stat().st_size
        for path in sorted(folder.glob(f"*{_SUFFIX}"))
        if path.stem.isdecimal()
    }


def _size(requests: Iterable[WriteRequest]) -> int:
    return sum(len(request.body) for request in requests)
