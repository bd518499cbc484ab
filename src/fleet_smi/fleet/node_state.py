"""What the hub knows of one node, and what of it outlives the hub."""

from math import inf
from operator import attrgetter

from msgspec import Struct
from msgspec.structs import replace

from fleet_smi.fleet.inventory import Inventory, gpus_with_missing
from fleet_smi.model.fleet import NodeView, State, Verdict
from fleet_smi.model.safe_text import natural_sort_key
from fleet_smi.model.sequences import SequenceTracker
from fleet_smi.model.snapshot import Gpu, Instance, Snapshot
from fleet_smi.model.uuids import snapshot_uuids
from fleet_smi.model.verdict.hysteresis import SampleTiming, Standing, apply_sample
from fleet_smi.model.verdict.judge import apply_silence, silence_timeout
from fleet_smi.model.verdict.process_group import EMPTY_GROUP
from fleet_smi.model.verdict.thresholds import Thresholds
from fleet_smi.model.views import NodeParts

_IN_ORDER = attrgetter("index", "uuid")
_CLOCK_AHEAD_SECONDS = 60.0
_SKEW_WORTH_A_WARNING_SECONDS = 60.0
# By these ways a node leaves its latest report for whoever looks: nobody waits for the others.
_LATEST_ALONE = ("pull", "files")


class Via(Struct, frozen=True, gc=False):
    """A way to a node: the source, and what that source calls the node."""

    source: str
    target: str


class StateTransition(Struct, frozen=True, kw_only=True, gc=False):
    """A GPU or instance whose state is another than before; `before` is `None` for a new one."""

    uuid: str
    before: State | None
    after: Verdict


