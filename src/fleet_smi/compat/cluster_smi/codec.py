"""Codec of cluster-smi: the messages of its versions of 2018 and 2019 and of a fork. Pure.

cluster-smi sends 0 for every figure that a card does not report, so a zero is read as what it
most likely is. A load of 0 is a measurement: every card that cluster-smi supports reports its load.
A running card never draws 0 W, is never 0 °C, and no process computes in 0 bytes: these are
unknown. A fan at 0 may be still or absent, so it is unknown as well.
"""

import re
from collections.abc import Sequence
from functools import lru_cache
from hashlib import blake2s
from math import inf
from typing import NamedTuple

from msgspec import UNSET, Raw, UnsetType

from fleet_smi.compat.cluster_smi.encode import (
    UNKNOWN_TOTAL_BYTES,
    UNKNOWN_USER,
    encode_cluster,
    encode_node,
    encode_request,
)
from fleet_smi.compat.cluster_smi.messages import (
    DECODE_ERRORS,
    DeviceMessage,
    LenientMessageDecoder,
    MemoryMessage,
    NodeMessage,
    ProcessMessage,
    decode_cluster_message,
    decode_node_message,
)
from fleet_smi.errors import Undecodable
from fleet_smi.model.redaction.redact import redact
from fleet_smi.model.safe_text import sanitize_text
from fleet_smi.model.snapshot import CollectorRun, Gpu, Host, Outcome, Process, Snapshot
from fleet_smi.model.synthetic_pids import synthetic_pid
from fleet_smi.wire.error_text import describe_error
from fleet_smi.wire.limits import MAX_TEXT_LENGTH, max_length

__all__ = [
    "MAX_CLUSTER_BYTES",
    "MAX_NODES",
    "MAX_NODE_BYTES",
    "NodeMessage",
    "decode_cluster",
    "decode_node",
    "encode_cluster",
    "encode_node",
    "encode_request",
    "node_id_from_name",
    "to_snapshot",
]
COLLECTOR_NAME = "cluster-smi"
MAX_NODE_BYTES = 4 << 20
MAX_CLUSTER_BYTES = 64 << 20
MAX_NODES = 10_000
_MAX_NODE_REPAIRS, _MAX_CLUSTER_REPAIRS = 5_000, 20_000
_MAX_BYTES_WITH_COMMANDS = 256 << 10  # see `_drop_commands`
_MAX_COMMAND_LENGTH = max_length("command")
# What a node writes (misspelt) for a process that ended after the driver listed it.
_VANISHED = "unkown"
# A node rounds boot times to 128 seconds.
_BOOT_TIME_PRECISION_SECONDS = 128
_NOT_IN_AN_ID = re.compile(r"[^0-9A-Za-z._-]+")
_MAX_NAME_IN_ID = 100
_CACHE_SIZE = 4096
_EmptyOrUnread = tuple[()] | None
_HOST = Host()  # frozen, so all snapshots can share it


def _runs(outcome: Outcome, detail: str) -> tuple[CollectorRun, ...]:
    return (CollectorRun(name=COLLECTOR_NAME, outcome=outcome, seconds=0.0, detail=detail),)


_RUNS = _runs("ok", "does not report UUIDs, driver, MIG, graphics processes")
_RUNS_OF_2018 = _runs(
    "ok", "does not report UUIDs, driver, MIG, processes, temperature, power or age"
)
_NO_DEVICES = _runs("failed", "its node lists no GPU: the driver may have failed")


class _Owner(NamedTuple):
    """The user of a process and what it runs; hidden where neither is known."""

    user: str | None
    name: str | None
    command: str | None
    hidden: bool


class _Reading(NamedTuple):
    """The node of a message, when it was taken, and the uptime of the machine then.

    `of_2018` is a version that sends neither times nor processes.
    """

    node_id: str
    taken_at: float
    uptime_seconds: float
    of_2018: bool


def decode_node(body: bytes) -> NodeMessage:
    """Decode the message of a node; raise `Undecodable`. Its text is not yet sanitised."""
    if len(body) > MAX_NODE_BYTES:
        raise Undecodable(
            f"a message of {len(body)} bytes, more than the limit of {MAX_NODE_BYTES}"
        )
    return _decode_named_node(body, LenientMessageDecoder(_MAX_NODE_REPAIRS))


def decode_cluster(body: bytes) -> tuple[NodeMessage, ...]:
    """Decode the message of a router; raise `Undecodable`. One bad node hides no other."""
    try:
        parts = decode_cluster_message(body)
    except DECODE_ERRORS as error:
        raise Undecodable(
            f"not a message of a cluster-smi router: {describe_error(error)}"
        ) from None
    lenient, nodes, errors = LenientMessageDecoder(_MAX_CLUSTER_REPAIRS), [], []
    for part in parts[:MAX_NODES]:
        try:
            nodes.append(_decode_named_node(part, lenient))
        except Undecodable as error:
            errors.append(error)
    if errors and not nodes:
        raise errors[0]
    return tuple(nodes)


def _decode_named_node(body: bytes | Raw, lenient: LenientMessageDecoder) -> NodeMessage:
    try:
        node = decode_node_message(body, lenient)
    except DECODE_ERRORS as error:
        raise Undecodable(f"not a message of a cluster-smi node: {describe_error(error)}") from None
    if not _text(node.name):
        raise Undecodable("a node of cluster-smi without a name")
    if len(body) > _MAX_BYTES_WITH_COMMANDS:
        _drop_commands(node)
    return node


def _drop_commands(node: NodeMessage) -> None:
    """Bound the work per message: redacting secrets in this many commands takes seconds."""
    for device in node.devices or ():
        for process in device.processes or ():
            process.extended_command = ""


