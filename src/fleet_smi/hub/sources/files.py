"""The hub's end of `files`: reports that nodes leave in a shared folder."""

import errno
import os
import stat
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from fleet_smi.errors import DeliveryError, Refused, Undecodable, Unreachable
from fleet_smi.hub.delivery import Deliver, Delivery, paced
from fleet_smi.hub.sources.polling import ticks
from fleet_smi.hub.sources.worker import Worker
from fleet_smi.wire.report import FILE_SUFFIX, MOST_BYTES, Report, decode_report

_MOST_FILES = 20_000


class _Stamp(NamedTuple):
    """By what a file is known to be the one that was read before."""

    inode: int
    size: int
    written_ns: int


class FilesSource:
    """Reads a folder; the name of a file is what its node is called here."""

    name = "files"

    def __init__(
        self,
        folder: str,
        *,
        interval_seconds: float = 5.0,
        timeout_seconds: float = 20.0,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self.targets: Sequence[str] = ()
        self._folder = Path(folder)
        self._interval_seconds = interval_seconds
        self._timeout_seconds = timeout_seconds
        self._clock = clock
        self._known: dict[str, _Stamp] = {}
        self._looked_at = 0.0
        self._worker = Worker(f"files {folder}")

    async def look(self) -> Sequence[Delivery]:
        """What lies in the folder now, every file of it; raise when it is no folder to look in."""
        self._known.clear()
        try:
            return await self._round()
        finally:
            self._worker.close()

    async def run(self, deliver: Deliver) -> None:
        """Deliver every file that is new, until cancelled."""
        try:
            async for _ in ticks(self._interval_seconds):
                for delivery in await self._round_or_failure():
                    deliver(delivery)
        finally:
            self._worker.close()

    async def _round_or_failure(self) -> Sequence[Delivery]:
        try:
            return await self._round()
        except Unreachable as failure:
            return [Delivery(source=self.name, target=str(self._folder), what=failure)]

    async def _round(self) -> Sequence[Delivery]:
        """What is new. A shared disk can hang for minutes: never on the event loop."""
        try:
            return await self._worker.call(lambda: list(self._new()), self._timeout_seconds)
        except TimeoutError:
            words = (
                f"the folder has not answered for {self._timeout_seconds:g} s: is its server up?"
            )
        except OSError as error:
            words = f"the folder cannot be read: {error.strerror}"
        raise Unreachable(words, str(self._folder))

    def _new(self) -> Iterator[Delivery]:
        looked_at = self._clock()
        names = sorted(path.name for path in self._folder.iterdir() if path.suffix == FILE_SUFFIX)
        for name in names[:_MOST_FILES]:
            if not name.startswith("."):
                yield from self._new_in(name)
        self._looked_at = looked_at

    def _new_in(self, name: str) -> Iterator[Delivery]:
        target = name.removesuffix(FILE_SUFFIX)
        try:
            taken = self._taken(name)
        except FileNotFoundError:
            return  # its node is just putting a new one there
        except DeliveryError as error:
            failure = type(error)(error.words, target)
            yield Delivery(source=self.name, target=target, what=failure)
            return
        except OSError as error:
            failure = _unreadable(error, target)
            yield Delivery(source=self.name, target=target, what=failure)
            return
        if taken is not None:
            yield _delivery(target, *taken)

    def _taken(self, name: str) -> tuple[Report, float] | None:
        """The report in a file and its age; `None` when it is the one that is known."""
        # Whoever can write here could put a link or a pipe: neither is followed or waited for.
        flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
        descriptor = os.open(self._folder / name, flags)
        try:
            status = os.fstat(descriptor)
            stamp = _Stamp(status.st_ino, status.st_size, status.st_mtime_ns)
            known = self._known.get(name)
            if known == stamp:
                return None
            body = _content(descriptor, status)
        finally:
            os.close(descriptor)
        self._known[name] = stamp
        age = self._clock() - status.st_mtime
        if known is not None:
            # It is of after the last look, whatever the clock of the file server says.
            age = min(age, self._clock() - self._looked_at)
        return decode_report(body, json=body[:1] == b"{"), age


def _unreadable(error: OSError, target: str) -> DeliveryError:
    if error.errno == errno.ELOOP:
        return Refused("is a link, which is not followed", target)
    if isinstance(error, PermissionError):
        return Refused("may not be read: its node drops it with mode 0600", target)
    return Unreachable(f"cannot be read: {error.strerror}", target)


def _content(descriptor: int, status: os.stat_result) -> bytes:
    if not stat.S_ISREG(status.st_mode):
        raise Refused("is no plain file")
    if status.st_size > MOST_BYTES:
        raise Undecodable(f"is larger than {MOST_BYTES >> 20} MiB")
    if not status.st_size:
        raise Undecodable("is empty: its writer was stopped, or the disk is full")
    with open(descriptor, "rb", closefd=False) as file:
        return file.read(MOST_BYTES + 1)


def _delivery(target: str, report: Report, seconds_since_written: float) -> Delivery:
    snapshot = report.snapshots[-1]
    age = report.age_seconds(snapshot) + max(0.0, seconds_since_written)
    return Delivery(source=FilesSource.name, target=target, what=paced(snapshot), age_seconds=age)
