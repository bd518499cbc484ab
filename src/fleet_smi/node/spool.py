"""Spool: a bounded queue of samples on disk, as numbered segments of records with checksums.

A segment is a file of records, each its length, its checksum and a compressed sample. A record
that was torn when the writer was killed ends its segment; the next writer starts a new one. At
the size limit every second sample is dropped: an outage stays covered from its beginning, only
coarser.
"""

import contextlib
import errno
import fcntl
import os
import struct
import zlib
from collections.abc import Iterable, Iterator
from typing import NamedTuple, TypeVar

import msgspec
from msgspec import Struct

from fleet_smi.errors import UsageError
from fleet_smi.node.buffered_sample import BufferedSample

MAX_BATCH_SAMPLES = 100
MAX_BATCH_BYTES = 1 << 20
"""The limits of one segment, and of one report."""

_SUFFIX = ".samples"
_FIRST_NUMBER = 1 << 40  # leaves numbers for segments that are prepended
_HEADER = struct.Struct("<II")  # length and CRC-32 of a record
_MAX_SAMPLE_BYTES = 8 << 20  # a damaged record must not expand into all of the memory
_COMPRESSION_LEVEL = 1  # the cheapest; an hour of samples still fits
_T = TypeVar("_T")


class _Key(Struct):
    run_id: str | None = None
    sequence: int = 0


class _OpenSegment(NamedTuple):
    """The segment that is being written, and how full it is."""

    number: int
    descriptor: int
    samples: int
    size: int


class Spool:
    """The segments in one folder, which this process holds a lock on."""

    def __init__(self, folder: str, max_bytes: int = 32 << 20) -> None:
        self._max_bytes = max_bytes
        self._folder = _open_locked_folder(folder)
        names = os.listdir(self._folder)  # noqa: PTH208
        # In order of number, as the names are padded with zeros; `next_segment` depends on it.
        self._sizes = {
            int(name.removesuffix(_SUFFIX)): self._size(name)
            for name in sorted(names)
            if name.endswith(_SUFFIX) and name.removesuffix(_SUFFIX).isdecimal()
        }
        self._open: _OpenSegment | None = None

    @property
    def size_bytes(self) -> int:
        """The size of all segments."""
        return sum(self._sizes.values())

    @property
    def is_over_limit(self) -> bool:
        """Whether the spool is larger than it may be, and can be thinned."""
        return self.size_bytes > self._max_bytes and len(self._sizes) > 1

    def next_segment(self, number: int | None) -> int | None:
        """The segment after this one, or the first; `None` after the last."""
        return next((other for other in self._sizes if number is None or other > number), None)

    def append(self, sample: BufferedSample) -> int:
        """Write a sample that is newer than all others here; return the number of its segment.

        Raise `OSError` if that fails.
        """
        into, record = self._segment_with_room(len(sample.data)), _record(sample.data)
        # Not synced: a killed agent loses nothing. A power failure may tear the last records,
        # which their checksums show.
        written = os.write(into.descriptor, record)
        self._sizes[into.number] += written
        self._open = into._replace(samples=into.samples + 1, size=into.size + len(sample.data))
        if written < len(record):
            self._seal()  # reading stops at a torn record: what follows needs a new segment
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        return into.number

    def prepend(self, samples: Iterable[BufferedSample]) -> None:
        """Write samples that are older than all others here."""
        number = min(self._sizes, default=_FIRST_NUMBER) - 1
        self._write(number, [_record(sample.data) for sample in samples])
        self._sizes = dict(sorted(self._sizes.items()))

    def end_segment(self, number: int) -> None:
        """Append no more to a segment: what follows begins another."""
        if self._open is not None and self._open.number == number:
            self._seal()

    def load_segment(self, number: int) -> list[BufferedSample]:
        """Read the intact records of a segment; it is not appended to any more."""
        self.end_segment(number)
        return [sample for record in self._records(number) if (sample := _sample(record))]

    def drop_segment(self, number: int) -> None:
        """Delete a segment."""
        if self._sizes.pop(number, None) is not None:
            self.end_segment(number)
            with contextlib.suppress(OSError):  # one that stays is sent twice, which is harmless
                os.unlink(_name(number), dir_fd=self._folder)

    def thin_to_limit(self) -> bool:
        """Drop every second sample if the spool is over its limit; return whether it was."""
        too_many = self.is_over_limit
        if too_many:
            self._seal()
            numbers = list(self._sizes)
            # Two neighbours at a time: half of both is about one segment, within the batch limits.
            # A kill in between leaves samples twice, which is harmless.
            for first, second in zip(numbers[::2], numbers[1::2], strict=False):
                records = [*self._records(first), *self._records(second)]
                self._write(
                    first,
                    [_HEADER.pack(*_header(record)) + record for record in every_second(records)],
                )
                self.drop_segment(second)
        return too_many

    def close(self) -> None:
        """Release the folder; the segments stay."""
        self._seal()
        os.close(self._folder)

    def _segment_with_room(self, size: int) -> _OpenSegment:
        opened = self._open
        if opened is not None and (
            opened.samples >= MAX_BATCH_SAMPLES or opened.size + size > MAX_BATCH_BYTES
        ):
            self._seal()
        if self._open is None:
            number = max(self._sizes, default=_FIRST_NUMBER) + 1
            flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_APPEND
            self._open = _OpenSegment(number, self._descriptor(_name(number), flags), 0, 0)
            self._sizes[number] = 0
        return self._open

    def _seal(self) -> None:
        opened, self._open = self._open, None
        if opened is not None:
            os.close(opened.descriptor)

    def _write(self, number: int, records: list[bytes]) -> None:
        """Replace a whole segment atomically."""
        temporary = f"{number}.temporary"
        with os.fdopen(
            self._descriptor(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC), "wb"
        ) as file:
            file.writelines(records)
        os.rename(temporary, _name(number), src_dir_fd=self._folder, dst_dir_fd=self._folder)
        self._sizes[number] = sum(map(len, records))

    def _records(self, number: int) -> Iterator[bytes]:
        try:
            with os.fdopen(self._descriptor(_name(number), os.O_RDONLY), "rb") as file:
                data = file.read()
        except OSError:
            return
        at = 0
        while at + _HEADER.size <= len(data):
            header = _HEADER.unpack_from(data, at)
            record = data[at + _HEADER.size : at + _HEADER.size + header[0]]
            # Torn or damaged: its length may be wrong too, so the next record cannot be found.
            if header != _header(record):
                return
            yield record
            at += _HEADER.size + header[0]

    def _descriptor(self, name: str, flags: int) -> int:
        flags |= os.O_NOFOLLOW | os.O_CLOEXEC
        return os.open(name, flags, 0o600, dir_fd=self._folder)

    def _size(self, name: str) -> int:
        return os.stat(name, dir_fd=self._folder, follow_symlinks=False).st_size


