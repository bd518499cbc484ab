"""The machine itself: its name and identity, kernel, load and memory."""

from typing import Any

from fleet_smi.model.safe_text import sanitize_text
from fleet_smi.model.snapshot import Host
from fleet_smi.node.collector import SnapshotPart
from fleet_smi.wire.parsers.kernel import node_id_from_machine_id, parse_loadavg, parse_meminfo


class HostCollector:
    """Identity, load and memory of the machine."""

    name = "host"

    def parse(self, raw: Any) -> SnapshotPart:
        used, total = parse_meminfo(raw["memory"] or "")
        load = parse_loadavg(raw["load"] or "")
        name = sanitize_text(raw["hostname"], 128)
        return SnapshotPart(
            node_id=node_id_from_machine_id(raw["machine_id"], name),
            name=name,
            boot_id=sanitize_text(raw["boot_id"], 64) if raw["boot_id"] else None,
            host=Host(
                kernel=sanitize_text(raw["kernel"], 128),
                booted_at=raw["booted_at"],
                cpu_count=raw["cpu_count"],
                cpu_percent=raw["cpu_percent"],
                load_1_minute=load[0],
                load_5_minutes=load[1],
                load_15_minutes=load[2],
                memory_used_bytes=used,
                memory_total_bytes=total,
                pid_namespace=raw.get("pid_namespace"),
            ),
        )
