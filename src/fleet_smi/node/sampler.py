"""Sampler: takes numbered snapshots of this machine, and skips for a while what is absent."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from msgspec.structs import replace

from fleet_smi.model.snapshot import CollectorRun, Snapshot
from fleet_smi.node.collector import SnapshotPart
from fleet_smi.node.collectors import ALL_SUBJECTS
from fleet_smi.node.reader import Deadlines
from fleet_smi.node.reader_types import SubjectReader
from fleet_smi.node.reader_worker import ReadRequest
from fleet_smi.node.snapshot_builder import SnapshotBuilder
from fleet_smi.node.vendor_programs import FindProgram, find_program

if TYPE_CHECKING:
    from fleet_smi.config.settings import NodeSettings

_ABSENCE_CACHED_SAMPLES = 30


def driver_deadlines(settings: "NodeSettings") -> Deadlines:
    """Return the deadlines of driver calls that are set for this machine."""
    return Deadlines(settings.driver_timeout, settings.driver_init_timeout)


class Sampler:
    """Takes snapshots of this machine, one after the other, through one reader.

    A `patient` one waits for a slow driver until its deadline, as somebody who wants one answer
    does; any other reports meanwhile that the driver is slow.
    """

    def __init__(
        self,
        reader: SubjectReader,
        *,
        root: str = "/",
        subjects: tuple[str, ...] = ALL_SUBJECTS,
        traffic: bool = False,
        patient: bool = False,
        name: str | None = None,
        run_id: str | None = None,
        labels: Mapping[str, str] | None = None,
        lease_dir: str | None = None,
        find_program: FindProgram = find_program,
    ) -> None:
        self._reader = reader
        self._find_program = find_program
        self._root = root
        self._subjects = subjects
        self._traffic = traffic
        self._patient = patient
        self._name = name
        self._run_id = run_id
        self._labels = dict(labels or {})
        self._lease_dir = lease_dir
        self._sequence = 0
        # Runs of what failed or is absent, repeated in each snapshot until it is tried again.
        self._skipped: dict[str, CollectorRun] = {}
        self._not_installed: set[str] = set()
        # The last known identity: one failed read of the host must not look like a new node.
        self._identity = SnapshotPart()

    def prefetch(self) -> None:
        """Send the next sample's requests now, so that the reader works while the caller does."""
        self._reader.prefetch(self._requests())

    def sample(self, interval_seconds: float | None = None) -> Snapshot:
        """Take one snapshot; returns within the timeout or the deadlines, whatever happens."""
        builder = SnapshotBuilder(
            self._reader,
            self._root,
            self._skipped,
            self._not_installed,
            self._find_program,
            patient=self._patient,
        )
        builder.read(self._requests())
        if "nvidia" in self._subjects:
            builder.read_nvidia_fallbacks()
        builder.read_vendor_programs(self._subjects)
        builder.join_processes()
        self._sequence += 1
        self._skipped = builder.runs_to_skip()
        # A card can be added to a running machine, but looking for one every second is a waste.
        if self._sequence % _ABSENCE_CACHED_SAMPLES == 0:
            self._skipped, self._not_installed = {}, set()
        self._identity = builder.identity or self._identity
        return replace(
            builder.snapshot(self._identity, self._name),
            interval_seconds=interval_seconds,
            sequence=self._sequence,
            run_id=self._run_id,
            labels=self._labels,
        )

    def detach(self) -> None:
        """Release a reader that this process has inherited by a fork."""
        self._reader.detach()

    def close(self) -> None:
        """Stop the reader."""
        self._reader.close()

    def _requests(self) -> list[ReadRequest]:
        arguments: dict[str, dict[str, Any]] = {
            "nvidia": {"traffic": self._traffic},
            "processes": {"pids": None},
            "leases": {"folder": self._lease_dir},
        }
        return [
            (subject, {"root": self._root, **arguments.get(subject, {})})
            for subject in self._subjects
            if subject not in self._skipped
        ]
