"""What nodes and the main node of gpu-cluster-monitor answer, to snapshots and back.

A node answers `POST /get-status` with itself, and the main node `GET /get-status` with
`{"Nodes": [...]}`. `last_update` is local time without a zone: it is never compared with any
other clock, but a node whose `last_update` stays the same has stopped to look.
"""

from datetime import UTC, datetime, tzinfo
from ipaddress import AddressValueError, IPv4Address
from typing import Any, NamedTuple

import msgspec
from msgspec import UNSET, Struct, UnsetType
from msgspec.structs import replace

from fleet_smi.compat.json_status import (
    compute_processes,
    decode_json,
    int_or_none,
    make_gpu,
    node_id_from_name,
    program_name,
    require_list,
    require_object,
    round_or_none,
    text_or_none,
    unreadable_gpu,
)
from fleet_smi.errors import DeliveryError, Undecodable, Unreachable
from fleet_smi.model.fleet import FleetView, NodeView
from fleet_smi.model.merge import with_node_scoped_uuid
from fleet_smi.model.range_check import check_fields, check_range, check_temperature
from fleet_smi.model.redact import redact
from fleet_smi.model.snapshot import CollectorRun, Gpu, Host, Process, Snapshot
from fleet_smi.model.units import MIB
from fleet_smi.wire.cli_text import parse_number
from fleet_smi.wire.limits import MAX_ITEMS, max_length

UNKNOWN_OWNER = "?"
_MEMORY = "mem(MiB)"
_LONGEST_COMMAND = 500
_MOST_NODES = 10_000
_CANNOT_TELL = "cannot tell power, clocks, UUIDs, or processes whose owner it cannot read"


class UserStatus(Struct, frozen=True, kw_only=True, rename={"memory_mib": _MEMORY}):
    """One process."""

    command: str
    memory_mib: int | None
    pid: int | None
    username: str


class GpuStatus(Struct, frozen=True, kw_only=True):
    """One GPU; memory in MiB."""

    index: int
    name: str | None
    temp: int | None
    tot_mem: int | None
    use_mem: int | None
    users: tuple[UserStatus, ...]
    utilize: int | None


class NodeStatus(Struct, frozen=True, kw_only=True):
    """One node; `status` and `version` are what the main node adds."""

    gpus: tuple[GpuStatus, ...]
    hostname: str
    ips: tuple[tuple[str, str], ...] | UnsetType = UNSET
    last_update: str | UnsetType = UNSET
    status: bool | UnsetType = UNSET
    version: str | UnsetType = UNSET


class MainStatus(Struct, frozen=True, kw_only=True, rename={"nodes": "Nodes"}):
    """What the main node tells: every node there is."""

    nodes: tuple[NodeStatus, ...]


class DecodedStatus(NamedTuple):
    """A snapshot, and the text by which it is known to be another than the last."""

    snapshot: Snapshot
    last_update: str | None


def decode_status(body: bytes, taken_at: float) -> DecodedStatus:
    """What a node tells of itself; raise `Undecodable`."""
    return _told(decode_json(body), taken_at)


def decode_main_status(body: bytes, taken_at: float) -> tuple[Snapshot | DeliveryError, ...]:
    """Every node that a main node tells of, or that it has lost it; raise `Undecodable`."""
    nodes = require_list(require_object(decode_json(body), "the status of all nodes"), "Nodes")
    return tuple([_node(told, taken_at) for told in nodes[:_MOST_NODES]])


def encode_status(snapshot: Snapshot, zone: tzinfo | None = None) -> bytes:
    """What a node would answer; its local time is this machine's unless a zone is given."""
    return msgspec.json.encode(_status(snapshot, snapshot.taken_at, zone))


def encode_main_status(view: FleetView, zone: tzinfo | None = None) -> bytes:
    """What the main node would tell of this fleet; a silent node has the status false."""
    nodes = [_in_main(node, view.taken_at, zone) for node in view.nodes]
    return msgspec.json.encode(MainStatus(nodes=tuple(nodes)))


def _node(told: Any, taken_at: float) -> Snapshot | DeliveryError:
    try:
        fields = require_object(told, "a node")
        if fields.get("status") is not True:
            return Unreachable(
                "its main node does not reach it", text_or_none(fields.get("hostname"))
            )
        return _told(fields, taken_at).snapshot
    except Undecodable as error:
        return error


