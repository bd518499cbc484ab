"""The hub's end of `files`: reports, or what gpustat prints, left by nodes in a shared folder."""

import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from msgspec.structs import replace

from fleet_smi.errors import CutOff, DeliveryError, Empty, Unreachable
from fleet_smi.hub.delivery import Deliver, Delivery, paced
from fleet_smi.hub.folder import Stamp, left_in, opened, target_of, unreadable
from fleet_smi.hub.sources.polling import ticks
from fleet_smi.hub.sources.worker import Worker
from fleet_smi.model.snapshot import Snapshot
from fleet_smi.wire.dialects import gpustat
from fleet_smi.wire.report import FILE_SUFFIX, decode_report

# What tells no pace comes from cron, which has none quicker.
_CRON_SECONDS = 60.0
# Half a file is still being written, unless it stays so.
_PATIENCE_SECONDS = 10.0


class _Known(NamedTuple):
    """A file that could be read, and when it was written by the hub's own clock."""

    stamp: Stamp
    written_at: float


class FilesSource:
    """Reads a folder, or the files of a pattern; a file's name is what its node is called here."""

    name = "files"

    def __init__(
        self,
        path: str,
        *,
        interval_seconds: float = 5.0,
        timeout_seconds: float = 20.0,
        patience_seconds: float = _PATIENCE_SECONDS,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self.targets: Sequence[str] = ()
        self._path = Path(path)
        self._interval_seconds = interval_seconds
        self._timeout_seconds = timeout_seconds
        self._patience_seconds = patience_seconds
        self._clock = clock
        self._known: dict[Path, _Known] = {}
        self._halves: dict[Path, float] = {}
        self._looked_at = 0.0
        self._worker = Worker(f"files {path}")

    async def look(self) -> Sequence[Delivery]:
        """What lies in the folder now, every file of it; raise when it is no folder to look in."""
        try:
            return await self._round(again=True)
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
            return await self._round(again=False)
        except Unreachable as failure:
            return [Delivery(source=self.name, target=str(self._path), what=failure)]

    async def _round(self, *, again: bool) -> Sequence[Delivery]:
        """What is new, or all `again`. A shared disk can hang: never on the event loop."""
        try:
            return await self._worker.call(
                lambda: list(self._deliveries(again=again)), self._timeout_seconds
            )
        except TimeoutError:
            words = (
                f"the folder has not answered for {self._timeout_seconds:g} s: is its server up?"
            )
        except OSError as error:
            words = f"the folder cannot be read: {error.strerror}"
        raise Unreachable(words, str(self._path))

    def _deliveries(self, *, again: bool) -> Iterator[Delivery]:
        now, paths = self._clock(), left_in(self._path)
        for path in paths:
            yield from self._of(path, again=again)
        there = set(paths)
        self._known = {path: known for path, known in self._known.items() if path in there}
        self._halves = {path: since for path, since in self._halves.items() if path in there}
        self._looked_at = now

    def _of(self, path: Path, *, again: bool) -> Iterator[Delivery]:
        """What one file says, or why it cannot be told; one that fails hides no other."""
        target = target_of(path)
        try:
            yield from self._read(path, target, again=again)
        except FileNotFoundError:
            return  # its node is just putting a new one there
        except DeliveryError as error:
            if not self._is_at_work(path, error):
                failure = type(error)(error.words, target)
                yield Delivery(source=self.name, target=target, what=failure)
        except OSError as error:
            yield Delivery(source=self.name, target=target, what=unreadable(error, target))

    def _read(self, path: Path, target: str, *, again: bool) -> Sequence[Delivery]:
        with opened(path) as file:
            now, known = self._clock(), self._known.get(path)
            if known is None or known.stamp != file.stamp:
                written_at = min(file.written_at, now)
                if known is not None:
                    # It is of after the last look, whatever the clock of the file server says.
                    written_at = max(written_at, self._looked_at)
            elif again:
                written_at = known.written_at
            else:
                return ()
            body = file.content()
        read = _reported if path.suffix == FILE_SUFFIX else _printed
        deliveries = list(read(body, target, written_at, now))
        self._known[path] = _Known(file.stamp, written_at)
        self._halves.pop(path, None)
        return deliveries

    def _is_at_work(self, path: Path, error: DeliveryError) -> bool:
        """Whether a file that could be read before is only being written anew, in place."""
        if path not in self._known or not isinstance(error, Empty | CutOff):
            return False
        began = self._halves.setdefault(path, self._clock())
        return self._clock() - began < self._patience_seconds


def _reported(body: bytes, target: str, written_at: float, now: float) -> Iterator[Delivery]:
    if not body:
        raise Empty("is empty: its writer was stopped, or the disk is full")
    report = decode_report(body, json=body[:1] == b"{")
    snapshot = report.snapshots[-1]
    age = report.age_seconds(snapshot) + now - written_at
    yield Delivery(source=FilesSource.name, target=target, what=paced(snapshot), age_seconds=age)


def _printed(body: bytes, target: str, written_at: float, now: float) -> Iterator[Delivery]:
    """What gpustat printed: of one host as a rule, of several where gpustat-web was asked."""
    told = gpustat.read(body, target, round(written_at, 3))
    for each in told:
        what = replace(each, interval_seconds=_CRON_SECONDS) if isinstance(each, Snapshot) else each
        own = each.name if isinstance(each, Snapshot) else each.node
        yield Delivery(
            source=FilesSource.name,
            target=target if len(told) == 1 else own or target,
            what=what,
            age_seconds=now - written_at,
        )