def to_snapshot(
    message: NodeMessage,
    received_at: float,
    *,
    interval_seconds: float | None = None,
    sequence: int = 0,
    node_id: str | None = None,
) -> Snapshot:
    """Convert a message to a sanitised snapshot; without a time of its own, it is taken now.

    `sequence` counts the messages received: the clock of a node may be set back.
    """
    reading = _reading(message, node_id or node_id_from_name(message.name), received_at)
    gpus = [
        _gpu(device, position, reading) for position, device in enumerate(message.devices or ())
    ]
    return Snapshot(
        node_id=reading.node_id,
        name=_text(message.name),
        taken_at=reading.taken_at,
        interval_seconds=interval_seconds,
        sequence=sequence,
        labels={"comment": sanitize_text(message.comment, max_length("labels"))}
        if message.comment
        else {},
        host=_HOST if message.cpu_util is None else Host(cpu_percent=100.0 * message.cpu_util),
        gpus=tuple(gpus),
        runs=_NO_DEVICES if not gpus else _RUNS_OF_2018 if reading.of_2018 else _RUNS,
    )


@lru_cache(_CACHE_SIZE)
def node_id_from_name(name: str, suffix: str = "") -> str:
    """Return the node id for a name; `suffix` separates nodes of the same name."""
    full = f"{name}-{suffix}" if suffix else name
    safe = _NOT_IN_AN_ID.sub("-", full)[:_MAX_NAME_IN_ID]
    if safe == full:
        return f"{COLLECTOR_NAME}-{safe}"
    # Two names that become one after replacing characters must keep two ids.
    digest = blake2s(full.encode("utf-8", "replace"), digest_size=4).hexdigest()
    return f"{COLLECTOR_NAME}-{safe}-{digest}"


def _reading(node: NodeMessage, node_id: str, received_at: float) -> _Reading:
    stamp = node.timestamp
    if stamp is None:
        return _Reading(node_id, received_at, inf, of_2018=True)
    # Infinity matches no age: without a boot time, every age of a process is believed.
    uptime = stamp - node.boot_time if node.boot_time else inf
    return _Reading(node_id, stamp, uptime, of_2018=False)


def _gpu(device: DeviceMessage, position: int, reading: _Reading) -> Gpu:
    index = position if device.id is None else device.id
    memory, celsius, listed = device.memory_utilization, device.temperature, device.processes
    unread: dict[str, str] = {}
    # Chained: used must be within the total, and the total more than the placeholder for unknown.
    if memory is None or not (memory.used or 0) <= (memory.total or 0) > UNKNOWN_TOTAL_BYTES:
        memory, unread = _odd_memory(memory)
    return Gpu(
        uuid=f"gpu{index}@{reading.node_id}",
        uuid_is_made=True,
        index=index,
        vendor="nvidia",
        name=_text(device.name) or None,
        memory_used_bytes=memory.used,
        memory_total_bytes=memory.total,
        busy_percent=device.utilization,
        # -1 is what cluster-smi sends where it cannot read the temperature.
        temperature_celsius=celsius if celsius and celsius > 0 else None,
        fan_percent=device.fan_speed or None,
        power_watts=device.power_usage or None,
        processes=_processes(listed, reading) if listed else _no_processes(listed, reading),
        reported_by="cluster-smi",
        unread=unread,
    )


def _odd_memory(memory: MemoryMessage | None) -> tuple[MemoryMessage, dict[str, str]]:
    """Return what is known of implausible memory figures, and why the rest is unread."""
    if memory is None or (memory.total or 0) <= UNKNOWN_TOTAL_BYTES:
        return MemoryMessage(), {}
    overfull = {"memory_used_bytes": "out of range: more than the total"}
    return MemoryMessage(total=memory.total), overfull


def _no_processes(
    listed: Sequence[ProcessMessage] | UnsetType | None, reading: _Reading
) -> _EmptyOrUnread:
    """Read nil as an empty list, except from a node of 2018: its router adds the nil."""
    return None if listed is UNSET or reading.of_2018 else ()


def _processes(listed: Sequence[ProcessMessage], reading: _Reading) -> tuple[Process, ...]:
    _, taken_at, uptime, _ = reading
    processes = []
    for message in listed:
        user, name, command, hidden = _owner(
            message.username, message.name, message.extended_command
        )
        # Where a node cannot read the age of a process, it sends the uptime of the machine.
        age = message.run_time
        is_unknown = (
            age is None or abs(age - uptime) <= _BOOT_TIME_PRECISION_SECONDS or age > taken_at
        )
        processes.append(
            Process(
                pid=message.pid or synthetic_pid(user, name, command),
                pid_is_made=not message.pid,
                kind="compute",
                gpu_memory_bytes=message.used_gpu_memory or None,
                user=user,
                name=name,
                command=command,
                started_at=None if is_unknown else taken_at - (age or 0),
                hidden=hidden,
            )
        )
    return tuple(processes)


# Cached: users and commands hardly change between two messages, and redaction is slow.
@lru_cache(_CACHE_SIZE)
def _owner(username: str, program: str, command: str) -> _Owner:
    # cluster-smi attributes a process that has ended to root, who may not use the GPU at all.
    if username == "root" and _VANISHED in (program, command):
        return _Owner(None, None, None, hidden=True)
    user = None if username == UNKNOWN_USER else _text(username) or None
    name = redact(_text(program)) or None
    line = sanitize_text(command.rstrip("\0").replace("\0", " "), _MAX_COMMAND_LENGTH)
    return _Owner(user, name, redact(line) or None, hidden=user is None and name is None)


@lru_cache(_CACHE_SIZE)
def _text(text: str) -> str:
    return sanitize_text(text, MAX_TEXT_LENGTH)
