"""The table of filter cases, shared with the tests of the web page: GPUs, filters, matches."""

from pathlib import Path
from typing import Any

import msgspec

from fleet_smi.model.fleet import JudgedGpu, JudgedInstance, NodeView, Verdict
from fleet_smi.model.snapshot import Host
from fleet_smi.model.units import GIB, MIB
from tests.builders import gpu, instance, process

FILE = Path(__file__).parent.parent / "filter_cases.json"


def load_table() -> Any:
    """Return the table."""
    return msgspec.json.decode(FILE.read_bytes())


def gpu_from_row(row: dict[str, Any]) -> tuple[NodeView, JudgedGpu]:
    """Build a GPU of the table, and its node."""
    node = NodeView(
        node_id=f"id-of-{row['node']}",
        name=row["node"],
        site=row["site"],
        taken_at=None,
        age_seconds=None,
        silent=row["silent"],
        labels=row["labels"],
        host=Host(driver_version=row["driver"]),
    )
    fields = msgspec.structs.asdict(gpu(row["index"])) | {
        "uuid": row["uuid"],
        "name": row["model"],
        "memory_total_bytes": _bytes(row["total_mebibytes"]),
        "memory_used_bytes": _bytes(row["used_mebibytes"]),
        "busy_percent": row["busy_percent"],
        "temperature_celsius": row["celsius"],
        "power_watts": row["watts"],
        "processes": _processes(row["users"]),
        "instances": tuple(_instance(part) for part in row["instances"]),
    }
    return node, JudgedGpu(**fields, verdict=_verdict(row))


def _verdict(row: dict[str, Any]) -> Verdict:
    reason = row["reason"] or "said by the other fields"
    idle = row["idle_seconds"]
    return Verdict(state=row["state"], reason=reason, since=0.0, was=row["was"], idle_seconds=idle)


def _instance(part: dict[str, Any]) -> JudgedInstance:
    verdict = Verdict(state=part["state"], reason="of the instance", since=0.0)
    fields = msgspec.structs.asdict(instance()) | {
        "uuid": part["uuid"],
        "profile": part["profile"],
        "memory_total_bytes": _bytes(part["total_mebibytes"]),
        "memory_used_bytes": _bytes(part["used_mebibytes"]),
        "processes": _processes(part["users"]),
    }
    return JudgedInstance(**fields, verdict=verdict)


def _processes(users: list[str] | None) -> Any:
    if users is None:
        return None
    return tuple(
        process(pid, user, gpu_memory_bytes=GIB - pid) for pid, user in enumerate(users, 1)
    )


def _bytes(mebibytes: int | None) -> int | None:
    return None if mebibytes is None else mebibytes * MIB
