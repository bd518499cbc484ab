"""Snapshot builder: reads the subjects of one snapshot within deadlines, with fallbacks."""

import time
from collections.abc import Iterable, Mapping
from typing import Any

from msgspec.structs import astuple, replace

from fleet_smi import __version__
from fleet_smi.errors import CollectError, DriverMismatch, NotAnswering, NotPresent, ReadFailed
from fleet_smi.model.merge import (
    all_processes,
    fault_from_error,
    fault_kind,
    with_hidden_processes,
    with_host_memory,
    with_leases,
    with_node_scoped_uuid,
    with_process_details,
)
from fleet_smi.model.safe_text import sanitize_text
from fleet_smi.model.snapshot import CollectorRun, Gpu, Host, Outcome, Snapshot
from fleet_smi.node.collector import SnapshotPart, load_collector
from fleet_smi.node.collectors import COLLECTORS
from fleet_smi.node.reader_types import ReadResult, ReadTimeouts, SubjectReader
from fleet_smi.node.reader_worker import ReadRequest
from fleet_smi.node.vendor_programs import (
    FALLBACKS,
    FindProgram,
    fill_in,
    find_program,
    needs_program,
)

READ_TIMEOUT_SECONDS = 3.0
"""How long a sample waits for a subject that makes no progress, before it calls it slow."""

SAMPLE_TIMEOUT_SECONDS = 4.0
"""How long a sample may take in all, unless a slow driver still makes progress."""

# A program must give up before its reader does: the reader would be killed, the program not.
_PROGRAM_MARGIN_SECONDS = 0.5
_MIN_PROGRAM_SECONDS = 0.5
# Beside a slow driver a new worker has to start before it can list the devices by their files.
_MIN_READ_SECONDS = 1.5
_PROGRAMS = frozenset(program for programs in FALLBACKS.values() for program in programs)
_ORDER = {entry.name: position for position, entry in enumerate(COLLECTORS)}
_DRIVERS = frozenset(entry.name for entry in COLLECTORS if entry.is_driver)
_ABSENCE_CACHED = frozenset(entry.name for entry in COLLECTORS if entry.absence_is_cached)
_UNREAD_HOST = Host()
_UNREAD_VALUES = astuple(_UNREAD_HOST)


