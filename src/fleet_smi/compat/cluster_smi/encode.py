"""Encoder of the messages of cluster-smi 2019, for its routers and clients. Pure."""

from collections import Counter
from collections.abc import Iterable, Sequence
from datetime import datetime, timezone

import msgspec
from msgspec import Struct

from fleet_smi.model.driver_failure import driver_failure
from fleet_smi.model.fleet import FleetView, JudgedGpu, NodeView
from fleet_smi.model.snapshot import Gpu, Process, Snapshot
from fleet_smi.model.stream_payload_builder import unique_processes

UNKNOWN_USER = "unknown"
UNKNOWN_TOTAL_BYTES = 1
"""Sent for a card of unknown memory: clients divide by it, so it must not be 0."""
_UNKNOWN_CELSIUS = -1  # as cluster-smi itself sends it
_MAX_INT64 = 2**63 - 1  # clients decode into an int64 of Go
_TICKS_PER_SECOND = 100
_NEVER = datetime(1970, 1, 1, tzinfo=timezone.utc)
_ID_PREFIX_LENGTH = 8
_MAX_SKEW_SECONDS = 60.0  # of a clock that is right: beyond it, fleet-smi warns of the clock


class _Memory(Struct, rename="pascal", gc=False):
    used: int
    free: int
    total: int
    percentage: int = 0


class _Process(Struct, rename="pascal", gc=False):
    pid: int
    used_gpu_memory: int
    name: str
    username: str
    run_time: int
    extended_command: str


class _Device(Struct, rename="pascal", gc=False):
    id: int
    name: str
    utilization: int
    memory_utilization: _Memory
    fan_speed: int
    temperature: int
    power_usage: int
    processes: list[_Process] | None


class _Node(Struct, rename="pascal", gc=False):
    name: str
    devices: list[_Device] | None
    time: datetime
    boot_time: int
    clock_ticks: int = _TICKS_PER_SECOND


class _Cluster(Struct, rename="pascal", gc=False):
    nodes: list[_Node] | None


class _Request(Struct, rename="pascal", gc=False):
    identity: str


_encoder = msgspec.msgpack.Encoder()


def encode_node(snapshot: Snapshot) -> bytes:
    """Encode one machine as a cluster-smi node sends it to a router."""
    return _encoder.encode(
        _Node(
            name=snapshot.name,
            devices=_devices(snapshot.gpus, snapshot.taken_at),
            time=_shown_time(snapshot, snapshot.taken_at),
            boot_time=int(snapshot.host.booted_at or 0),
        )
    )


def encode_cluster(view: FleetView) -> bytes:
    """Encode a fleet as a router sends it to a client.

    A client compares each time with its own clock and shows a node that has long been silent as
    "Offline". A node that never reported, or whose driver fails, gets the oldest time.
    """
    names = _names(view.nodes)
    nodes = [_node(node, name, view.taken_at) for node, name in zip(view.nodes, names, strict=True)]
    return _encoder.encode(_Cluster(nodes=nodes or None))


def encode_request(identity: str) -> bytes:
    """Encode the request of a client."""
    return _encoder.encode(_Request(identity=identity))


def last_seen_at(node: NodeView, now: float) -> float | None:
    """Return when a node last reported: its own time as in cluster-smi, if its clock is right.

    By a wrong clock it would be offline while it reports, or never.
    """
    if node.age_seconds is None or node.taken_at is None:
        return None
    received_at = now - node.age_seconds
    is_right = abs(node.taken_at - received_at) <= _MAX_SKEW_SECONDS
    return node.taken_at if is_right else received_at


def _node(node: NodeView, name: str, now: float) -> _Node:
    return _Node(
        name=name,
        devices=_devices(node.gpus, node.taken_at),
        time=_shown_time(node, last_seen_at(node, now)),
        boot_time=int(node.host.booted_at or 0),
    )


def _shown_time(machine: Snapshot | NodeView, seen_at: float | None) -> datetime:
    """Return the time to send; the oldest one makes clients show a node as "Offline".

    As with cluster-smi, whose node ends where the driver fails. Without devices it would have no
    row at all.
    """
    has_failed = not machine.gpus and driver_failure(machine) is not None
    return _NEVER if seen_at is None or has_failed else _time(seen_at)


def _names(nodes: Sequence[NodeView]) -> list[str]:
    """Return a unique name for each node: clients identify nodes by name."""
    counts = Counter(node.name for node in nodes)
    short = [
        node.name if counts[node.name] == 1 else f"{node.name}~{node.node_id[:_ID_PREFIX_LENGTH]}"
        for node in nodes
    ]
    # Two ids may share their prefix, or a node may be named like another's short form.
    counts = Counter(short)
    return [
        name if counts[name] == 1 else f"{node.name}~{node.node_id}"
        for node, name in zip(nodes, short, strict=True)
    ]


def _devices(gpus: Sequence[Gpu], taken_at: float | None) -> list[_Device] | None:
    # Go encodes an empty slice that was never filled as nil.
    return [_device(gpu, taken_at) for gpu in gpus] or None


def _device(gpu: Gpu, taken_at: float | None) -> _Device:
    celsius, processes = gpu.temperature_celsius, _processes(unique_processes(gpu) or (), taken_at)
    return _Device(
        id=gpu.index,
        name=(gpu.name or "GPU") + _note(gpu, is_used=bool(processes)),
        utilization=_round(gpu.busy_percent),
        memory_utilization=_memory(gpu),
        fan_speed=_round(gpu.fan_percent),
        temperature=_UNKNOWN_CELSIUS if celsius is None else round(celsius),
        power_usage=_round(gpu.power_watts),
        processes=processes,
    )


def _note(gpu: Gpu, *, is_used: bool) -> str:
    """Return a note for the card's name: clients show any card without a process as free."""
    if gpu.fault is not None:
        return f" ({gpu.fault.kind.replace('_', ' ')})"
    if is_used:
        return ""
    if gpu.processes is None and not gpu.instances:
        return " (users unknown)"
    state = gpu.verdict.state if isinstance(gpu, JudgedGpu) else "free"
    return "" if state == "free" else f" ({state})"


def _memory(gpu: Gpu) -> _Memory:
    total = min(gpu.memory_total_bytes or 0, _MAX_INT64)
    if not total:
        return _Memory(used=0, free=0, total=UNKNOWN_TOTAL_BYTES)
    used = min(gpu.memory_used_bytes or 0, total)
    return _Memory(used=used, free=total - used, total=total)


def _processes(processes: Iterable[Process], taken_at: float | None) -> list[_Process] | None:
    # cluster-smi lists compute processes only, and calls a card with any process in use.
    return [
        _process(process, taken_at) for process in processes if process.kind != "graphics"
    ] or None


def _process(process: Process, taken_at: float | None) -> _Process:
    started = process.started_at
    has_age = taken_at is not None and started is not None
    return _Process(
        pid=0 if process.pid_is_made else process.pid,
        used_gpu_memory=min(process.gpu_memory_bytes or 0, _MAX_INT64),
        name=process.name or "",
        username=process.user or UNKNOWN_USER,
        run_time=max(0, int((taken_at or 0) - (started or 0))) if has_age else 0,
        # The name where the command line is not known or may not be seen: `cluster-smi -e` prints
        # this field alone, and an empty one would hide what runs.
        extended_command=process.command or process.name or "",
    )


def _round(value: float | None) -> int:
    return 0 if value is None else round(value)


def _time(seconds: float) -> datetime:
    return datetime.fromtimestamp(max(0.0, seconds), timezone.utc)
