"""What fleet-smi writes for routers and clients of cluster-smi, as its 2019 version does."""

from collections import Counter
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime

import msgspec
from msgspec import Struct

from fleet_smi.model.fleet import FleetView, JudgedGpu, NodeView
from fleet_smi.model.merge import all_processes
from fleet_smi.model.snapshot import Gpu, Process, Snapshot

UNKNOWN_USER = "unknown"
UNKNOWN_TOTAL_BYTES = 1
"""The memory of a card that does not tell it: by 0, clients would divide."""
_UNKNOWN_CELSIUS = -1
_MOST = 2**63 - 1  # of what Go has read
_TICKS_A_SECOND = 100
_NEVER = datetime(1970, 1, 1, tzinfo=UTC)
_START_OF_ID = 8


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
    clock_ticks: int = _TICKS_A_SECOND


class _Cluster(Struct, rename="pascal", gc=False):
    nodes: list[_Node] | None


class _Request(Struct, rename="pascal", gc=False):
    identity: str


_encoder = msgspec.msgpack.Encoder()


def encode_node(snapshot: Snapshot) -> bytes:
    """One machine, as its own node of cluster-smi would tell it to a router."""
    return _encoder.encode(
        _Node(
            name=snapshot.name,
            devices=_devices(snapshot.gpus, snapshot.taken_at),
            time=_time(snapshot.taken_at),
            boot_time=int(snapshot.host.booted_at or 0),
        )
    )


def encode_cluster(view: FleetView) -> bytes:
    """A whole fleet, as a router would tell it to a client.

    Times are the hub's: a client holds them against its own clock, and so finds a node that
    has been silent for long "Offline". One that was never heard of has the oldest time.
    """
    names = _names(view.nodes)
    nodes = [_node(node, name, view.taken_at) for node, name in zip(view.nodes, names, strict=True)]
    return _encoder.encode(_Cluster(nodes=nodes or None))


def encode_request(identity: str) -> bytes:
    """What a client asks with."""
    return _encoder.encode(_Request(identity=identity))


def _node(node: NodeView, name: str, now: float) -> _Node:
    heard = _NEVER if node.age_seconds is None else _time(now - node.age_seconds)
    return _Node(
        name=name,
        devices=_devices(node.gpus, node.taken_at),
        time=heard,
        boot_time=int(node.host.booted_at or 0),
    )


def _names(nodes: Sequence[NodeView]) -> list[str]:
    """The name of each, alone its own: to clients a name is a node."""
    counts = Counter(node.name for node in nodes)
    short = [
        node.name if counts[node.name] == 1 else f"{node.name}~{node.node_id[:_START_OF_ID]}"
        for node in nodes
    ]
    counts = Counter(short)
    return [
        name if counts[name] == 1 else f"{node.name}~{node.node_id}"
        for node, name in zip(nodes, short, strict=True)
    ]


def _devices(gpus: Sequence[Gpu], taken_at: float | None) -> list[_Device] | None:
    return [_device(gpu, taken_at) for gpu in gpus] or None


def _device(gpu: Gpu, taken_at: float | None) -> _Device:
    celsius, processes = gpu.temperature_celsius, _processes(all_processes(gpu), taken_at)
    return _Device(
        id=gpu.index,
        name=(gpu.name or "GPU") + _remark(gpu, is_used=bool(processes)),
        utilization=_whole(gpu.busy_percent),
        memory_utilization=_memory(gpu),
        fan_speed=_whole(gpu.fan_percent),
        temperature=_UNKNOWN_CELSIUS if celsius is None else round(celsius),
        power_usage=_whole(gpu.power_watts),
        processes=processes,
    )


def _remark(gpu: Gpu, *, is_used: bool) -> str:
    """To clients a card without a process is free; what else it may be is told by its name."""
    if gpu.fault is not None:
        return f" ({gpu.fault.kind.replace('_', ' ')})"
    if is_used:
        return ""
    if gpu.processes is None and not gpu.instances:
        return " (users unknown)"
    state = gpu.verdict.state if isinstance(gpu, JudgedGpu) else "free"
    return "" if state == "free" else f" ({state})"


def _memory(gpu: Gpu) -> _Memory:
    total = min(gpu.memory_total_bytes or 0, _MOST)
    if not total:
        return _Memory(used=0, free=0, total=UNKNOWN_TOTAL_BYTES)
    used = min(gpu.memory_used_bytes or 0, total)
    return _Memory(used=used, free=total - used, total=total)


def _processes(processes: Iterable[Process], taken_at: float | None) -> list[_Process] | None:
    return [_process(one, taken_at) for one in processes if one.kind != "graphics"] or None


def _process(process: Process, taken_at: float | None) -> _Process:
    started = process.started_at
    known = taken_at is not None and started is not None
    return _Process(
        pid=0 if process.pid_is_made else process.pid,
        used_gpu_memory=min(process.gpu_memory_bytes or 0, _MOST),
        name=process.name or "",
        username=process.user or UNKNOWN_USER,
        run_time=max(0, int((taken_at or 0) - (started or 0))) if known else 0,
        extended_command=process.command or "",
    )


def _whole(value: float | None) -> int:
    return 0 if value is None else round(value)


def _time(seconds: float) -> datetime:
    return datetime.fromtimestamp(max(0.0, seconds), UTC)
