"""The hub's end of `files`: reports, or what gpustat prints, left by nodes in a shared folder."""

import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from msgspec.structs import replace

from fleet_smi.config import Settings
from fleet_smi.errors import DeliveryError, EmptyReport, TruncatedReport, Undecodable, Unreachable
from fleet_smi.fleet.delivery import DeliverCallback, Delivery, Source, with_default_interval
from fleet_smi.hub.shared_folder import (
    FileStamp,
    SharedFile,
    list_node_files,
    open_error_to_failure,
    open_shared_file,
    target_from_path,
)
from fleet_smi.hub.sources import load_file_decoder
from fleet_smi.hub.sources.blocking_worker import BlockingWorker
from fleet_smi.hub.sources.polling import ticks
from fleet_smi.model.snapshot import Snapshot
from fleet_smi.model.units import format_duration
from fleet_smi.wire.report import FILE_SUFFIX, decode_report

# What tells no pace comes from cron, which has none quicker.
_CRON_SECONDS = 60.0
# Half a file is still being written, unless it stays so.
_PATIENCE_SECONDS = 10.0
# By so much the clock of a file server may be ahead: what is further ahead tells no age.
_AHEAD_SECONDS = 60.0


def create_sources(settings: Settings) -> list[Source]:
    """Create one source for each folder or pattern named in `hub.files`."""
    interval = settings.hub.files_interval
    return [FilesSource(folder, interval_seconds=interval) for folder in settings.hub.files]


class _Known(NamedTuple):
    """A file that was met, when it was written by the hub's own clock, and what GPUs it told of."""

    stamp: FileStamp
    written_at: float | None
    gpus: tuple[tuple[str, int], ...] = ()


