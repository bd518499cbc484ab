"""The hub under load, beside servers that do nothing: CPU per report with 20 stream subscribers."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import median, quantiles

from bench.hub_peers import (
    HTTPTOOLS,
    UVICORN,
    VICTORIA_METRICS,
    LoadSize,
    measure_peer,
    peer_label,
)
from bench.load_windows import (
    LoadWindow,
    costs_per_report,
    measure_windows,
    resident_bytes,
    total,
    warm_up,
)
from bench.loaded_hub import loaded_hub
from bench.peers import NotAvailable
from bench.report import MeasurementSeries, Pair

GPUS, LISTENERS = 8, 20
NODES = (500, 2000, 5000)
SECONDS = 30.0
PEERS = (UVICORN, HTTPTOOLS, VICTORIA_METRICS)
_PEER_NODES = 2000
_KEPT_UP = 0.95
_FULL_CORE = 0.9  # the share that a hub of "as many nodes as a core bears" is to use
_LINEAR = 1.15

LOAD = "load generator, CPU of one report"
P99_LIMIT, MEMORY_LIMIT = "limit of the p99", "limit of the memory"
_P99_LIMIT_SECONDS, _MEMORY_LIMIT_BYTES = 0.1, 1 << 30


@dataclass(frozen=True, kw_only=True)
class HubRun:
    """The windows after warm-up, and the totals at the end."""

    nodes: int
    windows: tuple[LoadWindow, ...]
    hub_bytes: int
    listener_bytes_per_second: float
    delays: tuple[float, ...]
    fills_core: bool = False

    @property
    def label(self) -> str:
        many = ", as many as a core bears" if self.fills_core else ""
        return f"hub, {self.nodes:,} nodes{many}"


@dataclass(frozen=True, kw_only=True)
class HubMeasurement:
    """CPU per report of the hub and its peers; latency and memory of the hub; notes."""

    cpu: tuple[MeasurementSeries, ...]
    cpu_pairs: tuple[Pair, ...]
    latency: tuple[MeasurementSeries, ...]
    latency_pairs: tuple[Pair, ...]
    memory: tuple[MeasurementSeries, ...]
    memory_pairs: tuple[Pair, ...]
    notes: str


def measure(
    environment: Mapping[str, str],
    nodes: Sequence[int] | None = None,
    seconds: float = SECONDS,
    peers: Sequence[str] = PEERS,
) -> HubMeasurement:
    """Measure hubs of these sizes, one after the other, and then the peers.

    Without `nodes`, the usual sizes and then as many nodes as a core bears.
    """
    runs: list[HubRun] = []
    failures: list[MeasurementSeries] = []
    try:
        runs += [_run(environment, count, seconds) for count in nodes or NODES]
        if not nodes:
            runs.append(_run(environment, full_core_nodes(runs), seconds, fills_core=True))
    except NotAvailable as reason:
        failures.append(MeasurementSeries(label="hub", note=f"does not run: {reason}"))
    sizes = [(peer, count) for peer in peers for count in _peer_sizes(peer, nodes or NODES)]
    beside = [
        measure_peer(peer, LoadSize(nodes=count, gpus=GPUS, seconds=seconds), environment)
        for peer, count in sizes
    ]
    return summarize(runs, [*failures, *[series for series, _ in beside]], [n for _, n in beside])


def _peer_sizes(peer: str, nodes: Sequence[int]) -> Sequence[int]:
    """Return the sizes that a peer is measured with: the one with a budget, those of the hubs."""
    if peer == UVICORN:
        return nodes
    return [_PEER_NODES] if _PEER_NODES in nodes else nodes[:1]


def full_core_nodes(runs: Sequence[HubRun]) -> int:
    """Return how many nodes fill a core, by the largest hub that was measured."""
    return 100 * round(_FULL_CORE / median(costs_per_report(runs[-1].windows)) / 100)


def summarize(
    runs: Sequence[HubRun], others: Sequence[MeasurementSeries], notes: Sequence[str]
) -> HubMeasurement:
    """Put series, pairs and notes together."""
    hubs = [
        MeasurementSeries(label=run.label, values=costs_per_report(run.windows)) for run in runs
    ]
    loads = [one.load_cpu_seconds / one.acknowledged for run in runs for one in run.windows]
    latency = [
        MeasurementSeries(
            label=run.label, values=(total(run.windows).worst_p99_milliseconds / 1e3,)
        )
        for run in runs
    ]
    memory = [MeasurementSeries(label=run.label, values=(float(run.hub_bytes),)) for run in runs]
    return HubMeasurement(
        cpu=(*hubs, MeasurementSeries(label=LOAD, values=tuple(loads)), *others),
        cpu_pairs=tuple(_cpu_pairs(runs)),
        latency=(*latency, MeasurementSeries(label=P99_LIMIT, values=(_P99_LIMIT_SECONDS,))),
        latency_pairs=tuple(_limit_pairs(runs, P99_LIMIT)),
        memory=(*memory, MeasurementSeries(label=MEMORY_LIMIT, values=(_MEMORY_LIMIT_BYTES,))),
        memory_pairs=tuple(_limit_pairs(runs, MEMORY_LIMIT)),
        notes="".join([*map(describe_run, runs), *notes]),
    )


def _cpu_pairs(runs: Sequence[HubRun]) -> list[Pair]:
    if not runs:
        return [Pair(ours="hub", theirs=peer_label(UVICORN, _PEER_NODES), budget=1.0)]
    # Of the size that the other peers have, where it was measured.
    beside = next((run for run in runs if run.nodes == _PEER_NODES), runs[0])
    pairs = [
        Pair(ours=run.label, theirs=peer_label(UVICORN, run.nodes), budget=1.0)
        for run in runs
        if not run.fills_core
    ]
    pairs += [
        Pair(ours=beside.label, theirs=peer_label(peer, beside.nodes))
        for peer in (HTTPTOOLS, VICTORIA_METRICS)
    ]
    first, *larger = runs
    return [*pairs, *[Pair(ours=run.label, theirs=first.label, budget=_LINEAR) for run in larger]]


def _limit_pairs(runs: Sequence[HubRun], limit: str) -> list[Pair]:
    return [Pair(ours=run.label, theirs=limit, budget=1.0) for run in runs]


def describe_run(run: HubRun) -> str:
    """Return further facts about a run, one line each."""
    totals = total(run.windows)
    rate, p99 = totals.reports_per_second, totals.worst_p99_milliseconds
    lines = [
        f"{run.label} × {GPUS} GPUs: {rate:.0f} reports/s acknowledged, {totals.failed} failed",
        f"  {totals.body_bytes:.0f} bytes per report, {totals.compact_percent:.1f} % compact",
        f"  acknowledged within {p99:.1f} ms (the worst window's 99 of 100)",
        f"  {totals.core_share:.2f} of a core, {run.hub_bytes / 2**20:.0f} MiB resident",
        f"  {LISTENERS} listeners: {run.listener_bytes_per_second / 1024:.0f} KiB/s each, gzip",
    ]
    if rate < _KEPT_UP * run.nodes:
        lines.insert(0, f"THE HUB DID NOT KEEP UP: {rate:.0f} of {run.nodes:,} reports/s")
    if len(run.delays) > 1:
        late = quantiles(run.delays, n=100, method="inclusive")[-1]
        lines.append(
            f"  from event to listener: {1000 * median(run.delays):.0f} ms, p99 {1000 * late:.0f} "
            f"ms, at most {1000 * max(run.delays):.0f} ms, of {len(run.delays)} events"
        )
    return "\n".join(lines) + "\n"


def _run(
    environment: Mapping[str, str], nodes: int, seconds: float, *, fills_core: bool = False
) -> HubRun:
    with loaded_hub(environment) as hub:
        listeners, load = hub.start_listeners(LISTENERS), hub.start_load(nodes, GPUS)
        warm_up(load, nodes)
        listeners.request()
        windows = tuple(measure_windows(hub.program.pid, load, seconds))
        received = json.loads(listeners.request())
        return HubRun(
            nodes=nodes,
            windows=windows,
            hub_bytes=resident_bytes(hub.program.pid),
            listener_bytes_per_second=received["bytes"] / sum(one.seconds for one in windows),
            delays=tuple(received["delays"]),
            fills_core=fills_core,
        )