class NodeCheckpoint(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """All of one node that outlives the hub; `given_…` is what the administrator calls it."""

    node_id: str
    name: str
    snapshot: Snapshot
    at: float
    sequences: SequenceTracker
    inventory: Inventory
    via: Via | None = None
    ways: tuple[Via, ...] = ()
    given_name: str | None = None
    given_labels: dict[str, str] = {}
    standings: dict[str, Standing] = {}


class NodeState:
    """The latest of one node; one that was never heard of has no snapshot.

    `at` is when the latest snapshot was taken, by the hub's clock, and `wake_at` when time
    alone next changes what is to be said of the node. The latest `stirred` those GPUs and
    instances where others are than before, or hold other memory.
    """

    __slots__ = (
        "at",
        "failures",
        "given_labels",
        "given_name",
        "gpus",
        "inventory",
        "node_id",
        "occupancy_changed",
        "reported_uuids",
        "sequences",
        "snapshot",
        "sort_key",
        "standings",
        "via",
        "vias",
        "wake_at",
    )

    def __init__(self, node_id: str, via: Via | None = None) -> None:
        self.node_id = node_id
        self.via = via
        self.snapshot: Snapshot | None = None
        self.at = -inf
        self.wake_at = inf
        self.given_name: str | None = None
        self.given_labels: dict[str, str] = {}
        self.sequences = SequenceTracker()
        self.vias: set[Via] = set()
        self.failures: dict[Via, str] = {}
        self.reported_uuids: list[str] = []
        self.gpus: tuple[Gpu, ...] = ()
        self.standings: dict[str, Standing] = {}
        self.occupancy_changed: tuple[str, ...] = ()
        self.inventory = Inventory()
        self.update_sort_key()

    @property
    def name(self) -> str:
        """The administrator's name for it, else its own, else what its source calls it."""
        if self.given_name is not None:
            return self.given_name
        if self.snapshot is not None:
            return self.snapshot.name
        return self.node_id if self.via is None else self.via.target

    @property
    def failure_message(self) -> str | None:
        """What keeps sources from hearing it."""
        return "; ".join(dict.fromkeys(self.failures.values())) or None

    def is_older_than(self, snapshot: Snapshot, at: float) -> bool:
        """Whether a snapshot that was taken at `at` is newer than the latest."""
        known = self.snapshot
        if known is None:
            return True
        if snapshot.run_id is not None:
            # Numbers and the hub's clock are to be trusted; the node's clock need not be.
            same = snapshot.run_id == known.run_id
            return snapshot.sequence > known.sequence if same else at > self.at
        if snapshot.taken_at > known.taken_at:
            return True
        if snapshot.boot_id == known.boot_id and snapshot.sequence > known.sequence:
            return True  # the node's clock was set back
        # A clock known to be ahead of ours must not lock its node out until that time has come.
        ahead = known.taken_at > self.at + _CLOCK_AHEAD_SECONDS
        return ahead and snapshot.taken_at < known.taken_at

    def update(
        self, snapshot: Snapshot, at: float, thresholds: Thresholds
    ) -> tuple[StateTransition, ...]:
        """Let a newer snapshot be the latest, and judge it."""
        renamed = self.snapshot is None or snapshot.name != self.snapshot.name
        self.snapshot, self.at = snapshot, at
        self.gpus = gpus_with_missing(snapshot, self.inventory)
        self.wake_at = self.silent_at(thresholds)
        if renamed:
            self.update_sort_key()
        return self._judge(snapshot, thresholds)

    def update_sort_key(self) -> None:
        """Find its place anew after its name changed."""
        self.sort_key = natural_sort_key(self.name), self.node_id

    def _judge(self, snapshot: Snapshot, settings: Thresholds) -> tuple[StateTransition, ...]:
        """Judge every GPU and instance of its latest, by what is remembered of each."""
        sampled = SampleTiming(self.at, snapshot.interval_seconds, self.at - snapshot.taken_at)
        known, standings = self.standings, dict[str, Standing]()
        for gpu in self.gpus:
            verdicts: tuple[Verdict, ...] = ()
            for part in gpu.instances:
                after = apply_sample(known.get(part.uuid), part, gpu, sampled, settings)
                standings[part.uuid] = after
                verdicts += (after.verdict,)
            before = known.get(gpu.uuid)
            standings[gpu.uuid] = apply_sample(before, gpu, gpu, sampled, settings, verdicts)
        self.standings = standings
        turns, self.occupancy_changed = _turns(known, standings)
        return turns

    def silent_at(self, thresholds: Thresholds) -> float:
        """When it falls silent, unless it is heard of before."""
        pace = None if self.snapshot is None else self.snapshot.interval_seconds
        limit = silence_timeout(pace, thresholds)
        return inf if limit is None else self.at + limit

    def _verdicts(self, now: float, settings: Thresholds) -> dict[str, Verdict]:
        """The verdict on each GPU and instance; on a silent node there is none but what it was."""
        since = self.silent_at(settings)
        if now <= since:
            return {uuid: standing.verdict for uuid, standing in self.standings.items()}
        subjects: list[Gpu | Instance] = [*self.gpus]
        subjects += [part for gpu in self.gpus for part in gpu.instances]
        age, known = now - self.at, self.standings
        return {
            one.uuid: apply_silence(known[one.uuid].verdict, one, age, since) for one in subjects
        }

    def parts(self, now: float, thresholds: Thresholds) -> NodeParts:
        """What is believed of it at one moment."""
        verdicts = self._verdicts(now, thresholds)
        gpus = [(gpu, verdicts[gpu.uuid]) for gpu in sorted(self.gpus, key=_IN_ORDER)]
        node = self._without_gpus(now, thresholds)
        return NodeParts(node=node, gpus=tuple(gpus), verdicts=verdicts)

    def _without_gpus(self, now: float, settings: Thresholds) -> NodeView:
        via, snapshot = None if self.via is None else self.via.source, self.snapshot
        if snapshot is None:
            return NodeView(
                node_id=self.node_id,
                name=self.name,
                taken_at=None,
                age_seconds=None,
                silent=True,
                via=via,
                trouble=self.failure_message,
                labels=self.given_labels,
            )
        skew = self.at - snapshot.taken_at
        return NodeView(
            node_id=self.node_id,
            name=self.name,
            taken_at=snapshot.taken_at,
            age_seconds=max(0.0, now - self.at),
            silent=now > self.silent_at(settings),
            via=via,
            trouble=self.failure_message,
            clock_skew_seconds=skew if abs(skew) > _SKEW_WORTH_A_WARNING_SECONDS else None,
            missing_reports=0 if via in _LATEST_ALONE else self.sequences.missing,
            labels=snapshot.labels | self.given_labels,
            interval_seconds=snapshot.interval_seconds,
            sequence=snapshot.sequence,
            boot_id=snapshot.boot_id,
            agent_version=snapshot.agent_version,
            host=snapshot.host,
            runs=snapshot.runs,
        )

    def checkpoint(self) -> NodeCheckpoint | None:
        """What outlives the hub; safe to be encoded while reports go on coming."""
        if self.snapshot is None:
            return None
        standings = self.standings.items()
        return NodeCheckpoint(
            node_id=self.node_id,
            name=self.name,
            snapshot=self.snapshot,
            at=self.at,
            via=self.via,
            sequences=self.sequences.copy(),
            given_name=self.given_name,
            given_labels=self.given_labels,
            standings={uuid: replace(standing, group=EMPTY_GROUP) for uuid, standing in standings},
            inventory=self.inventory.copy(),
            ways=tuple(self.vias),
        )


def _turns(
    before: dict[str, Standing], after: dict[str, Standing]
) -> tuple[tuple[StateTransition, ...], tuple[str, ...]]:
    """Whose state is another, and where others are than before; what is gone is among these."""
    turns, stirred = [], []
    for uuid, standing in after.items():
        known, verdict = before.get(uuid), standing.verdict
        state, crowd = (None, None) if known is None else (known.verdict.state, known.group)
        if crowd is not standing.group:
            stirred.append(uuid)
        if state != verdict.state:
            turns.append(StateTransition(uuid=uuid, before=state, after=verdict))
    if len(before) != len(after):
        stirred += before.keys() - after.keys()
    return tuple(turns), tuple(stirred)


def restore_node(checkpoint: NodeCheckpoint, thresholds: Thresholds) -> NodeState:
    """A node as it was remembered."""
    node = NodeState(checkpoint.node_id, checkpoint.via)
    node.snapshot, node.at = checkpoint.snapshot, checkpoint.at
    node.given_name, node.given_labels = checkpoint.given_name, checkpoint.given_labels
    node.sequences, node.vias = checkpoint.sequences, set(checkpoint.ways)
    node.standings = checkpoint.standings
    node.inventory = checkpoint.inventory
    node.reported_uuids = snapshot_uuids(checkpoint.snapshot)
    node.gpus = gpus_with_missing(checkpoint.snapshot, checkpoint.inventory)
    node.wake_at = node.silent_at(thresholds)
    node.update_sort_key()
    return node
