"""A captured machine as a fleet of one node: its readings are parsed and judged as new ones."""

import os
import stat
from collections.abc import Sequence
from typing import TYPE_CHECKING

from msgspec.structs import replace

from fleet_smi.errors import (
    FleetError,
    NotAnswering,
    NotPresent,
    ReadFailed,
    UsageError,
)
from fleet_smi.fleet.one_machine import OneMachine
from fleet_smi.model.fleet import FleetView
from fleet_smi.model.snapshot import Snapshot
from fleet_smi.model.verdict.thresholds import Thresholds
from fleet_smi.node.reader_types import COLLECT_ERRORS, ReadResult, ReadTimeouts
from fleet_smi.node.reader_worker import ReadRequest
from fleet_smi.node.sampler import Sampler
from fleet_smi.wire.capture.capture_file import (
    MAX_CAPTURE_BYTES,
    CapturedReading,
    CapturedSample,
    CaptureFile,
    decode_capture,
)
from fleet_smi.wire.capture.raw_values import from_plain
from fleet_smi.wire.report import decode_report, encode_report, encode_snapshot

if TYPE_CHECKING:
    from fleet_smi.fleet.polled import ShowPartial

NAME_PREFIX = "replay-"
"""Begins the name of a node that is replayed, so that every view shows what it is."""


def read_capture(path: str) -> CaptureFile:
    """Read a capture file; raise `UsageError` if it is none."""
    try:
        # A pipe in its place must not block.
        handle = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        with os.fdopen(handle, "rb") as file:
            if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
                raise UsageError(f"{path} is not a file")
            data = file.read(MAX_CAPTURE_BYTES + 1)
    except OSError as error:
        raise UsageError(f"{path} cannot be read: {error.strerror}") from None
    return decode_capture(data, path)


class ReplayFleet:
    """Replaces a hub: shows a captured machine as it was when it was captured."""

    is_local = False

    def __init__(self, path: str, thresholds: Thresholds) -> None:
        self.thresholds = thresholds
        self.capture = read_capture(path)
        self._path = path
        self._view: FleetView | None = None

    def view(
        self,
        interval_seconds: float | None = None,
        show_partial: "ShowPartial | None" = None,
    ) -> FleetView:
        """Return the captured machine with its verdicts; raise `UsageError` for a damaged file."""
        if self._view is None:
            try:
                self._view = self._replayed()
            except FleetError:
                raise
            except Exception as error:  # noqa: BLE001  # a file from outside may hold anything
                raise UsageError(
                    f"{self._path} is a damaged capture: {type(error).__name__}: {error}"
                ) from None
        return self._view

    def _replayed(self) -> FleetView:
        machine, reader = OneMachine(self.thresholds), ReplayReader()
        sampler = Sampler(reader, patient=True, find_program=reader.find_program)
        for sample in self.capture.samples:
            reader.load(sample)
            machine.apply(_checked(sampler.sample(), sample.at))
        view = machine.view(self.capture.samples[-1].at)
        return replace(view, nodes=tuple([replace(node, via="replay") for node in view.nodes]))


def _checked(snapshot: Snapshot, at: float) -> Snapshot:
    """Return a snapshot as a hub would accept it: what a file says is hostile input."""
    named = replace(snapshot, taken_at=at, name=NAME_PREFIX + snapshot.name)
    report = decode_report(encode_report([encode_snapshot(named)], at))
    return report.snapshots[0]


class ReplayReader:
    """Returns the readings of a captured sample instead of reading this machine."""

    def __init__(self) -> None:
        self._readings: dict[str, CapturedReading] = {}

    def load(self, sample: CapturedSample) -> None:
        """Return the readings of this sample from now on."""
        self._readings = sample.readings

    def find_program(self, collector: str) -> str | None:
        """Return a name for a program that was installed on the captured machine."""
        return collector if collector in self._readings else None

    def prefetch(self, requests: Sequence[ReadRequest]) -> None:
        """Do nothing: all readings are there."""

    def read(self, requests: Sequence[ReadRequest], timeouts: ReadTimeouts) -> list[ReadResult]:
        """Return what was captured of each subject."""
        return [self._result(subject) for subject, _ in requests]

    def detach(self) -> None:
        """Do nothing: no worker was started."""

    def close(self) -> None:
        """Do nothing: no worker was started."""

    def _result(self, subject: str) -> ReadResult:
        found = self._readings.get(subject)
        if found is None:
            return ReadResult(None, NotPresent("not in this capture"), 0.0)
        value = from_plain(found.value)
        if found.outcome == "ok":
            return ReadResult(value, None, found.seconds)
        kind = COLLECT_ERRORS.get(found.outcome, ReadFailed)
        if issubclass(kind, NotAnswering):
            known = value if isinstance(value, dict) else {}
            return ReadResult(None, kind(found.message, found.since, known), found.seconds)
        return ReadResult(None, kind(found.message), found.seconds)
