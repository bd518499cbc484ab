"""The view of the fleet: every node's latest snapshot, with the verdict on each GPU."""

from typing import Literal

from msgspec import Struct

from fleet_smi.model.reservation import NodeBooking
from fleet_smi.model.snapshot import CollectorRun, Gpu, Host, Instance
from fleet_smi.model.units import format_duration

State = Literal["free", "leased", "busy", "held", "ghost", "broken", "unknown"]
STATES: tuple[State, ...] = ("free", "leased", "busy", "held", "ghost", "broken", "unknown")


NoteKind = Literal[
    "shared",
    "hidden",
    "unaccounted",
    "stalled",
    "idle_user",
    "display",
    "throttled",
    "memory_errors",
    "reset_pending",
    "vacated",
    "without_lease",
    "closed",
    "booked",
]


class Note(Struct, frozen=True, gc=False):
    """A remark that does not change the state: "shared by 2".

    One about an idle user beside a busy one has the name, and for how long; one about a booking
    has the name of its owner.
    """

    kind: NoteKind
    words: str
    user: str | None = None
    idle_seconds: float | None = None


class Verdict(Struct, frozen=True, kw_only=True, gc=False):
    """The judgement on one GPU or instance: a state, the reason, and since when.

    `was` is what it was last known as, on a node that has fallen silent or on a broken GPU whose
    processes can no longer be read: "busy (alice)".
    `idle_seconds` is how long its processes have done nothing, where that is known.
    """

    state: State
    reason: str
    since: float
    was: str | None = None
    notes: tuple[Note, ...] = ()
    idle_seconds: float | None = None


class JudgedInstance(Instance, frozen=True, kw_only=True):
    """A MIG instance with the verdict on it."""

    verdict: Verdict


class JudgedGpu(Gpu, frozen=True, kw_only=True):
    """A GPU with the verdict on it."""

    verdict: Verdict
    instances: tuple[JudgedInstance, ...] = ()


JudgedDevice = JudgedGpu | JudgedInstance


def devices_of(gpu: JudgedGpu) -> tuple[JudgedDevice, ...]:
    """Return a GPU and its MIG instances."""
    return (gpu, *gpu.instances)


class NodeView(Struct, frozen=True, kw_only=True, gc=False):
    """One node as of its last report; `silent` when that is too long ago.

    `via` is the source of that report, and `trouble` why a source cannot reach the node now. A
    node that has never reported has no `taken_at`. `clock_skew_seconds` is how far the hub's clock
    is ahead of the node's, where that is worth a warning. `missing_reports` is how many of its
    numbered reports never arrived. `ssh_host` is where `ssh` reaches it, as far as is known: its
    `name` may be one that an administrator gave it, and resolve nowhere. `site` is the name of
    the site whose hub it reports to, where that is another one. `bookings` are its reservations
    that are active or start soon.
    """

    node_id: str
    name: str
    site: str | None = None
    taken_at: float | None
    age_seconds: float | None
    silent: bool = False
    via: str | None = None
    trouble: str | None = None
    clock_skew_seconds: float | None = None
    missing_reports: int = 0
    ssh_host: str | None = None
    labels: dict[str, str] = {}
    interval_seconds: float | None = None
    sequence: int = 0
    boot_id: str | None = None
    agent_version: str | None = None
    host: Host = Host()
    runs: tuple[CollectorRun, ...] = ()
    bookings: tuple[NodeBooking, ...] = ()
    gpus: tuple[JudgedGpu, ...] = ()

    @property
    def failures(self) -> tuple[str, ...]:
        """Messages about the collectors that failed."""
        failed = [run for run in self.runs if run.outcome == "failed"]
        return tuple([f"{run.name}: {run.detail or 'could not be read'}" for run in failed])

    @property
    def limits(self) -> tuple[str, ...]:
        """Figures that its working collectors cannot read: one sentence per collector."""
        limited = [run for run in self.runs if run.detail and run.outcome == "ok"]
        return tuple([f"read through {run.name}, which {run.detail}" for run in limited])

    @property
    def warnings(self) -> tuple[str, ...]:
        """Problems with how it reports: a source that cannot reach it, a wrong clock."""
        trouble = () if self.trouble is None else (self.trouble,)
        skew = self.clock_skew_seconds
        if skew is None:
            return trouble
        side = "behind" if skew > 0 else "ahead"
        return (*trouble, f"its clock is {format_duration(abs(skew))} {side}")


class Summary(Struct, frozen=True, kw_only=True):
    """Counts of the GPUs by state, and of the nodes that report.

    `free_instances` are the free MIG instances; a GPU is free only if all of its own are.
    """

    gpus: int
    free: int
    leased: int
    busy: int
    held: int
    ghost: int
    broken: int
    unknown: int
    nodes: int
    nodes_reporting: int
    free_instances: int = 0


class FleetView(Struct, frozen=True, kw_only=True):
    """The fleet at one moment."""

    taken_at: float
    summary: Summary
    nodes: tuple[NodeView, ...]

    @property
    def gpu_count(self) -> int:
        """The number of its GPUs that this view has."""
        return sum([len(node.gpus) for node in self.nodes])


class FleetPage(Struct, frozen=True, kw_only=True):
    """The fleet, or with `limit` a page of it; `next` is the cursor of the next page, if any.

    The summary is of the whole fleet; only the first page has it.
    """

    taken_at: float
    summary: Summary | None
    nodes: tuple[NodeView, ...]
    next: str | None = None