def _told(answer: Any, taken_at: float) -> DecodedStatus:
    fields = require_object(answer, "the status of a node")
    name, last_update = (
        text_or_none(fields.get("hostname")),
        text_or_none(fields.get("last_update")),
    )
    gpus = require_list(fields, "gpus")
    if name is None:
        raise Undecodable("it does not tell its name: it has not looked at its GPUs yet")
    node_id = node_id_from_name("node_info", name)
    snapshot = Snapshot(
        node_id=node_id,
        name=name,
        taken_at=taken_at,
        host=Host(addresses=_addresses(fields.get("ips"))),
        gpus=tuple([with_node_scoped_uuid(_gpu(*each), node_id) for each in enumerate(gpus)]),
        runs=(CollectorRun(name="node_info", outcome="ok", seconds=0.0, detail=_CANNOT_TELL),),
    )
    return DecodedStatus(snapshot, last_update)


def _addresses(told: Any) -> tuple[str, ...]:
    pairs = told[: MAX_ITEMS["addresses"]] if isinstance(told, list) else []
    texts = [text_or_none(pair[1]) for pair in pairs if isinstance(pair, list) and len(pair) == 2]
    return tuple([text for text in texts if text is not None])


def _gpu(place: int, told: Any) -> Gpu:
    if not isinstance(told, dict):
        return unreadable_gpu(place)
    unread: dict[str, str] = {}
    figures = {
        "busy_percent": parse_number(told.get("utilize")),
        "memory_total_bytes": _bytes(told.get("tot_mem")),
        "memory_used_bytes": _bytes(told.get("use_mem")),
    }
    figures = check_fields(figures, unread)
    heat = parse_number(told.get("temp"))
    index = check_range("index", int_or_none(told.get("index")), unread)
    return make_gpu(
        place if index is None else index,
        **figures,
        name=text_or_none(told.get("name")),
        temperature_celsius=check_temperature(heat, figures["busy_percent"], unread),
        processes=_processes(told.get("users"), unread),
        unread=unread,
    )


def _bytes(mib: Any) -> int | None:
    count = int_or_none(mib)
    return None if count is None else count * MIB


def _processes(told: Any, unread: dict[str, str]) -> tuple[Process, ...] | None:
    if not isinstance(told, list):
        return None
    found = [_process(each) for each in told[: MAX_ITEMS["processes"]]]
    known = tuple([process for process in found if process is not None])
    if len(known) < len(told):
        unread["processes"] = "not all could be read"
    return known if known or not told else None


def _process(told: Any) -> Process | None:
    fields = told if isinstance(told, dict) else {}
    pid = check_range("pid", int_or_none(fields.get("pid")), {})
    if pid is None:
        return None
    user = text_or_none(fields.get("username"))
    owner = None if user == UNKNOWN_OWNER else user
    told_command = text_or_none(fields.get("command"), max_length("command"))
    command = None if told_command is None else redact(told_command)
    return Process(
        pid=pid,
        kind="compute",
        user=owner,
        hidden=owner is None,
        gpu_memory_bytes=check_range("gpu_memory_bytes", _bytes(fields.get(_MEMORY)), {}),
        name=program_name(command),
        command=command,
    )


def _in_main(node: NodeView, now: float, zone: tzinfo | None) -> NodeStatus:
    if node.age_seconds is None:
        return NodeStatus(hostname=node.name, gpus=(), status=False, version="")
    # By the clock of whoever tells it: what other clocks say is their own affair.
    told = _status(node, now - node.age_seconds, zone)
    version = (node.gpus[0].name or "") if node.gpus else ""
    return replace(told, status=not node.silent, version=version)


def _status(machine: Snapshot | NodeView, at: float, zone: tzinfo | None) -> NodeStatus:
    local = datetime.fromtimestamp(at, UTC).astimezone(zone).replace(tzinfo=None)
    return NodeStatus(
        gpus=tuple([_gpu_status(gpu) for gpu in machine.gpus]),
        hostname=machine.name,
        # Which interface an address belongs to is not known.
        ips=tuple([("", address) for address in sorted(filter(_is_ipv4, machine.host.addresses))]),
        last_update=local.isoformat(timespec="microseconds"),
    )


def _is_ipv4(address: str) -> bool:
    try:
        IPv4Address(address)
    except AddressValueError:
        return False
    return True


def _gpu_status(gpu: Gpu) -> GpuStatus:
    return GpuStatus(
        index=gpu.index,
        name=gpu.name,
        temp=round_or_none(gpu.temperature_celsius),
        tot_mem=_mib(gpu.memory_total_bytes),
        use_mem=_mib(gpu.memory_used_bytes),
        users=tuple([_user_status(process) for process in compute_processes(gpu) or ()]),
        utilize=round_or_none(gpu.busy_percent),
    )


def _user_status(process: Process) -> UserStatus:
    return UserStatus(
        command=(process.command or process.name or "")[:_LONGEST_COMMAND],
        memory_mib=_mib(process.gpu_memory_bytes),
        pid=None if process.pid_is_made else process.pid,
        username=process.user or UNKNOWN_OWNER,
    )


def _mib(count: int | None) -> int | None:
    return None if count is None else count // MIB
