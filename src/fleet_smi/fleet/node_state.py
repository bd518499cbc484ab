"""The state of one node: its latest snapshot, judged."""

from collections.abc import Sequence
from math import inf
from operator import attrgetter

from msgspec.structs import replace

from fleet_smi.fleet.bare_views import view_without_gpus
from fleet_smi.fleet.device_standings import DeviceStandings
from fleet_smi.fleet.inventory import Inventory, gpus_with_missing
from fleet_smi.fleet.node_checkpoint import NodeCheckpoint
from fleet_smi.fleet.node_sample import NodeSample, PackedSample
from fleet_smi.fleet.state_transition import StateTransition
from fleet_smi.fleet.via import Via, find_ssh_host
from fleet_smi.model.fleet import Verdict
from fleet_smi.model.safe_text import natural_sort_key
from fleet_smi.model.sequences import SequenceTracker
from fleet_smi.model.snapshot import Gpu, Instance, Snapshot
from fleet_smi.model.snapshot_figures import SnapshotFigures
from fleet_smi.model.uuids import snapshot_uuids
from fleet_smi.model.verdict.hysteresis import SampleTiming
from fleet_smi.model.verdict.judge import apply_silence, silence_timeout
from fleet_smi.model.verdict.process_group import EMPTY_GROUP
from fleet_smi.model.verdict.thresholds import Thresholds
from fleet_smi.model.views import NodeParts

_by_index = attrgetter("index", "uuid")
# A node's clock that is ahead of the hub's by more than this is wrong, not just imprecise.
_CLOCK_AHEAD_SECONDS = 60.0
# A report is on its way for less than this.
_MAX_DELAY_SECONDS = 60.0


