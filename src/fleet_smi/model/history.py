"""The nouns of history: periods of a state, occupancies by a process, jobs, sums, series.

An interval begins with the first sample that shows it and ends with the first that does not;
`end` is `None` while it lasts. One that is not `certain` ended while its node was silent: it
lasted until `end` at least. Sums count only the time in which the node reported.
"""

from msgspec import Struct

from fleet_smi.model.fleet import State
from fleet_smi.model.snapshot import Vendor

NO_USER = ""
"""The `user` of time in which nobody was on a GPU."""


class Holder(Struct, frozen=True, kw_only=True, gc=False):
    """A process on a GPU, reduced to what history keeps of it."""

    pid: int
    user: str
    group: str | None = None
    name: str | None = None
    command: str | None = None
    container: str | None = None
    slurm_job: str | None = None
    started_at: float | None = None
    memory_bytes: int | None = None


class Period(Struct, frozen=True, kw_only=True, gc=False):
    """A stretch of time in which a GPU or MIG instance kept its state and its processes."""

    start: float
    end: float | None
    state: State
    reason: str
    holders: tuple[Holder, ...] = ()
    certain: bool = True
    busy_percent: float | None = None
    """The mean load, over the time in which it was measured."""


class Sums(Struct, frozen=True, kw_only=True, gc=False):
    """Usage totals over a range.

    A GPU that several users share is split equally among them, and an instance counts as its
    part of the GPU, so that all sums add up to the time of the GPUs. `measured_seconds` are those
    with a known load, `busy_seconds` are these weighted by the load, and `idle_seconds` those in
    which the GPU was only held.
    """

    gpu_seconds: float = 0.0
    measured_seconds: float = 0.0
    busy_seconds: float = 0.0
    idle_seconds: float = 0.0
    energy_joules: float = 0.0


class Occupancy(Struct, frozen=True, kw_only=True, gc=False):
    """One process on one GPU or instance, from start to end, and its usage totals."""

    holder: Holder
    start: float
    end: float | None
    certain: bool = True
    sums: Sums = Sums()
    mean_memory_bytes: int | None = None
    peak_memory_bytes: int | None = None


class GpuOfNode(Struct, frozen=True, kw_only=True, gc=False):
    """A GPU or instance and its node, by the names that they last had."""

    uuid: str
    node_id: str
    node: str
    index: int
    vendor: Vendor = "nvidia"
    model: str | None = None
    memory_total_bytes: int | None = None
    parent: str | None = None
    """The UUID of the whole GPU, for an instance."""


class GpuPeriods(Struct, frozen=True, kw_only=True):
    """One GPU over a range: its periods, the oldest first; in the gaps the node was silent."""

    gpu: GpuOfNode
    periods: tuple[Period, ...]


class GpuOccupancies(Struct, frozen=True, kw_only=True):
    """One GPU over a range: the processes on it, the oldest first."""

    gpu: GpuOfNode
    occupancies: tuple[Occupancy, ...]


class StripRun(Struct, frozen=True, kw_only=True, gc=False):
    """Adjacent columns of a heat strip that look alike; `others` counts those beside `user`."""

    start: float
    end: float
    state: State
    user: str = NO_USER
    others: int = 0
    busy_percent: float | None = None


class Strip(Struct, frozen=True, kw_only=True):
    """One GPU as a row of a heat strip."""

    gpu: GpuOfNode
    runs: tuple[StripRun, ...]


class Strips(Struct, frozen=True, kw_only=True):
    """A heat strip: rows are GPUs, columns are time; without a run its node was silent.

    `history_begins` is set where that is after `start`.
    """

    start: float
    end: float
    columns: int
    rows: tuple[Strip, ...]
    history_begins: float | None = None


class Figure(Struct, frozen=True, kw_only=True):
    """One figure over time: the minimum, mean and maximum of each grain."""

    minimum: list[float | None]
    mean: list[float | None]
    maximum: list[float | None]


class Series(Struct, frozen=True, kw_only=True):
    """The figures of one node, every `grain_seconds` from `start` on; `None` is unknown.

    Each figure has the name of its row in `model/figures.py`: `cpu_percent` and `memory_percent`
    of the node, `busy_percent`, `memory_used_bytes`, `power_watts` and others of each GPU. A
    counter is given by its growth, as `energy_joules_per_second`, and throttling by the share of
    time in which it slowed the GPU down, as `throttled_percent`.
    """

    start: float
    grain_seconds: int
    node: dict[str, Figure]
    gpus: dict[str, dict[str, Figure]]


class Gap(Struct, frozen=True, kw_only=True, gc=False):
    """A stretch of time that could not be recorded, and why."""

    start: float
    end: float | None
    why: str


class Usage(Struct, frozen=True, kw_only=True):
    """Usage totals of one user, group, node, model or GPU; `daily` are GPU-seconds per day.

    The name of a GPU is its UUID, and `node_id` the node that reports it: nodes may say anything,
    so a UUID that two of them report is two GPUs.
    """

    name: str
    sums: Sums
    daily: tuple[float, ...] = ()
    node_id: str | None = None


class Usages(Struct, frozen=True, kw_only=True):
    """Usage totals over a range, the most GPU-seconds first, and by state.

    `start` and `end` are the requested range, widened to whole hours, and cut where the history
    begins later: all figures cover exactly that. `history_begins` is set where it was cut.
    """

    start: float
    end: float
    by: str
    rows: tuple[Usage, ...]
    total: Sums
    """The total of all users."""
    by_state: dict[State, float]
    """The GPU-seconds in each state, with or without a user."""
    history_begins: float | None = None
    unwritten: Gap | None = None
    """The time that is not counted yet, because it cannot be written now, and why."""


class RibbonPoint(Struct, frozen=True, kw_only=True, gc=False):
    """The whole fleet at one minute: GPUs by state, and how many nodes reported."""

    at: float
    nodes: int
    nodes_reporting: int
    gpus: dict[State, float]


class Ribbon(Struct, frozen=True, kw_only=True):
    """The fleet over a range, each point the mean of its part; and the gaps in the record."""

    start: float
    end: float
    moments: tuple[RibbonPoint, ...]
    gaps: tuple[Gap, ...] = ()


class JobPart(Struct, frozen=True, kw_only=True, gc=False):
    """One GPU of a job."""

    gpu: GpuOfNode
    occupancy: Occupancy


class Job(Struct, frozen=True, kw_only=True, gc=False):
    """Processes of one user with one command at one time, over all their GPUs and nodes.

    One that is not `certain` ended while its node was silent. A list of jobs leaves out `parts`.
    """

    id: str
    user: str
    command: str | None
    start: float
    end: float | None
    gpus: int
    sums: Sums
    certain: bool = True
    places: tuple[str, ...] = ()
    """Its GPUs as `node:index`, in order; several instances of one GPU are listed once."""
    advice: tuple[str, ...] = ()
    parts: tuple[JobPart, ...] = ()