class SnapshotBuilder:
    """Builds one snapshot from what the collectors parse; how each fared is part of it.

    `skipped` are the runs of collectors that are not tried this time. Programs that are not found
    are added to `not_installed`, which the caller passes to the next builder.
    """

    def __init__(
        self,
        reader: SubjectReader,
        root: str,
        skipped: Mapping[str, CollectorRun],
        not_installed: set[str],
        find_program: FindProgram = find_program,
        *,
        patient: bool = False,
    ) -> None:
        self._reader = reader
        self._root = root
        self._patient = patient
        self._deadline = time.monotonic() + SAMPLE_TIMEOUT_SECONDS
        self._taken_at = time.time()
        self._parts: list[SnapshotPart] = []
        self._gpus: list[Gpu] = []
        self._runs: dict[str, CollectorRun] = dict(skipped)
        self._not_installed = not_installed
        self._find_program = find_program
        self._failures: dict[str, CollectError] = {}

    def read(self, requests: list[ReadRequest]) -> bool:
        """Read these subjects; return whether all of them succeeded."""
        if self._patient:
            results = self._reader.read(requests, ReadTimeouts())
            # The time that a slow driver took is not taken from the programs after it.
            self._deadline = max(self._deadline, time.monotonic() + SAMPLE_TIMEOUT_SECONDS)
        else:
            left = self._deadline - time.monotonic()
            timeouts = ReadTimeouts(READ_TIMEOUT_SECONDS, max(_MIN_READ_SECONDS, left))
            results = self._reader.read(requests, timeouts)
        for (name, _), result in zip(requests, results, strict=True):
            self._add_result(name, result)
        return not any(name in self._failures for name, _ in requests)

    def _add_result(self, name: str, result: ReadResult) -> None:
        """Parse a result; a failure becomes data of the snapshot, not only a log line."""
        error = result.error
        if error is None:
            try:
                part = load_collector(name).parse(result.value)
            except CollectError as failure:
                error = failure
            except Exception as bug:  # noqa: BLE001  # a bug in one collector must not blind the node
                error = ReadFailed(f"bug: {bug!r}")
        if error is None:
            self._parts.append(part)
            self._gpus.extend(part.gpus)
            self._record_run(name, "ok", result.seconds)
        else:
            self._failures[name] = error
            outcome: Outcome = "absent" if isinstance(error, NotPresent) else "failed"
            self._record_run(name, outcome, result.seconds, error)

    def read_nvidia_fallbacks(self) -> None:
        """Where NVML failed, run `nvidia-smi`; where that fails too, list the kernel's devices."""
        error = self._failures.get("nvidia")
        if error is None:
            return
        seconds = self._seconds_for_program()
        # nvidia-smi uses the same driver: where that hangs or mismatches, it fails the same way.
        pointless = isinstance(error, (DriverMismatch, NotAnswering))
        if (
            not pointless
            and seconds
            and self.read([("nvidia_smi", {"root": self._root, "timeout_seconds": seconds})])
        ):
            self._read_processes()
            return
        # The GPUs after these come from the fallback, and get the fault of the driver.
        known = len(self._gpus)
        self.read([("nvidia_kernel", {"root": self._root})])
        if len(self._gpus) == known and isinstance(error, NotAnswering):
            self._gpus.extend(_gpus_before_hang(error))
        fault = fault_from_error(self._root_cause(error))
        # A GPU that sleeps is not broken: it was left alone on purpose.
        self._gpus[known:] = [
            gpu if gpu.asleep else replace(gpu, fault=fault) for gpu in self._gpus[known:]
        ]

    def read_vendor_programs(self, subjects: tuple[str, ...]) -> None:
        """Run AMD's or Intel's program where the kernel's files give no GPU or no figures."""
        for vendor, programs in FALLBACKS.items():
            listed = [gpu for gpu in self._gpus if gpu.vendor == vendor]
            if vendor in subjects and needs_program(listed, self._failures.get(vendor)):
                # The first one that succeeds is enough.
                any(self._run_program(program, vendor, listed) for program in programs)

    def _run_program(self, program: str, vendor: str, listed: list[Gpu]) -> bool:
        """Run a program if it is installed; return whether it succeeded."""
        seconds = self._seconds_for_program()
        if program in self._runs or program in self._not_installed or not seconds:
            return False
        path = self._find_program(program)
        if path is None:
            self._not_installed.add(program)
            return False
        if not self.read([(program, {"program": path, "timeout_seconds": seconds})]):
            return False
        # `read` has added the program's GPUs beside those of the files: replace both by the merge.
        merged = fill_in(listed, self._parts[-1].gpus)
        self._gpus = [*(gpu for gpu in self._gpus if gpu.vendor != vendor), *merged]
        self._read_processes()
        return True

    def _seconds_for_program(self) -> float:
        """The timeout of a program that is started now; 0.0 if too little time is left."""
        seconds = self._deadline - time.monotonic() - _PROGRAM_MARGIN_SECONDS
        return seconds if seconds >= _MIN_PROGRAM_SECONDS else 0.0

    def _root_cause(self, error: CollectError) -> CollectError:
        """Why nothing was read: nvidia-smi's error, unless that is only its absence."""
        second = self._failures.get("nvidia_smi", error)
        return error if isinstance(second, NotPresent) else second

    def _read_processes(self) -> None:
        """Look up the pids that a program printed, which only its collector can parse."""
        pids = {process.pid for gpu in self._gpus for process in all_processes(gpu)}
        # The boot-time clock is what start times in /proc count in: a process younger than the
        # list has reused a pid.
        listed_at = time.clock_gettime(time.CLOCK_BOOTTIME)
        arguments = {"root": self._root, "pids": tuple(sorted(pids)), "listed_at": listed_at}
        self.read([("processes", arguments)])

    def join_processes(self) -> None:
        """Join owners and commands to the pids that the drivers listed."""
        details = {pid: process for part in self._parts for pid, process in part.processes.items()}
        self._gpus = [with_process_details(gpu, details) for gpu in self._gpus]

    def runs_to_skip(self) -> dict[str, CollectorRun]:
        """The runs that the next samples repeat as they are, without trying again.

        Hardware that is absent, and programs that failed: both cost too much at every sample.
        """
        return {
            name: run
            for name, run in self._runs.items()
            if (run.outcome == "absent" and name in _ABSENCE_CACHED)
            or (run.outcome == "failed" and name in _PROGRAMS)
        }

    @property
    def identity(self) -> SnapshotPart | None:
        """The part that identifies this node, if it was read."""
        return next((part for part in self._parts if part.node_id), None)

    def snapshot(self, identity: SnapshotPart, name: str | None) -> Snapshot:
        """Return the snapshot of what was read so far."""
        host = _merge_hosts(part.host for part in self._parts)
        name = sanitize_text(name or identity.name or "", 128) or "localhost"
        # Without a readable machine-id the name has to do: a snapshot needs an identity.
        node_id = identity.node_id or f"name-{name}"
        gpus = [with_node_scoped_uuid(with_host_memory(gpu, host), node_id) for gpu in self._gpus]
        if host.pid_namespace:
            gpus = [with_hidden_processes(gpu) for gpu in gpus]
        leases = {key: lease for part in self._parts for key, lease in part.leases.items()}
        if leases:
            gpus = [with_leases(gpu, leases) for gpu in gpus]
        return Snapshot(
            node_id=node_id,
            name=name,
            taken_at=self._taken_at,
            boot_id=identity.boot_id,
            agent_version=__version__,
            host=host,
            gpus=tuple(gpus),
            runs=tuple(sorted(self._runs.values(), key=lambda run: _ORDER[run.name])),
        )

    def _record_run(
        self, name: str, outcome: Outcome, seconds: float, error: CollectError | None = None
    ) -> None:
        prefix = ""
        if isinstance(error, NotAnswering) and name in _DRIVERS:
            prefix = "driver slow: " if fault_kind(error) == "slow" else "driver not answering: "
        self._runs[name] = CollectorRun(
            name=name,
            outcome=outcome,
            seconds=round(seconds, 6),
            detail="" if error is None else f"{prefix}{error}",
            fault=None if error is None or outcome == "absent" else fault_kind(error),
        )


def _gpus_before_hang(error: NotAnswering) -> tuple[Gpu, ...]:
    """The GPUs that the driver had listed before it stopped answering."""
    indexes = range(error.partial_result.get("count", 0))
    unknown = {"pci": None, "uuid": None, "name": None}
    devices = [
        {**unknown, **error.partial_result.get(index, {}), "asleep": False} for index in indexes
    ]
    return load_collector("nvidia_kernel").parse({"version": None, "devices": devices}).gpus


def _merge_hosts(hosts: Iterable[Host]) -> Host:
    fields: dict[str, Any] = {}
    for host in hosts:
        if host == _UNREAD_HOST:  # most parts know nothing of it
            continue
        # A part that does not know a field must not erase what another part has read.
        for field, value, unread in zip(
            Host.__struct_fields__, astuple(host), _UNREAD_VALUES, strict=True
        ):
            if value is not unread and value != unread:
                fields[field] = value
    return Host(**fields)
