"""Codec of gpu-cluster-monitor: the JSON of its nodes and main node, to and from snapshots. Pure.

A node answers `POST /get-status` with its own status, and the main node `GET /get-status` with
`{"Nodes": [...]}`. `last_update` is local time without a zone, so it is never compared with any
other clock; but a node whose `last_update` stays the same has stopped reading its GPUs.
"""

from datetime import datetime, timezone, tzinfo
from ipaddress import AddressValueError, IPv4Address
from typing import Any, NamedTuple

import msgspec
from msgspec import UNSET, Struct, UnsetType
from msgspec.structs import replace

from fleet_smi.compat import json_status
from fleet_smi.compat.json_status import (
    UNKNOWN_OWNER,
    int_or_none,
    require_object,
    round_or_none,
    text_or_none,
)
from fleet_smi.model.driver_failure import driver_error
from fleet_smi.model.fleet import FleetView, NodeView
from fleet_smi.model.range_check import check_range
from fleet_smi.model.redaction.redact import redact
from fleet_smi.model.snapshot import Gpu, Host, Process, Snapshot
from fleet_smi.model.units import MIB
from fleet_smi.wire.limits import MAX_ITEMS, max_length
from fleet_smi.wire.program_output import parse_number

_MEMORY = "mem(MiB)"
_UNKNOWN = "?"
_MAX_COMMAND_LENGTH = 500  # node_info.py cuts commands there
_MISSING = "power, clocks, UUIDs, or processes whose owner it cannot read"


class UserStatus(Struct, frozen=True, kw_only=True, rename={"memory_mib": _MEMORY}):
    """One process, by the fields of gpu-cluster-monitor."""

    command: str
    memory_mib: int | None
    pid: int | None
    username: str


class GpuStatus(Struct, frozen=True, kw_only=True):
    """One GPU; memory in MiB, or the fault of a GPU that cannot be read."""

    index: int
    name: str | None
    temp: int | None
    tot_mem: int | str | None
    use_mem: int | str | None
    users: tuple[UserStatus, ...]
    utilize: int | str | None


class NodeStatus(Struct, frozen=True, kw_only=True):
    """One node; `status` and `version` are what the main node adds."""

    gpus: tuple[GpuStatus, ...]
    hostname: str
    ips: tuple[tuple[str, str], ...] | UnsetType = UNSET
    last_update: str | UnsetType = UNSET
    status: bool | UnsetType = UNSET
    version: str | UnsetType = UNSET


class MainStatus(Struct, frozen=True, kw_only=True, rename={"nodes": "Nodes"}):
    """The response of the main node: every node."""

    nodes: tuple[NodeStatus, ...]


class DecodedStatus(NamedTuple):
    """A snapshot, and the text that changes whenever the node reads its GPUs."""

    snapshot: Snapshot
    last_update: str | None


def decode_status(body: bytes, taken_at: float) -> DecodedStatus:
    """Decode the response of a node; raise `Undecodable`."""
    return _decode(json_status.decode_json(body), taken_at)


def encode_status(snapshot: Snapshot, zone: tzinfo | None = None) -> bytes:
    """Encode the response of a node; raise `Unmet` if its driver fails.

    `zone` is by default that of this machine.
    """
    json_status.require_driver(snapshot)
    return msgspec.json.encode(_status(snapshot, snapshot.taken_at, zone))


def encode_main_status(view: FleetView, zone: tzinfo | None = None) -> bytes:
    """Encode the response of a main node; a silent or failing node has `"status": false`."""
    nodes = [_main_entry(node, view.taken_at, zone) for node in view.nodes]
    return msgspec.json.encode(MainStatus(nodes=tuple(nodes)))


def _decode(status: Any, taken_at: float) -> DecodedStatus:
    fields = require_object(status, "the status of a node")
    listed = json_status.require_list(fields, "gpus")
    snapshot = json_status.build_snapshot(
        "node_info",
        fields,
        taken_at,
        [_gpu(position, device) for position, device in enumerate(listed)],
        missing=_MISSING,
        host=_host(fields.get("ips")),
    )
    return DecodedStatus(snapshot, text_or_none(fields.get("last_update")))


def _host(ips: Any) -> Host:
    pairs = ips[: MAX_ITEMS["addresses"]] if isinstance(ips, list) else []
    interfaces: dict[str, str | None] = {}
    for pair in pairs:
        if isinstance(pair, list) and len(pair) == 2 and (address := text_or_none(pair[1])):
            interfaces[address] = text_or_none(pair[0])
    named = {address: name for address, name in interfaces.items() if name is not None}
    return Host(addresses=tuple(interfaces), interfaces=named)