class NodeState:
    """The latest snapshot of one node, judged; `None` where it has never reported.

    `at` is when that snapshot was taken, by the hub's clock, and `wake_at` when the node
    becomes silent without a further report. `address` is where its reports come from, if that is
    known, whatever it says itself. `facts_revision` is the revision of the fleet at which more of
    the node than figures and verdicts may have changed last.
    """

    __slots__ = (
        "_gpus",
        "address",
        "at",
        "facts_revision",
        "failures",
        "given_labels",
        "given_name",
        "inventory",
        "node_id",
        "reported_uuids",
        "sample",
        "saved_name",
        "sequences",
        "sort_key",
        "standings",
        "unrecorded_since",
        "via",
        "vias",
        "wake_at",
    )

    def __init__(self, node_id: str, via: Via | None = None) -> None:
        self.node_id = node_id
        self.via = via
        self.sample: NodeSample | None = None
        self._gpus: tuple[Gpu, ...] | None = ()
        self.address: str | None = None
        self.at, self.wake_at = -inf, inf
        self.facts_revision = 0
        self.unrecorded_since: tuple[str | None, int, float] | None = None
        self.given_name: str | None = None
        self.saved_name: str | None = None  # of a checkpoint that could not be restored
        self.given_labels: dict[str, str] = {}
        self.sequences = SequenceTracker()
        self.vias: set[Via] = set()
        self.failures: dict[Via, str] = {}
        self.reported_uuids: list[str] = []
        self.standings = DeviceStandings()
        self.inventory = Inventory()
        self.update_sort_key()

    @property
    def snapshot(self) -> Snapshot | None:
        """The latest snapshot, made from the latest figures when it is read."""
        return None if self.sample is None else self.sample.snapshot

    @property
    def latest(self) -> NodeSample:
        """The latest sample of a node that has reported."""
        if self.sample is None:
            raise LookupError(f"{self.node_id} has not reported")
        return self.sample

    @property
    def base(self) -> Snapshot | None:
        """A snapshot that has all of the latest but its figures, which may be older."""
        return None if self.sample is None else self.sample.base

    @property
    def gpus(self) -> tuple[Gpu, ...]:
        """The GPUs of the latest snapshot, and those that are missing from it."""
        if self._gpus is None:
            self._gpus = () if self.sample is None else self.sample.snapshot.gpus
            self.standings.set_gpus(self._gpus)
        return self._gpus

    @property
    def name(self) -> str:
        """The administrator's name for it, else its own, else what its source calls it."""
        if self.given_name is not None:
            return self.given_name
        if self.base is not None:
            return self.base.name
        if self.saved_name is not None:
            return self.saved_name
        return self.node_id if self.via is None else self.via.target

    @property
    def labels(self) -> dict[str, str]:
        """Its own labels, and those that the administrator gave it."""
        return self.given_labels if self.base is None else self.base.labels | self.given_labels

    @property
    def ssh_host(self) -> str | None:
        """Where ssh reaches it: the ssh target, else an address or the name that it reports."""
        return find_ssh_host(self.vias, self.base)

    @property
    def failure_message(self) -> str | None:
        """Why sources cannot reach it, as one text."""
        return "; ".join(dict.fromkeys(self.failures.values())) or None

    def is_older_than(self, snapshot: Snapshot, at: float) -> bool:
        """Return whether a snapshot that was taken at `at` is newer than the latest."""
        latest = self.sample
        if latest is None:
            return True
        if snapshot.run_id is not None:
            # Sequence numbers and the hub's clock can be trusted; the node's clock cannot.
            if snapshot.run_id == latest.base.run_id:
                return snapshot.sequence > latest.sequence
            return at > self.at or self._follows_by_own_clock(snapshot, at)
        if snapshot.taken_at > latest.taken_at:
            return True
        if snapshot.boot_id == latest.base.boot_id and snapshot.sequence > latest.sequence:
            return True  # the node's clock was set back
        # A node whose clock was far ahead must not be locked out until that time has come.
        ahead = latest.taken_at > self.at + _CLOCK_AHEAD_SECONDS
        return ahead and snapshot.taken_at < latest.taken_at

    def _follows_by_own_clock(self, snapshot: Snapshot, at: float) -> bool:
        """Return whether an agent's first snapshot is newer, though the last one came late.

        A report that was delayed on its way counts as taken later than it was.
        """
        latest = self.latest
        same_boot = snapshot.boot_id is not None and snapshot.boot_id == latest.base.boot_id
        delay = self.at - at
        return same_boot and delay < _MAX_DELAY_SECONDS and snapshot.taken_at > latest.taken_at

    def update(
        self, snapshot: Snapshot, at: float, thresholds: Thresholds
    ) -> tuple[StateTransition, ...]:
        """Replace the latest snapshot by a newer one, judge it, and return the transitions."""
        renamed = self.base is None or snapshot.name != self.base.name
        gpus = gpus_with_missing(snapshot, self.inventory)
        transitions = self._update(NodeSample(snapshot), gpus, at, thresholds)
        if renamed:
            self.update_sort_key()
        return transitions

    def update_figures(
        self, figures: SnapshotFigures, at: float, thresholds: Thresholds
    ) -> tuple[StateTransition, ...]:
        """Like `update`, by figures that are newer than those of the latest snapshot.

        No snapshot is made where the figures cannot change a state.
        """
        return self._update(self.latest.followed_by(figures), None, at, thresholds)

    def follow(self, packed: PackedSample, timeout: float | None) -> None:
        """Note the next report, a packed one that was judged in the columns of the node.

        Its number is the highest of its run; without another one the node is silent after
        `timeout`. That it has changed is to be marked by `FleetState.mark_all_applied`.
        """
        # In one function, as it runs for nearly every report.
        sample, run, standings = self.latest, self.sequences.runs[-1], self.standings
        at, sequence = sample.advance(packed, standings.columns)
        standings.occupancy_changed = ()
        self.at, self._gpus, self.wake_at = at, None, inf if timeout is None else at + timeout
        run_id = sample.base.run_id
        if run.run_id == run_id:
            run.add(sequence)
        elif run_id is not None:
            self.sequences.add(run_id, sequence)

    def follow_partly(
        self,
        packed: PackedSample,
        timeout: float | None,
        positions: Sequence[int],
        changed: Sequence[int],
        thresholds: Thresholds,
    ) -> tuple[StateTransition, ...]:
        """Like `follow`, of a report that was not steady for the GPUs at these positions.

        Of those in `changed` the processes are used otherwise than in the report before.
        """
        before, at = (self.sample, self.at, self._gpus, self.wake_at), packed.at
        self.sample = sample = self.latest.followed_by_packed()
        try:
            self.follow(packed, timeout)
            timing = SampleTiming(at, sample.base.interval_seconds, at - sample.taken_at)
            return self.standings.judge_beside_columns(
                sample, positions, changed, timing, thresholds
            )
        except Exception:
            self.sample, self.at, self._gpus, self.wake_at = before
            raise

    def _update(
        self, sample: NodeSample, gpus: tuple[Gpu, ...] | None, at: float, thresholds: Thresholds
    ) -> tuple[StateTransition, ...]:
        before = self.sample, self.at, self._gpus, self.wake_at
        self.sample, self.at, self._gpus = sample, at, gpus
        try:
            self.wake_at = self.silent_at(thresholds)
            return self._judge(sample, before[0], thresholds)
        except Exception:
            # Back to the last report that could be judged: standings belong to its GPUs.
            self.sample, self.at, self._gpus, self.wake_at = before
            raise

    def update_sort_key(self) -> None:
        """Recompute the sort key after the name changed."""
        self.sort_key = natural_sort_key(self.name), self.node_id

    def adopt_labels(self, other: "NodeState") -> None:
        """Adopt the administrator's name and labels of another node, where it has none."""
        self.given_name = self.given_name or other.given_name
        self.given_labels = other.given_labels | self.given_labels
        self.update_sort_key()

    def _judge(
        self, sample: NodeSample, before: NodeSample | None, thresholds: Thresholds
    ) -> tuple[StateTransition, ...]:
        """Judge every GPU and instance of the latest sample by its window."""
        skew = self.at - sample.taken_at
        timing = SampleTiming(self.at, sample.base.interval_seconds, skew)
        if before is None or self._gpus is not None:
            return self.standings.judge(self.gpus, timing, thresholds)
        return self.standings.judge_figures(sample, before, timing, thresholds)

    def shift_times(self, seconds: float, thresholds: Thresholds) -> None:
        """Move all times, because the hub's clock was set."""
        was_due = self.wake_at < inf
        self.at += seconds
        self.wake_at = self.silent_at(thresholds) if was_due else inf
        if self.unrecorded_since is not None:
            run_id, sequence, recorded_at = self.unrecorded_since
            self.unrecorded_since = run_id, sequence, recorded_at + seconds
        self.inventory.shift_times(seconds)
        self.standings.shift_times(seconds)

    def is_new(self, snapshot: Snapshot, *, is_recorded: bool) -> bool:
        """Add the number of a snapshot, if it is recorded; return whether it was not there."""
        if snapshot.run_id is None:
            return True  # it has no number
        if is_recorded:
            return self.sequences.add(snapshot.run_id, snapshot.sequence)
        return not self.sequences.has(snapshot.run_id, snapshot.sequence)

    def silent_at(self, thresholds: Thresholds) -> float:
        """Return when it becomes silent without a further report."""
        interval = None if self.sample is None else self.sample.base.interval_seconds
        timeout = silence_timeout(interval, thresholds)
        return inf if timeout is None else self.at + timeout

    def _verdicts(self, now: float, since: float, silent: bool) -> dict[str, Verdict]:
        """Return the verdict on each GPU and instance, by UUID; `silent` nodes are so `since`."""
        if not silent:
            return self.standings.verdicts()
        devices: list[Gpu | Instance] = [*self.gpus]
        devices += [instance for gpu in self.gpus for instance in gpu.instances]
        age = now - self.at
        return {
            device.uuid: apply_silence(self.standings[device.uuid].verdict, device, age, since)
            for device in devices
        }

    def parts(self, now: float, thresholds: Thresholds, delay_seconds: float = 0.0) -> NodeParts:
        """Return the node at one moment, with the verdict on each GPU.

        Reports may be late by `delay_seconds` because of the hub: that is no silence.
        """
        since = self.silent_at(thresholds)
        silent = now - delay_seconds > since
        # First: the verdicts are then made from these, instead of once more from figures.
        in_order = sorted(self.gpus, key=_by_index)
        verdicts = self._verdicts(now, since, silent)
        gpus = [(gpu, verdicts[gpu.uuid]) for gpu in in_order]
        node = view_without_gpus(self, now, silent=silent)
        return NodeParts(node=node, gpus=tuple(gpus), verdicts=verdicts)

    def checkpoint(self) -> NodeCheckpoint | None:
        """Return what to store; later reports do not change it."""
        _ = self.gpus  # first: the standings are then made from these, not again from figures
        if self.snapshot is None:
            return None
        # Not stored: the summary of processes is recomputed from the next report.
        standings = {
            uuid: replace(standing, group=EMPTY_GROUP) for uuid, standing in self.standings.items()
        }
        return NodeCheckpoint(
            node_id=self.node_id,
            name=self.name,
            snapshot=self.snapshot,
            at=self.at,
            via=self.via,
            sequences=self.sequences.copy(),
            given_name=self.given_name,
            given_labels=self.given_labels,
            standings=standings,
            inventory=self.inventory.copy(),
            ways=tuple(self.vias),
        )


def restore_node(checkpoint: NodeCheckpoint, thresholds: Thresholds) -> NodeState:
    """Rebuild the state of a node from its checkpoint."""
    node = NodeState(checkpoint.node_id, checkpoint.via)
    node.sample, node.at = NodeSample(checkpoint.snapshot), checkpoint.at
    node.given_name, node.given_labels = checkpoint.given_name, checkpoint.given_labels
    node.sequences, node.vias = checkpoint.sequences, set(checkpoint.ways)
    node.standings = DeviceStandings(checkpoint.standings)
    node.inventory = checkpoint.inventory
    node.reported_uuids = snapshot_uuids(checkpoint.snapshot)
    node._gpus = gpus_with_missing(checkpoint.snapshot, checkpoint.inventory)
    node.wake_at = node.silent_at(thresholds)
    node.update_sort_key()
    return node
