"""The `files` source: reads reports, or the output of gpustat, from a shared folder."""

import time
from bisect import bisect_right
from collections.abc import Callable, Iterator, Sequence
from math import inf
from pathlib import Path
from typing import NamedTuple

from msgspec.structs import replace

from fleet_smi.config import Settings
from fleet_smi.errors import (
    DeliveryError,
    EmptyReport,
    Refused,
    TruncatedReport,
    Undecodable,
    Unreachable,
)
from fleet_smi.fleet.delivery import (
    DeliverCallback,
    Delivery,
    Source,
    claim_order,
    with_polling_interval,
)
from fleet_smi.hub.file_hosts import FileHosts
from fleet_smi.hub.shared_folder import (
    MAX_FILES,
    FileStamp,
    SharedFile,
    is_large,
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

# Files without an interval of their own are written by cron, at most once a minute.
_CRON_SECONDS = 60.0
# A truncated file is being written, unless it stays truncated for longer.
_TRUNCATED_GRACE_SECONDS = 10.0
# For new and large files in one scan; the others of them have their turn in the next.
_UNUSUAL_FILES_SECONDS = 5.0
# How far the clock of a file server may be ahead; beyond that its times tell no age.
_MAX_CLOCK_AHEAD_SECONDS = 60.0
_TOO_MANY_FILES = (
    f"has more than {MAX_FILES} files, and the rest is not read: remove those of nodes that are "
    "gone, or divide it into several folders"
)


def create_sources(settings: Settings) -> list[Source]:
    """Create one source for each folder or pattern named in `hub.files`."""
    interval, hosts = settings.hub.files_interval, FileHosts(settings.hub.files)
    return [
        FilesSource(folder, interval_seconds=interval, hosts=hosts) for folder in settings.hub.files
    ]


class _SeenFile(NamedTuple):
    """A file that was read: its version, when it was written by the hub's clock, its GPUs."""

    stamp: FileStamp
    written_at: float | None
    gpus: tuple[tuple[str, int], ...] = ()


class FilesSource:
    """Reads the files of a folder or pattern; the name of a file is the target of its node.

    `hosts` are shared by the folders of one hub: none may report for a host of another.
    """

    name = "files"

    def __init__(
        self,
        path: str,
        *,
        interval_seconds: float = 5.0,
        timeout_seconds: float = 20.0,
        grace_seconds: float = _TRUNCATED_GRACE_SECONDS,
        clock: Callable[[], float] = time.time,
        hosts: FileHosts | None = None,
    ) -> None:
        self._hosts = hosts or FileHosts()
        self.targets: Sequence[str] = ()
        self._path = Path(path)
        self._interval_seconds = interval_seconds
        self._timeout_seconds = timeout_seconds
        self._grace_seconds = grace_seconds
        self._clock = clock
        # Without a lock: only the worker thread uses these, for one scan at a time.
        self._listed: list[Path] = []
        self._seen: dict[Path, _SeenFile] = {}
        self._delivered: tuple[dict[Path, _SeenFile], float] = {}, 0.0
        self._last_unusual = Path()
        self._truncated_since: dict[Path, float] = {}
        self._node_ids: set[str] = set()
        self._last_scan_at = 0.0
        self._is_unreachable = self._is_scan_lost = self._had_more = False
        self._worker = BlockingWorker(f"files {path}")

    async def poll(self) -> Sequence[Delivery]:
        """Read every file of the folder; raise `Unreachable` if it cannot be read."""
        try:
            return await self._scan(reread=True)
        finally:
            self._worker.close()

    async def run(self, deliver: DeliverCallback) -> None:
        """Deliver every new or changed file, until cancelled."""
        try:
            async for _ in ticks(self._interval_seconds):
                for delivery in await self._scan_or_failure():
                    deliver(delivery)
        finally:
            self._worker.close()

    async def _scan_or_failure(self) -> Sequence[Delivery]:
        try:
            return await self._scan(reread=False)
        except Unreachable as failure:
            return [Delivery(source=self.name, target=str(self._path), result=failure)]

    async def _scan(self, *, reread: bool) -> Sequence[Delivery]:
        """Read the changed files, or all; report first that a folder is reachable again."""
        try:
            deliveries = await self._read_in_worker(reread=reread)
        except Unreachable:
            self._is_unreachable = True
            raise
        was_unreachable, self._is_unreachable = self._is_unreachable, False
        recovered = Delivery(source=self.name, target=str(self._path), result=None)
        return [recovered, *deliveries] if was_unreachable else deliveries

    async def _read_in_worker(self, *, reread: bool) -> Sequence[Delivery]:
        """Read the folder in a thread: a shared disk may hang, the event loop must not."""
        try:
            # A list: a generator would read the disk later, on the event loop.
            return await self._worker.call(
                lambda: list(self._read_folder(reread=reread)), self._timeout_seconds
            )
        except TimeoutError:
            self._is_scan_lost = True
            message = (
                f"the folder did not respond within {self._timeout_seconds:g} s: is its server up?"
            )
        except OSError as error:
            message = f"the folder cannot be read: {error.strerror}"
        raise Unreachable(message, str(self._path))

    def _read_folder(self, *, reread: bool) -> Iterator[Delivery]:
        if self._is_scan_lost:
            # It came too late to be delivered: what it has read is to be read again.
            self._seen, self._last_scan_at = self._delivered
            self._is_scan_lost = False
        self._delivered = dict(self._seen), self._last_scan_at
        now, (paths, has_more) = self._clock(), list_node_files(self._path, self._seen)
        yield from self._report_left_out(has_more=has_more)
        for path in paths:  # before any that lists several hosts
            self._hosts.claim(target_from_path(path), path, str(self._path))
        deliveries = [
            delivery
            for path in (paths if reread else self._in_turn(paths))
            for delivery in self._read_or_failure(path, reread=reread)
        ]
        yield from sorted(deliveries, key=claim_order)
        # Forget files that are gone: otherwise names that change daily would pile up.
        current, names = set(paths), set(map(target_from_path, paths))
        # Those that could never be read, too: each has claimed its host, and its failure is shown.
        gone = [path for path in self._listed if target_from_path(path) not in names]
        for target in [target for path in gone for target in self._hosts.release(path)]:
            yield Delivery(source=self.name, target=target, result=None)
        self._listed = paths
        self._seen = {path: seen for path, seen in self._seen.items() if path in current}
        self._truncated_since = {
            path: since for path, since in self._truncated_since.items() if path in current
        }
        # When it began: a file that changed during this scan has changed after that.
        self._last_scan_at = now

    def _report_left_out(self, *, has_more: bool) -> Iterator[Delivery]:
        """Say at the folder that some of its files are not read, until all of them are."""
        result = Refused(_TOO_MANY_FILES, str(self._path)) if has_more else None
        if has_more or self._had_more:
            yield Delivery(source=self.name, target=str(self._path), result=result)
        self._had_more = has_more

    def _in_turn(self, paths: Sequence[Path]) -> Iterator[Path]:
        """The usual files, then the new and the large, from where the last scan had to stop.

        Anyone who can write to the folder could add files that take longer than the timeout.
        """
        unusual = sorted(path for path in paths if path not in self._seen or is_large(path))
        yield from sorted(set(paths).difference(unusual))
        first, ends_at = bisect_right(unusual, self._last_unusual), inf
        for path in unusual[first:] + unusual[:first]:
            ends_at = min(ends_at, time.monotonic() + _UNUSUAL_FILES_SECONDS)
            yield path
            self._last_unusual = path
            if time.monotonic() >= ends_at:
                return

    def _read_or_failure(self, path: Path, *, reread: bool) -> Iterator[Delivery]:
        """The deliveries of one file, or its failure: one bad file hides no other."""
        target = self._hosts.claim(target_from_path(path), path, str(self._path))
        try:
            yield from self._read(path, target, reread=reread)
        except FileNotFoundError:
            return  # its node is replacing it at this moment
        except DeliveryError as error:
            # Only if it was complete before: its node then still has that report to show.
            is_truncated = path in self._seen and isinstance(error, EmptyReport | TruncatedReport)
            if not (is_truncated and self._is_being_written(path)):
                failure = type(error)(error.message, target)
                yield Delivery(source=self.name, target=target, result=failure)
        except OSError as error:
            yield Delivery(
                source=self.name, target=target, result=open_error_to_failure(error, target)
            )

    def _read(self, path: Path, target: str, *, reread: bool) -> Sequence[Delivery]:
        with open_shared_file(path) as file:
            now, seen = self._clock(), self._seen.get(path)
            if seen is not None and seen.stamp == file.stamp and not reread:
                return ()
            body = file.read()
        written_at = self._written_at(file, seen, now)
        if written_at is None:
            # Remembered without a time: its next change is dated by the scans.
            self._seen[path] = _SeenFile(file.stamp, None)
            ahead = format_duration(file.modified_at - now)
            raise Undecodable(f"is dated {ahead} from now: its age is unknown until it changes")
        is_report = path.suffix == FILE_SUFFIX
        if is_report:
            reports = _decode_report_file(body, target, written_at, now)
            deliveries = [self._with_polling_interval(delivery) for delivery in reports]
        else:
            own_name = target_from_path(path)
            deliveries = list(_decode_other_file(body, own_name, written_at, now))
            self._hosts.release(path, {own_name, *(each.target for each in deliveries)})
            deliveries = [
                self._hosts.disambiguate(each, path, str(self._path)) for each in deliveries
            ]
        gpus = () if is_report else _list_gpus(deliveries)
        if seen is not None and _is_prefix(gpus, seen.gpus) and self._is_being_written(path):
            return ()
        self._seen[path] = _SeenFile(file.stamp, written_at, gpus)
        self._truncated_since.pop(path, None)
        self._count_nodes(deliveries)
        return deliveries

    def _count_nodes(self, deliveries: Sequence[Delivery]) -> None:
        """Raise `Refused` for a new node beyond the limit: anyone who can write invents nodes."""
        ids = {each.result.node_id for each in deliveries if isinstance(each.result, Snapshot)}
        new = ids - self._node_ids
        if new and len(self._node_ids) + len(new) > MAX_FILES:
            raise Refused(f"is of a new node, and this folder has had {MAX_FILES}: restart the hub")
        self._node_ids |= new

    def _with_polling_interval(self, delivery: Delivery) -> Delivery:
        if not isinstance(delivery.result, Snapshot):
            return delivery
        result = with_polling_interval(delivery.result, self._interval_seconds)
        return replace(delivery, result=result)

    def _written_at(self, file: SharedFile, seen: _SeenFile | None, now: float) -> float | None:
        """When a file was written, by the hub's clock; `None` if that is not known."""
        if seen is None:
            is_ahead = file.modified_at > now + _MAX_CLOCK_AHEAD_SECONDS
            return None if is_ahead else min(file.modified_at, now)
        if seen.stamp == file.stamp:
            return seen.written_at
        # It changed after the last scan, whatever the clock of the file server says.
        return max(min(file.modified_at, now), self._last_scan_at)

    def _is_being_written(self, path: Path) -> bool:
        """Whether a truncated file may still be completed: writers may rewrite it in place."""
        since = self._truncated_since.setdefault(path, self._clock())
        return self._clock() - since < self._grace_seconds


def _list_gpus(deliveries: Sequence[Delivery]) -> tuple[tuple[str, int], ...]:
    """The GPUs of a file in its order; a host without any counts as one entry."""
    listed: list[tuple[str, int]] = []
    for delivery in deliveries:
        gpus = delivery.result.gpus if isinstance(delivery.result, Snapshot) else ()
        listed += [(delivery.target, gpu.index) for gpu in gpus] or [(delivery.target, -1)]
    return tuple(listed)


def _is_prefix(gpus: tuple[tuple[str, int], ...], before: tuple[tuple[str, int], ...]) -> bool:
    """Whether a file lists only the first GPUs of what it listed before.

    That is how the plain text of gpustat looks when it is half written: it has no end mark.
    """
    return len(gpus) < len(before) and before[: len(gpus)] == gpus


def _decode_report_file(
    body: bytes, target: str, written_at: float, now: float
) -> Iterator[Delivery]:
    if not body:
        raise EmptyReport("is empty: its writer was interrupted, or the disk is full")
    report = decode_report(body, json=body[:1] == b"{")
    snapshot = report.snapshots[-1]
    age = report.age_seconds(snapshot) + now - written_at
    yield Delivery(
        source=FilesSource.name,
        target=target,
        result=snapshot,
        age_seconds=age,
    )


def _decode_other_file(
    body: bytes, target: str, written_at: float, now: float
) -> Iterator[Delivery]:
    """The output of another program: of one host as a rule, of several from gpustat-web."""
    decode = load_file_decoder()
    if decode is None:
        raise Undecodable(f"is not a report: reports end in {FILE_SUFFIX}")
    results = decode(body, target, round(written_at, 3))
    for result in results:
        name = result.name if isinstance(result, Snapshot) else result.node
        delivered = (
            replace(result, interval_seconds=_CRON_SECONDS)
            if isinstance(result, Snapshot)
            else result
        )
        yield Delivery(
            source=FilesSource.name,
            target=target if len(results) == 1 else name or target,
            result=delivered,
            age_seconds=now - written_at,
            id_origin="target",
        )
