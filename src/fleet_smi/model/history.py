"""What happened: who held which GPU and how it stood, as intervals and as sums.

An interval begins with the first sample that shows it and ends with the first that does not;
`end` is `None` while it goes on. One that is not `certain` ended while nobody heard the node:
it lasted until `end` at least. Only time in which a node was heard is counted in any sum.
"""

from msgspec import Struct

from fleet_smi.model.fleet import State
from fleet_smi.model.snapshot import Vendor

NO_USER = ""
"""The `user` of time in which nobody was on a GPU."""


class Holder(Struct, frozen=True, kw_only=True, gc=False):
    """A process on a GPU, as far as it matters later who that was."""

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
    """A GPU or MIG instance as long as it stood one way, with the same processes on it."""

    start: float
    end: float | None
    state: State
    reason: str
    holders: tuple[Holder, ...] = ()
    certain: bool = True
    busy_percent: float | None = None
    """The mean load, over the time in which it was told."""


class Sums(Struct, frozen=True, kw_only=True, gc=False):
    """What a stretch of time on GPUs comes to.

    A GPU that several people share is counted in equal parts, and an instance as its part of
    the GPU: all sums together come to the time of the GPUs. `measured_seconds` are those in
    which the load was told, `busy_seconds` are these times the load, and `idle_seconds` those
    in which the GPU was only held.
    """

    gpu_seconds: float = 0.0
    measured_seconds: float = 0.0
    busy_seconds: float = 0.0
    idle_seconds: float = 0.0
    energy_joules: float = 0.0


class Occupancy(Struct, frozen=True, kw_only=True, gc=False):
    """One process on one GPU or instance, from when to when, and what it made of that."""

    holder: Holder
    start: float
    end: float | None
    certain: bool = True
    sums: Sums = Sums()
    mean_memory_bytes: int | None = None
    peak_memory_bytes: int | None = None


class GpuOfNode(Struct, frozen=True, kw_only=True, gc=False):
    """A GPU or instance and where it is, as names stood when it was last heard of."""

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
    """One GPU over a range: its periods, the oldest first; between them nobody heard the node."""

    gpu: GpuOfNode
    periods: tuple[Period, ...]


class GpuOccupancies(Struct, frozen=True, kw_only=True):
    """One GPU over a range: the processes on it, the oldest first."""

    gpu: GpuOfNode
    occupancies: tuple[Occupancy, ...]


class StripRun(Struct, frozen=True, kw_only=True, gc=False):
    """Neighbouring columns of a heat strip that look alike; `others` shared it with `user`."""

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
    """Rows are GPUs, columns are time; where a row has no run, nobody heard its node."""

    start: float
    end: float
    columns: int
    rows: tuple[Strip, ...]


class Figure(Struct, frozen=True, kw_only=True):
    """One figure over time: what was seen at least, on average and at most in each grain."""

    minimum: list[float | None]
    mean: list[float | None]
    maximum: list[float | None]


class Series(Struct, frozen=True, kw_only=True):
    """The figures of one node, every `grain_seconds` from `start` on; `None` is unknown.

    Of the node `cpu_percent` and `memory_percent`; of each GPU `busy_percent`,
    `memory_used_mebibytes`, `power_watts`, `temperature_celsius` and `sm_clock_mhz`.
    """

    start: float
    grain_seconds: int
    node: dict[str, Figure]
    gpus: dict[str, dict[str, Figure]]


class Usage(Struct, frozen=True, kw_only=True):
    """What one user, group, node, model or GPU comes to; `daily` are GPU-seconds a day."""

    name: str
    sums: Sums
    daily: tuple[float, ...] = ()


class Usages(Struct, frozen=True, kw_only=True):
    """Sums over a range, the most GPU-seconds first, and what the GPUs had to give.

    `start` and `end` are whole hours: what was asked for, widened to them.
    """

    start: float
    end: float
    by: str
    rows: tuple[Usage, ...]
    total: Sums
    """All people together."""
    by_state: dict[State, float]
    """The GPU-seconds in each state, those of nobody among them."""


class RibbonPoint(Struct, frozen=True, kw_only=True, gc=False):
    """The whole fleet at one minute: how many GPUs stood how, and how many nodes said so."""

    at: float
    nodes: int
    nodes_reporting: int
    gpus: dict[State, float]


class Gap(Struct, frozen=True, kw_only=True, gc=False):
    """A stretch that could not be written down, and why."""

    start: float
    end: float | None
    why: str


class Ribbon(Struct, frozen=True, kw_only=True):
    """A range as neighbouring moments, each the mean of its part; and where nothing was kept."""

    start: float
    end: float
    moments: tuple[RibbonPoint, ...]
    gaps: tuple[Gap, ...] = ()


class JobPart(Struct, frozen=True, kw_only=True, gc=False):
    """One GPU of a job."""

    gpu: GpuOfNode
    occupancy: Occupancy


class Job(Struct, frozen=True, kw_only=True, gc=False):
    """The processes of one user and one command at one time, on however many GPUs and nodes.

    One that is not `certain` ended while nobody heard its node. In a list of jobs each comes
    without its `parts`.
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
    """Its GPUs as `node:index`, in order; instances of one are one."""
    advice: tuple[str, ...] = ()
    parts: tuple[JobPart, ...] = ()
