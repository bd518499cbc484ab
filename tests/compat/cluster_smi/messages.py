"""Messages of cluster-smi nodes, as its Go programs encode them."""

from typing import Any

import msgspec

TIME = 1_794_770_867
GIB = 1 << 30


def process(pid: int = 4711, **fields: Any) -> dict[str, Any]:
    """A training process of alice with 2 GiB, running for an hour."""
    usual: dict[str, Any] = {
        "Pid": pid,
        "UsedGpuMemory": 2 * GIB,
        "Name": "python",
        "Username": "alice",
        "RunTime": 3600,
        "ExtendedCommand": "python\0train.py\0--lr\0000.1\0",
    }
    return usual | fields


def device(index: int = 0, **fields: Any) -> dict[str, Any]:
    """An idle TITAN Xp."""
    usual: dict[str, Any] = {
        "Id": index,
        "Name": "TITAN Xp",
        "Utilization": 0,
        "MemoryUtilization": {"Used": 0, "Free": 12 * GIB, "Total": 12 * GIB, "Percentage": 0},
        "FanSpeed": 23,
        "Temperature": 40,
        "PowerUsage": 60,
        "Processes": None,
    }
    return usual | fields


def node(*devices: dict[str, Any], **fields: Any) -> dict[str, Any]:
    """A node of the 2019 version, up for ten days."""
    usual: dict[str, Any] = {
        "Name": "gpu01",
        "Devices": list(devices) or None,
        "Time": msgspec.msgpack.Ext(-1, TIME.to_bytes(4)),
        "BootTime": TIME - 10 * 86_400,
        "ClockTicks": 100,
    }
    return usual | fields


def node_of_2018(*names: str) -> dict[str, Any]:
    """A node of the 2018 version, which sends neither times nor processes."""
    known = ("Id", "Name", "Utilization", "MemoryUtilization")
    devices = [device(at, Name=name) for at, name in enumerate(names)]
    return {"Name": "old01", "Devices": [{key: one[key] for key in known} for one in devices]}


def encode_message(value: Any) -> bytes:
    """Encode a message as it is sent."""
    return msgspec.msgpack.encode(value)