def _gpu(position: int, device: Any) -> Gpu:
    if not isinstance(device, dict):
        return json_status.unreadable_gpu(position)
    unread: dict[str, str] = {}
    figures = {
        "busy_percent": parse_number(device.get("utilize")),
        "memory_total_bytes": _bytes(device.get("tot_mem")),
        "memory_used_bytes": _bytes(device.get("use_mem")),
    }
    index = check_range("index", int_or_none(device.get("index")), unread)
    return json_status.build_gpu(
        position if index is None else index,
        figures,
        name=device.get("name"),
        temperature=device.get("temp"),
        processes=_processes(device.get("users"), unread),
        unread=unread,
    )


def _bytes(mib: Any) -> int | None:
    count = int_or_none(mib)
    return None if count is None else count * MIB


def _processes(users: Any, unread: dict[str, str]) -> tuple[Process, ...] | None:
    if not isinstance(users, list):
        return None
    entries = [_process(user) for user in users[: MAX_ITEMS["processes"]]]
    processes = tuple([process for process in entries if process is not None])
    if len(processes) < len(users):
        unread["processes"] = "not all could be read"
    # An empty list is an idle GPU; a list of which nothing can be read is not.
    return processes if processes or not users else None


def _process(user: Any) -> Process | None:
    fields = user if isinstance(user, dict) else {}
    pid = json_status.pid_or_none(int_or_none(fields.get("pid")))
    if pid is None:
        return None
    owner = json_status.user_or_none(fields.get("username"))
    line = text_or_none(fields.get("command"), max_length("command"))
    command = None if line is None else redact(line)
    return Process(
        pid=pid,
        kind="compute",
        user=owner,
        hidden=owner is None,
        gpu_memory_bytes=check_range("gpu_memory_bytes", _bytes(fields.get(_MEMORY)), {}),
        name=json_status.program_name(command),
        command=command,
    )


def _main_entry(node: NodeView, now: float, zone: tzinfo | None) -> NodeStatus:
    if node.age_seconds is None:
        return NodeStatus(hostname=node.name, gpus=(), status=False, version="")
    # Dated by the hub's clock, as the main node does: the nodes' clocks may be wrong.
    status = _status(node, now - node.age_seconds, zone)
    version = (node.gpus[0].name or "") if node.gpus else ""
    has_failed = not node.gpus and driver_error(node) is not None
    return replace(status, status=not (node.silent or has_failed), version=version)


def _status(machine: Snapshot | NodeView, at: float, zone: tzinfo | None) -> NodeStatus:
    local = datetime.fromtimestamp(at, timezone.utc).astimezone(zone).replace(tzinfo=None)
    host = machine.host
    addresses = sorted(filter(_is_ipv4, host.addresses))
    return NodeStatus(
        gpus=tuple([_gpu_status(gpu) for gpu in machine.gpus]),
        hostname=machine.name,
        ips=tuple([(host.interfaces.get(address, ""), address) for address in addresses]),
        last_update=local.isoformat(timespec="microseconds"),
    )


def _is_ipv4(address: str) -> bool:
    try:
        IPv4Address(address)
    except AddressValueError:
        return False
    return True


def _gpu_status(gpu: Gpu) -> GpuStatus:
    used, total = _mib(gpu.memory_used_bytes), _mib(gpu.memory_total_bytes)
    load = round_or_none(gpu.busy_percent)
    # The page prints `use_mem/tot_mem` and `utilize %` as they are, and has no field for a fault:
    # a lost GPU is drawn as "lost/24576" and "? %" instead of "null/null" and "null %".
    fault = None if gpu.fault is None else gpu.fault.kind.replace("_", " ")
    unknown = None if fault is None else _UNKNOWN
    return GpuStatus(
        index=gpu.index,
        name=gpu.name,
        temp=round_or_none(gpu.temperature_celsius),
        tot_mem=unknown if total is None else total,
        use_mem=fault if used is None else used,
        users=tuple(
            [_user_status(process) for process in json_status.compute_processes(gpu) or ()]
        ),
        utilize=unknown if load is None else load,
    )


def _user_status(process: Process) -> UserStatus:
    return UserStatus(
        command=(process.command or process.name or "")[:_MAX_COMMAND_LENGTH],
        memory_mib=_mib(process.gpu_memory_bytes),
        pid=None if process.pid_is_made else process.pid,
        username=process.user or UNKNOWN_OWNER,
    )


def _mib(count: int | None) -> int | None:
    return None if count is None else count // MIB