class FilesSource:
    """Reads a folder, or the files of a pattern; a file's name is what its node is called here."""

    name = "files"

    def __init__(
        self,
        path: str,
        *,
        interval_seconds: float = 5.0,
        timeout_seconds: float = 20.0,
        grace_seconds: float = _PATIENCE_SECONDS,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self.targets: Sequence[str] = ()
        self._path = Path(path)
        self._interval_seconds = interval_seconds
        self._timeout_seconds = timeout_seconds
        self._patience_seconds = grace_seconds
        self._clock = clock
        self._known: dict[Path, _Known] = {}
        self._halves: dict[Path, float] = {}
        self._looked_at = 0.0
        self._is_lost = False
        self._worker = BlockingWorker(f"files {path}")

    async def poll(self) -> Sequence[Delivery]:
        """What lies in the folder now, every file of it; raise when it is no folder to look in."""
        try:
            return await self._round(again=True)
        finally:
            self._worker.close()

    async def run(self, deliver: DeliverCallback) -> None:
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
            return [Delivery(source=self.name, target=str(self._path), result=failure)]

    async def _round(self, *, again: bool) -> Sequence[Delivery]:
        """What is new, or all `again`; and before it that the folder is back, where it was lost."""
        try:
            deliveries = await self._found(again=again)
        except Unreachable:
            self._is_lost = True
            raise
        was_lost, self._is_lost = self._is_lost, False
        found_again = Delivery(source=self.name, target=str(self._path), result=None)
        return [found_again, *deliveries] if was_lost else deliveries

    async def _found(self, *, again: bool) -> Sequence[Delivery]:
        """What the files tell. A shared disk can hang: never on the event loop."""
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
        now, paths = self._clock(), list_node_files(self._path)
        for path in paths:
            yield from self._of(path, again=again)
        there = set(paths)
        self._known = {path: known for path, known in self._known.items() if path in there}
        self._halves = {path: since for path, since in self._halves.items() if path in there}
        self._looked_at = now

    def _of(self, path: Path, *, again: bool) -> Iterator[Delivery]:
        """What one file says, or why it cannot be told; one that fails hides no other."""
        target = target_from_path(path)
        try:
            yield from self._read(path, target, again=again)
        except FileNotFoundError:
            return  # its node is just putting a new one there
        except DeliveryError as error:
            is_half = path in self._known and isinstance(error, EmptyReport | TruncatedReport)
            if not (is_half and self._is_at_work(path)):
                failure = type(error)(error.message, target)
                yield Delivery(source=self.name, target=target, result=failure)
        except OSError as error:
            yield Delivery(
                source=self.name, target=target, result=open_error_to_failure(error, target)
            )

    def _read(self, path: Path, target: str, *, again: bool) -> Sequence[Delivery]:
        with open_shared_file(path) as file:
            now, known = self._clock(), self._known.get(path)
            if known is not None and known.stamp == file.stamp and not again:
                return ()
            body = file.read()
        written_at = self._written_at(file, known, now)
        if written_at is None:
            self._known[path] = _Known(file.stamp, None)
            ahead = format_duration(file.modified_at - now)
            raise Undecodable(f"is dated {ahead} from now: its age is unknown until it changes")
        is_report = path.suffix == FILE_SUFFIX
        read = _reported if is_report else _printed
        deliveries = list(read(body, target, written_at, now))
        gpus = () if is_report else _gpus_of(deliveries)
        if known is not None and _is_begun(gpus, known.gpus) and self._is_at_work(path):
            return ()
        self._known[path] = _Known(file.stamp, written_at, gpus)
        self._halves.pop(path, None)
        return deliveries

    def _written_at(self, file: SharedFile, known: _Known | None, now: float) -> float | None:
        """When a file was written, by the hub's own clock; `None` where that cannot be told."""
        if known is None:
            return None if file.modified_at > now + _AHEAD_SECONDS else min(file.modified_at, now)
        if known.stamp == file.stamp:
            return known.written_at
        # It is of after the last look, whatever the clock of the file server says.
        return max(min(file.modified_at, now), self._looked_at)

    def _is_at_work(self, path: Path) -> bool:
        """Whether what looks half written may only be being written anew, in place."""
        began = self._halves.setdefault(path, self._clock())
        return self._clock() - began < self._patience_seconds


def _gpus_of(deliveries: Sequence[Delivery]) -> tuple[tuple[str, int], ...]:
    """Which GPUs a file tells of, in its order; a host without any has one that is none."""
    found: list[tuple[str, int]] = []
    for each in deliveries:
        gpus = each.result.gpus if isinstance(each.result, Snapshot) else ()
        found += [(each.target, gpu.index) for gpu in gpus] or [(each.target, -1)]
    return tuple(found)


def _is_begun(gpus: tuple[tuple[str, int], ...], before: tuple[tuple[str, int], ...]) -> bool:
    """Whether it tells of the first of what it told before: a text says nowhere that it ends."""
    return len(gpus) < len(before) and before[: len(gpus)] == gpus


def _reported(body: bytes, target: str, written_at: float, now: float) -> Iterator[Delivery]:
    if not body:
        raise EmptyReport("is empty: its writer was stopped, or the disk is full")
    report = decode_report(body, json=body[:1] == b"{")
    snapshot = report.snapshots[-1]
    age = report.age_seconds(snapshot) + now - written_at
    yield Delivery(
        source=FilesSource.name,
        target=target,
        result=with_default_interval(snapshot),
        age_seconds=age,
    )


def _printed(body: bytes, target: str, written_at: float, now: float) -> Iterator[Delivery]:
    """What gpustat printed: of one host as a rule, of several where gpustat-web was asked."""
    decode = load_file_decoder()
    if decode is None:
        raise Undecodable(f"is no report: name it *{FILE_SUFFIX}, as `fleet-smi agent --drop` does")
    told = decode(body, target, round(written_at, 3))
    for each in told:
        what = replace(each, interval_seconds=_CRON_SECONDS) if isinstance(each, Snapshot) else each
        own = each.name if isinstance(each, Snapshot) else each.node
        yield Delivery(
            source=FilesSource.name,
            target=target if len(told) == 1 else own or target,
            result=what,
            age_seconds=now - written_at,
        )
