"""Sample histories and reports for the screen tests."""

from msgspec.structs import replace

from fleet_smi.model.fleet import JudgedGpu, State
from fleet_smi.model.history import (
    NO_USER,
    Gap,
    GpuOfNode,
    Job,
    Ribbon,
    RibbonPoint,
    Strip,
    StripRun,
    Strips,
    Sums,
    Usage,
    Usages,
)
from fleet_smi.model.usage_report import Price, UsageReport, add_sums, build_usage_report
from tests.terminal import samples
from tests.terminal.samples import H100, HOUR, NOW, gib, utc

RunSpec = tuple[float, State, str, int, float | None]
"""End as a fraction of the range, state, user, number of other users, load."""


def gpu(
    index: int, node: str = "gpu01", model: str | None = H100, parent: str | None = None
) -> GpuOfNode:
    return GpuOfNode(
        uuid=f"GPU-{node}-{index}",
        node_id=f"id-{node}",
        node=node,
        index=index,
        model=model,
        memory_total_bytes=gib(79.6),
        parent=parent,
    )


def make_strip(
    gpu_of_node: GpuOfNode, start: float, end: float, *runs_spec: RunSpec | float
) -> Strip:
    """Build a row; a bare number is the end of a gap without data."""
    runs, at = [], 0.0
    for each in runs_spec:
        if isinstance(each, tuple):
            share, state, user, others, load = each
            runs.append(
                StripRun(
                    start=start + at * (end - start),
                    end=start + share * (end - start),
                    state=state,
                    user=user,
                    others=others,
                    busy_percent=load,
                )
            )
            at = share
        else:
            at = each
    return Strip(gpu=gpu_of_node, runs=tuple(runs))


def lab_hour(columns: int, *, end: float = NOW, hours: float = 1.0) -> Strips:
    """Every state, a silent node, shared GPUs, and MIG instances."""
    start = end - hours * HOUR

    def of(where: GpuOfNode, *runs: RunSpec | float) -> Strip:
        return make_strip(where, start, end, *runs)

    free: RunSpec = (1.0, "free", NO_USER, 0, 0.0)
    rtx = "NVIDIA GeForce RTX 4090"
    return Strips(
        start=start,
        end=end,
        columns=columns,
        rows=(
            of(gpu(0), (1.0, "busy", "alice", 0, 96.6)),
            of(
                gpu(1),
                (0.45, "free", NO_USER, 0, 0.0),
                (0.75, "busy", "bob", 0, 80.2),
                (1.0, "held", "bob", 0, 0.4),
            ),
            of(gpu(2), free),
            of(gpu(3), (0.33, "busy", "carol", 0, 55.0), (1.0, "broken", NO_USER, 0, None)),
            of(gpu(4), (0.5, "ghost", NO_USER, 0, 0.0), (0.8, "leased", NO_USER, 0, 0.0), free),
            of(gpu(5), (0.6, "busy", "dmitri.ivanov", 2, 71.0), (1.0, "busy", "eve", 0, None)),
            of(gpu(6), (0.05, "busy", "eve", 0, 90.0), (0.1, "busy", "bob", 0, 90.0), free),
            of(gpu(10, "gpu10", None), (0.4, "unknown", NO_USER, 0, None), free),
            of(gpu(0, "gpu02", rtx), (0.4, "busy", "山田太郎", 0, 62.0), 0.6, free),
            of(gpu(1, "gpu02", rtx), (0.4, "free", NO_USER, 0, 0.0)),
            of(gpu(2, "gpu02", rtx)),
            of(gpu(2, "gpu02", "1g.10gb", parent="GPU-gpu02-2"), (1.0, "busy", "eve", 0, None)),
        ),
    )


def sums(hours: float, busy: float, idle: float = 0.0, watts: float = 400.0) -> Sums:
    """Build sums from GPU-hours, the busy fraction and idle-held hours."""
    return Sums(
        gpu_seconds=hours * HOUR,
        measured_seconds=hours * HOUR,
        busy_seconds=hours * HOUR * busy,
        idle_seconds=idle * HOUR,
        energy_joules=hours * HOUR * watts,
    )


USER_SUMS = {
    "priya": sums(2425, 0.99, 13),
    "svc-chat": sums(844, 0.35),
    "hana": sums(696, 0.24, 412, 220),
    "dmitri.ivanov": sums(455.4, 0.83, 68),
    "山田太郎": sums(157, 0.02, 146, 90),
    "=HYPERLINK(1)": sums(0.4, 0.5),
}


def lab_week(price: Price | None = None, *, by: str = "user") -> UsageReport:
    """Seven days of 96 GPUs: users, hours of the day, idle jobs."""
    start = NOW - NOW % HOUR - 168 * HOUR
    rows = tuple(
        Usage(
            name=name, sums=each, daily=tuple(each.gpu_seconds * (at + 1) / 28 for at in range(7))
        )
        for name, each in USER_SUMS.items()
    )
    usages = Usages(
        start=start,
        end=start + 168 * HOUR,
        by=by,
        rows=rows,
        total=add_sums(USER_SUMS.values()),
        by_state={
            "busy": 3938.8 * HOUR,
            "held": 639 * HOUR,
            "free": 9700 * HOUR,
            "ghost": 120 * HOUR,
            "broken": 168 * HOUR,
            "unknown": 320 * HOUR,
        },
    )
    lazy = {"GPU-00000001-aaaa-bbbb-cccc-000000000000": sums(12, 0.03), "MIG-0": sums(40, 0.1)}
    gpus = tuple(Usage(name=uuid, sums=each) for uuid, each in lazy.items())
    view = samples.fleet(samples.node("gpu07", *map(free_gpu, range(2))), samples.sliced())
    return build_usage_report(
        usages,
        replace(usages, by="gpu", rows=gpus),
        replace(view, summary=replace(view.summary, gpus=96)),
        Ribbon(
            start=start,
            end=start + 168 * HOUR,
            moments=tuple(_moment(start + at * HOUR) for at in range(168)),
            gaps=(Gap(start=start, end=start + 2 * HOUR, why="no space left on the disk"),),
        ),
        _wasted(start),
        to_local_time=utc,
        price=price,
    )


def free_gpu(index: int) -> JudgedGpu:
    return samples.gpu(index, samples.verdict("free"))


def _moment(at: float) -> RibbonPoint:
    hour = utc(at).hour
    busy = 20 + 4 * min(hour, 24 - hour)
    return RibbonPoint(
        at=at, nodes=12, nodes_reporting=11, gpus={"busy": busy, "free": 96.0 - busy}
    )


def _wasted(start: float) -> list[Job]:
    jobs = [
        ("hana", "python -m train --config long/big.yaml", 4, 300, "held 4 GPUs, used 1"),
        ("山田太郎", "jupyter-lab", 1, 146, "idle for 146 h of 292 h; used at most 9 of 80 GiB"),
        ("dmitri.ivanov", None, 2, 60, ""),
        ("priya", "python quick.py", 1, 0.2, ""),
    ]  # fmt: skip
    return [
        Job(
            id=f"1-{at}",
            user=user,
            command=command,
            start=start,
            end=None,
            gpus=gpus,
            sums=sums(2 * idle, 0.1, idle),
            advice=tuple(advice.split("; ")) if advice else (),
        )
        for at, (user, command, gpus, idle, advice) in enumerate(jobs)
    ]
