"""The collector contract, the deadlines, and how parts become a snapshot."""

import time
from collections.abc import Iterable, Mapping
from typing import Any, Protocol

from msgspec import Struct
from msgspec.structs import asdict, replace

from fleet_smi import __version__
from fleet_smi.errors import CollectError, DriverMismatch, NotAnswering, NotPresent, ReadFailed
from fleet_smi.model.merge import (
    all_processes,
    fault_from_error,
    fault_kind,
    with_host_memory,
    with_node_scoped_uuid,
    with_process_details,
)
from fleet_smi.model.safe_text import sanitize_text
from fleet_smi.model.snapshot import CollectorRun, Gpu, Host, Outcome, Process, Snapshot
from fleet_smi.node.collectors import COLLECTORS, load_collector
from fleet_smi.node.reader_process import Reader, ReadResult
from fleet_smi.node.reader_worker import ReadRequest
from fleet_smi.node.vendor_programs import FALLBACKS, fill_in, find_program, needs_program

READ_TIMEOUT_SECONDS = 3.0
"""How long a look waits for its subjects before it gives up the one that does not answer."""

SAMPLE_TIMEOUT_SECONDS = 4.0
"""How long a look may take in all, whatever the machine does."""

QUICK_SUBJECTS = ("nvidia", "amd", "intel", "host")
ALL_SUBJECTS = (*QUICK_SUBJECTS, "network")
_PROGRAMS = tuple(program for programs in FALLBACKS.values() for program in programs)
_OTHER_VENDORS = (*FALLBACKS, *_PROGRAMS)
_LOOKS_FOR_VENDORS = 30
_DRIVERS = ("nvidia", "nvidia_smi", *_OTHER_VENDORS)


class SnapshotPart(Struct, frozen=True, kw_only=True):
    """What one collector adds to a snapshot."""

    gpus: tuple[Gpu, ...] = ()
    host: Host = Host()
    node_id: str | None = None
    name: str | None = None
    boot_id: str | None = None
    processes: dict[int, Process] = {}


class Collector(Protocol):
    """Turns what one binding read into a typed part of a snapshot.

    The binding of its name (`READINGS` in `node/reader_worker.py`) runs in the reader. It
    returns plain values (dict, list, str, int, float, bytes, None), raises `NotPresent` when
    this machine has no such subject and `ReadFailed` when it has one that would not answer.
    """

    name: str

    def parse(self, raw: Any) -> SnapshotPart:
        """Make the typed part of what was read. Pure; never a made-up value."""


class Sampler:
    """Takes snapshots of this machine, one after the other, through one reader."""

    def __init__(
        self,
        reader: Reader,
        *,
        root: str = "/",
        subjects: tuple[str, ...] = ALL_SUBJECTS,
        traffic: bool = False,
        name: str | None = None,
        run_id: str | None = None,
        labels: Mapping[str, str] | None = None,
    ) -> None:
        self._reader = reader
        self._root = root
        self._subjects = subjects
        self._traffic = traffic
        self._name = name
        self._run_id = run_id
        self._labels = dict(labels or {})
        self._sequence = 0
        self._absent: dict[str, CollectorRun] = {}  # not tried again for a while
        self._own = SnapshotPart()  # who the node is, from the last look that told

    def prefetch(self) -> None:
        """Ask ahead, so that the machine is read while the caller does something else."""
        self._reader.prefetch(self._requests())

    def sample(self, interval_seconds: float | None = None) -> Snapshot:
        """One snapshot, now; answers in time whatever the machine does."""
        look = _Look(self._reader, self._root, self._absent)
        look.at(self._requests())
        if "nvidia" in self._subjects:
            look.at_nvidia_otherwise()
        look.at_vendor_programs(self._subjects)
        look.join_people()
        self._sequence += 1
        # A card may be added while we live, but not every second.
        again = self._sequence % _LOOKS_FOR_VENDORS == 0
        self._absent = {} if again else look.absent(_OTHER_VENDORS) | look.failed(_PROGRAMS)
        self._own = look.own or self._own
        return replace(
            look.snapshot(self._own, self._name),
            interval_seconds=interval_seconds,
            sequence=self._sequence,
            run_id=self._run_id,
            labels=self._labels,
        )

    def detach(self) -> None:
        """Let go of a reader that a fork of this process has inherited."""
        self._reader.detach()

    def close(self) -> None:
        """Let go of the reader."""
        self._reader.close()

    def _requests(self) -> list[ReadRequest]:
        more: dict[str, dict[str, Any]] = {
            "nvidia": {"traffic": self._traffic},
            "processes": {"pids": None},
        }
        return [
            (subject, {"root": self._root, **more.get(subject, {})})
            for subject in (*self._subjects, "processes")
            if subject not in self._absent
        ]


