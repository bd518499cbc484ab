"""Capture of this machine: samples through a recording reader, and what its tools print."""

import sys
import time
from collections.abc import Sequence
from typing import Any

from fleet_smi import __version__
from fleet_smi.errors import NotAnswering
from fleet_smi.node.collectors import ALL_SUBJECTS, COLLECTORS
from fleet_smi.node.reader_types import ReadResult, ReadTimeouts, SubjectReader
from fleet_smi.node.reader_worker import ReadRequest
from fleet_smi.node.sampler import Sampler
from fleet_smi.node.vendor_programs import MORE_FOLDERS, find_program
from fleet_smi.wire.capture.capture_file import (
    CapturedOutput,
    CapturedReading,
    CapturedSample,
    CaptureFile,
)
from fleet_smi.wire.capture.private_names import find_private_names
from fleet_smi.wire.capture.private_text import TextScrubber
from fleet_smi.wire.capture.raw_values import to_plain
from fleet_smi.wire.capture.scrub import Scrubber

_TOOLS_SECONDS = 15.0
_PROGRAM_SECONDS = 3.0
_PAUSE_SECONDS = 1.0
Readings = dict[str, ReadResult]


class RecordingReader:
    """Reads through another reader, and keeps what it returned."""

    def __init__(self, reader: SubjectReader) -> None:
        self._reader = reader
        self.readings: Readings = {}

    def prefetch(self, requests: Sequence[ReadRequest]) -> None:
        """Do nothing: a capture has time."""

    def read(self, requests: Sequence[ReadRequest], timeouts: ReadTimeouts) -> list[ReadResult]:
        """Read, and keep the results by subject."""
        results = self._reader.read(requests, timeouts)
        for (subject, _), result in zip(requests, results, strict=True):
            self.readings[subject] = _joined(self.readings.get(subject), result)
        return results

    def detach(self) -> None:
        """Release the reader."""
        self._reader.detach()

    def close(self) -> None:
        """Stop the reader."""
        self._reader.close()


def _joined(before: ReadResult | None, after: ReadResult) -> ReadResult:
    """Join two reads in one sample: the processes of several lists of pids."""
    values = (None if before is None else before.value, after.value)
    if all(isinstance(value, dict) for value in values) and before is not None:
        return after._replace(value=before.value | after.value)
    return after


def take_capture(
    reader: SubjectReader, *, root: str, lease_dir: str | None, samples: int
) -> CaptureFile:
    """Sample this machine, a second apart; return that and what its tools say, scrubbed."""
    taken: list[tuple[float, Readings]] = []
    recorder = RecordingReader(reader)
    sampler = Sampler(recorder, root=root, subjects=ALL_SUBJECTS, patient=True, lease_dir=lease_dir)
    for number in range(samples):
        if number:
            time.sleep(_PAUSE_SECONDS)
        recorder.readings = {}
        snapshot = sampler.sample()
        taken.append((snapshot.taken_at, recorder.readings))
    hung = {
        entry.name.replace("_", "-")
        for entry in COLLECTORS
        if _is_hung(recorder.readings, entry.fallback_for)
    }
    # The vendors' programs would wake a GPU that sleeps.
    if not any(gpu.asleep for gpu in snapshot.gpus):
        _read_fallbacks(recorder, root)
    extra: list[ReadRequest] = [
        ("tool_outputs", {"root": root, "folders": MORE_FOLDERS, "without": tuple(hung)}),
        ("environment", {"root": root}),
    ]
    tools, environment = reader.read(extra, ReadTimeouts(_TOOLS_SECONDS, 2 * _TOOLS_SECONDS))
    return _scrubbed(taken, tools.value or {}, environment.value or {})


def _is_hung(readings: Readings, subject: str | None) -> bool:
    """Whether a driver did not answer: its program would only get stuck beside the reader."""
    found = readings.get(subject or "")
    return found is not None and isinstance(found.error, NotAnswering)


def _read_fallbacks(recorder: RecordingReader, root: str) -> None:
    """Read what no sample needed, so that both ways to read the same cards can be compared."""
    for entry in COLLECTORS:
        if entry.fallback_for is None or entry.name in recorder.readings:
            continue
        if _is_hung(recorder.readings, entry.fallback_for):
            continue
        arguments: dict[str, Any] = {"root": root}
        if entry.name.endswith("_smi"):
            path = find_program(entry.name)
            if path is None:
                continue
            arguments = {"timeout_seconds": _PROGRAM_SECONDS}
            arguments |= {"root": root} if entry.name == "nvidia_smi" else {"program": path}
        timeouts = ReadTimeouts(total_seconds=_TOOLS_SECONDS)
        recorder.read([(entry.name, arguments)], timeouts)


def _scrubbed(
    taken: list[tuple[float, Readings]], tools: dict[str, Any], environment: dict[str, Any]
) -> CaptureFile:
    outputs: dict[str, dict[str, Any]] = tools.get("outputs", {})
    readings = [{name: result.value for name, result in sample.items()} for _, sample in taken]
    names = find_private_names(
        tools.get("names", {}), readings, [output.get("text", "") for output in outputs.values()]
    )
    texts = TextScrubber(names)
    scrubber = Scrubber(texts)
    samples = [
        CapturedSample(
            at=at, readings={name: _reading(scrubber, name, one) for name, one in sample.items()}
        )
        for at, sample in taken
    ]
    shown = {
        command: CapturedOutput(
            text=scrubber.output(output.get("text", "")),
            exit_code=output.get("exit_code"),
            error=texts.text(output.get("error", "")),
        )
        for command, output in outputs.items()
    }
    facts = {
        "python": sys.version.split()[0],
        **environment,
        "user": "root" if environment.get("user") == 0 else "user",
    }
    return CaptureFile(
        fleet_smi=__version__,
        taken_at=taken[-1][0],
        facts=facts,
        samples=tuple(samples),
        outputs=shown,
        replaced=texts.pseudonyms.replaced,
    )


def _reading(scrubber: Scrubber, subject: str, result: ReadResult) -> CapturedReading:
    error = result.error
    if error is None:
        value = scrubber.reading(subject, result.value)
        return CapturedReading(
            outcome="ok", value=to_plain(value), seconds=round(result.seconds, 4)
        )
    hung = error if isinstance(error, NotAnswering) else None
    return CapturedReading(
        outcome=type(error).__name__,
        message=scrubber.output(str(error)),
        value=None if hung is None else to_plain(scrubber.reading("", hung.partial_result)),
        since=None if hung is None else hung.since,
        seconds=round(result.seconds, 4),
    )