def every_second(items: list[_T]) -> list[_T]:
    """Every second item, beginning with the first."""
    return items[::2]


def _open_locked_folder(path: str) -> int:
    try:
        os.makedirs(path, 0o700, exist_ok=True)  # noqa: PTH103  # pathlib costs an agent memory
        folder = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    except OSError as error:
        raise UsageError(f"{path}: {error.strerror}; give another --state") from None
    if os.fstat(folder).st_uid != os.geteuid():
        os.close(folder)
        raise UsageError(f"{path} belongs to another user: give another --state")
    os.fchmod(folder, 0o700)
    # A lock, not a pid file: the kernel releases it however the agent ends.
    try:
        fcntl.flock(folder, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(folder)
        message = (
            f"another agent uses {path}, here or on another machine: give each its own --state"
        )
        raise UsageError(message) from None
    except OSError as error:
        # A file server without locks: two machines would read and delete each other's samples.
        os.close(folder)
        message = f"{path} cannot be locked ({error.strerror}): give a --state on a local disk"
        raise UsageError(message) from None
    return folder


def _name(number: int) -> str:
    return f"{number:016}{_SUFFIX}"


def _header(record: bytes) -> tuple[int, int]:
    return len(record), zlib.crc32(record)


def _record(data: bytes) -> bytes:
    packed = zlib.compress(data, _COMPRESSION_LEVEL)
    return _HEADER.pack(*_header(packed)) + packed


def _sample(record: bytes) -> BufferedSample | None:
    # An intact record can still be of another version: it is skipped, not an error.
    try:
        data = zlib.decompressobj().decompress(record, _MAX_SAMPLE_BYTES)
        key = msgspec.msgpack.decode(data, type=_Key)
    except (zlib.error, ValueError, RecursionError):
        return None
    return BufferedSample(key.run_id, key.sequence, data)
