"""cluster-smi: what its nodes of 2018 and 2019 and their fork tell, to snapshots and back.

A zero is taken for what it most likely is, for cluster-smi sends one for all that a card
cannot tell. A load of 0 is believed: every card that it knows tells its load. No card that
runs draws 0 W, is as cold as 0 °C or lets a process compute in 0 bytes: these are not told.
A fan at 0 may stand still or not be there at all, so that it is not told either.
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
from fleet_smi.model.redact import redact
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
_MOST_MENDED_OF_NODE, _MOST_MENDED_OF_CLUSTER = 5_000, 20_000
_MOST_BYTES_WITH_COMMANDS = 256 << 10
_LONGEST_COMMAND = max_length("command")
# What its node writes, misspelt, for a process that has ended since the driver named it.
_VANISHED = "unkown"
# Boot times are rounded to 128 seconds there.
_ROUNDED_SECONDS = 128
_NOT_IN_AN_ID = re.compile(r"[^0-9A-Za-z._-]+")
_LONGEST_NAME_IN_ID = 100
_REMEMBERED = 4096
_NobodyOrUnread = tuple[()] | None
_HOST = Host()


def _runs(outcome: Outcome, detail: str) -> tuple[CollectorRun, ...]:
    return (CollectorRun(name=COLLECTOR_NAME, outcome=outcome, seconds=0.0, detail=detail),)


_RUNS = _runs("ok", "cannot tell UUIDs, driver, MIG, graphics processes")
_RUNS_OF_2018 = _runs("ok", "cannot tell UUIDs, driver, MIG, processes, temperature, power or age")
_NO_DEVICES = _runs("failed", "its node tells of no GPU: the driver may have failed")


class _Person(NamedTuple):
    """Whose process something is, and what it runs; hidden where nobody knows."""

    user: str | None
    name: str | None
    command: str | None
    hidden: bool


class _Reading(NamedTuple):
    """Of which node something is told, when, and how long the machine had run then."""

    node_id: str
    taken_at: float
    uptime_seconds: float
    of_2018: bool


def decode_node(body: bytes) -> NodeMessage:
    """What a node tells; raise `Undecodable`. Text in it is hostile until `snapshot_of`."""
    if len(body) > MAX_NODE_BYTES:
        raise Undecodable(f"a message of {len(body)} bytes; a node sends at most {MAX_NODE_BYTES}")
    return _named_node(body, LenientMessageDecoder(_MOST_MENDED_OF_NODE))


def decode_cluster(body: bytes) -> tuple[NodeMessage, ...]:
    """What a router tells of its nodes; raise `Undecodable`. One bad node hides no other."""
    try:
        parts = decode_cluster_message(body)
    except DECODE_ERRORS as error:
        raise Undecodable(f"not an answer of cluster-smi: {describe_error(error)}") from None
    mending, told, errors = LenientMessageDecoder(_MOST_MENDED_OF_CLUSTER), [], []
    for part in parts[:MAX_NODES]:
        try:
            told.append(_named_node(part, mending))
        except Undecodable as error:
            errors.append(error)
    if errors and not told:
        raise errors[0]
    return tuple(told)


def _named_node(body: bytes | Raw, mending: LenientMessageDecoder) -> NodeMessage:
    try:
        told = decode_node_message(body, mending)
    except DECODE_ERRORS as error:
        raise Undecodable(f"not a node of cluster-smi: {describe_error(error)}") from None
    if not _text(told.name):
        raise Undecodable("a node of cluster-smi without a name")
    if len(body) > _MOST_BYTES_WITH_COMMANDS:
        _drop_commands(told)
    return told


def _drop_commands(told: NodeMessage) -> None:
    """Secrets are looked for in each of them: in so many, for seconds."""
    for device in told.devices or ():
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
    """The snapshot, harmless. One that tells no time was taken when it arrived.

    `sequence` counts what came: a node's clock may be set back.
    """
    reading = _reading(message, node_id or node_id_from_name(message.name), received_at)
    gpus = [_gpu(device, place, reading) for place, device in enumerate(message.devices or ())]
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


@lru_cache(_REMEMBERED)
def node_id_from_name(name: str, suffix: str = "") -> str:
    """The id of the node of that name; `apart` tells it from another of the same name."""
    whole = f"{name}-{suffix}" if suffix else name
    safe = _NOT_IN_AN_ID.sub("-", whole)[:_LONGEST_NAME_IN_ID]
    if safe == whole:
        return f"{COLLECTOR_NAME}-{safe}"
    # Two names that read alike in an id are still two.
    digest = blake2s(whole.encode("utf-8", "replace"), digest_size=4).hexdigest()
    return f"{COLLECTOR_NAME}-{safe}-{digest}"


def _reading(told: NodeMessage, node_id: str, arrived_at: float) -> _Reading:
    stamp = told.timestamp
    if stamp is None:
        return _Reading(node_id, arrived_at, inf, of_2018=True)
    uptime = stamp - told.boot_time if told.boot_time else inf
    return _Reading(node_id, stamp, uptime, of_2018=False)


def _gpu(device: DeviceMessage, place: int, reading: _Reading) -> Gpu:
    index = place if device.id is None else device.id
    memory, celsius, people = device.memory_utilization, device.temperature, device.processes
    unread: dict[str, str] = {}
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
        temperature_celsius=celsius if celsius and celsius > 0 else None,
        fan_percent=device.fan_speed or None,
        power_watts=device.power_usage or None,
        processes=_processes(people, reading) if people else _nobody(people, reading),
        unread=unread,
    )


def _odd_memory(told: MemoryMessage | None) -> tuple[MemoryMessage, dict[str, str]]:
    if told is None or (told.total or 0) <= UNKNOWN_TOTAL_BYTES:
        return MemoryMessage(), {}
    overfull = {"memory_used_bytes": "out of range: more than there is"}
    return MemoryMessage(total=told.total), overfull


def _nobody(
    told: Sequence[ProcessMessage] | UnsetType | None, reading: _Reading
) -> _NobodyOrUnread:
    """A nil is nobody, but not of a node of 2018, for which a router puts it in."""
    return None if told is UNSET or reading.of_2018 else ()


def _processes(people: Sequence[ProcessMessage], reading: _Reading) -> tuple[Process, ...]:
    _, taken_at, uptime, _ = reading
    found = []
    for told in people:
        user, name, command, hidden = _person(told.username, told.name, told.extended_command)
        # Whose age its node could not find out is told to be as old as the machine.
        ran = told.run_time
        unaged = ran is None or abs(ran - uptime) <= _ROUNDED_SECONDS or ran > taken_at
        found.append(
            Process(
                pid=told.pid or synthetic_pid(user, name, command),
                pid_is_made=not told.pid,
                kind="compute",
                gpu_memory_bytes=told.used_gpu_memory or None,
                user=user,
                name=name,
                command=command,
                started_at=None if unaged else taken_at - (ran or 0),
                hidden=hidden,
            )
        )
    return tuple(found)


# A machine's people and what they run are the same from one look to the next.
@lru_cache(_REMEMBERED)
def _person(username: str, program: str, command: str) -> _Person:
    if username == "root" and _VANISHED in (program, command):
        return _Person(None, None, None, hidden=True)
    user = None if username == UNKNOWN_USER else _text(username) or None
    name = _text(program) or None
    words = sanitize_text(command.rstrip("\0").replace("\0", " "), _LONGEST_COMMAND)
    return _Person(user, name, redact(words) or None, hidden=user is None and name is None)


@lru_cache(_REMEMBERED)
def _text(text: str) -> str:
    return sanitize_text(text, MAX_TEXT_LENGTH)