class _Look:
    """One snapshot in the making."""

    def __init__(self, reader: Reader, root: str, absent: Mapping[str, CollectorRun]) -> None:
        self._reader = reader
        self._root = root
        self._until = time.monotonic() + SAMPLE_TIMEOUT_SECONDS
        self._taken_at = time.time()
        self._parts: list[SnapshotPart] = []
        self._gpus: list[Gpu] = []
        self._runs: dict[str, CollectorRun] = dict(absent)
        self._failures: dict[str, CollectError] = {}

    def at(self, requests: list[ReadRequest]) -> bool:
        """Read these subjects; whether all of them answered."""
        left = self._until - time.monotonic()
        answers = self._reader.read(requests, READ_TIMEOUT_SECONDS, max(0.1, left))
        for (name, _), answer in zip(requests, answers, strict=True):
            self._take(name, answer)
        return not any(name in self._failures for name, _ in requests)

    def _take(self, name: str, answer: ReadResult) -> None:
        """Make a part of an answer; how each fared is data, not only a log line."""
        error = answer.error
        if error is None:
            try:
                part = load_collector(name).parse(answer.value)
            except CollectError as failure:
                error = failure
            except Exception as bug:  # noqa: BLE001  # a bug in one collector must not blind the node
                error = ReadFailed(f"bug: {bug!r}")
        if error is None:
            self._parts.append(part)
            self._gpus.extend(part.gpus)
            self._ran(name, "ok", answer.seconds)
        else:
            self._failures[name] = error
            self._ran(
                name, "absent" if isinstance(error, NotPresent) else "failed", answer.seconds, error
            )

    def at_nvidia_otherwise(self) -> None:
        """Where NVML did not tell: `nvidia-smi`, and else what the kernel still knows."""
        error = self._failures.get("nvidia")
        if error is None:
            return
        # It must give up by itself before it is given up, or it would be left behind.
        seconds = self._until - time.monotonic() - 0.5
        # With a hung or mismatched driver nvidia-smi would fare alike.
        hopeless = isinstance(error, (DriverMismatch, NotAnswering)) or seconds < 0.5
        if not hopeless and self.at(
            [("nvidia_smi", {"root": self._root, "timeout_seconds": seconds})]
        ):
            self._ask_for_people()
            return
        known = len(self._gpus)
        self.at([("nvidia_kernel", {"root": self._root})])
        if len(self._gpus) == known and isinstance(error, NotAnswering):
            self._gpus.extend(_met(error))
        fault = fault_from_error(self._first_cause(error))
        self._gpus[known:] = [
            gpu if gpu.asleep else replace(gpu, fault=fault) for gpu in self._gpus[known:]
        ]

    def at_vendor_programs(self, subjects: tuple[str, ...]) -> None:
        """Run AMD's or Intel's program where the files of the kernel give no GPU or no figures."""
        for vendor, programs in FALLBACKS.items():
            listed = [gpu for gpu in self._gpus if gpu.vendor == vendor]
            if vendor not in subjects or not needs_program(listed, self._failures.get(vendor)):
                continue
            for program in programs:
                if self._run_program(program, listed):
                    break

    def _run_program(self, program: str, listed: list[Gpu]) -> bool:
        """Run a program that is installed; return whether it answered."""
        # It must give up by itself before it is given up, or it would be left behind.
        seconds = self._until - time.monotonic() - 0.5
        path = find_program(program) if program not in self._runs and seconds >= 0.5 else None
        if path is None or not self.at([(program, {"program": path, "timeout_seconds": seconds})]):
            return False
        merged = fill_in(listed, self._parts[-1].gpus)
        self._gpus = [gpu for gpu in self._gpus if gpu.vendor != merged[0].vendor] + [*merged]
        self._ask_for_people()
        return True

    def _first_cause(self, error: CollectError) -> CollectError:
        """Why nothing is known: what nvidia-smi says where it says more than that it is absent."""
        second = self._failures.get("nvidia_smi", error)
        return error if isinstance(second, NotPresent) else second

    def _ask_for_people(self) -> None:
        """nvidia-smi names pids in its text, which only its collector can read."""
        pids = {process.pid for gpu in self._gpus for process in all_processes(gpu)}
        listed_at = time.clock_gettime(time.CLOCK_BOOTTIME)
        known = {"root": self._root, "pids": tuple(sorted(pids)), "listed_at": listed_at}
        self.at([("processes", known)])

    def join_people(self) -> None:
        """Join owners and commands to the pids that the drivers named."""
        people = {pid: person for part in self._parts for pid, person in part.processes.items()}
        self._gpus = [with_process_details(gpu, people) for gpu in self._gpus]

    def absent(self, subjects: Iterable[str]) -> dict[str, CollectorRun]:
        """How those of these subjects fared that this machine has not."""
        found = {name: run for name, run in self._runs.items() if name in subjects}
        return {name: run for name, run in found.items() if run.outcome == "absent"}

    def failed(self, programs: Iterable[str]) -> dict[str, CollectorRun]:
        """How those of these programs fared that failed: too costly to run at every look."""
        found = {name: run for name, run in self._runs.items() if name in programs}
        return {name: run for name, run in found.items() if run.outcome == "failed"}

    @property
    def own(self) -> SnapshotPart | None:
        """The part that tells who this node is."""
        return next((part for part in self._parts if part.node_id), None)

    def snapshot(self, own: SnapshotPart, name: str | None) -> Snapshot:
        host = _joined(part.host for part in self._parts)
        name = sanitize_text(name or own.name or "", 128) or "localhost"
        node_id = own.node_id or f"name-{name}"
        gpus = (with_node_scoped_uuid(with_host_memory(gpu, host), node_id) for gpu in self._gpus)
        return Snapshot(
            node_id=node_id,
            name=name,
            taken_at=self._taken_at,
            boot_id=own.boot_id,
            agent_version=__version__,
            host=host,
            gpus=tuple(gpus),
            runs=tuple(sorted(self._runs.values(), key=lambda run: COLLECTORS.index(run.name))),
        )

    def _ran(
        self, name: str, outcome: Outcome, seconds: float, error: CollectError | None = None
    ) -> None:
        silent = isinstance(error, NotAnswering) and name in _DRIVERS
        self._runs[name] = CollectorRun(
            name=name,
            outcome=outcome,
            seconds=round(seconds, 6),
            detail="" if error is None else f"{'driver not answering: ' if silent else ''}{error}",
            fault=None if error is None or outcome == "absent" else fault_kind(error),
        )


def _met(error: NotAnswering) -> tuple[Gpu, ...]:
    """The GPUs that the driver had named before it fell silent."""
    places = range(error.partial_result.get("count", 0))
    nameless = {"pci": None, "uuid": None, "name": None}
    devices = [
        {**nameless, **error.partial_result.get(place, {}), "asleep": False} for place in places
    ]
    return load_collector("nvidia_kernel").parse({"version": None, "devices": devices}).gpus


def _joined(hosts: Iterable[Host]) -> Host:
    facts: dict[str, Any] = {}
    for host in hosts:
        facts.update({key: value for key, value in asdict(host).items() if value not in (None, ())})
    return Host(**facts)
