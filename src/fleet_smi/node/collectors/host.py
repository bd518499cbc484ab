"""The machine itself: its name and identity, kernel, load and memory."""

from typing import Any

from fleet_smi.model.snapshot import Host
from fleet_smi.model.text import clean
from fleet_smi.node.collecting import Part
from fleet_smi.wire.kernel import load_of, memory_of, node_id_of


class HostCollector:
    """Who the machine is, and how it fares."""

    name = "host"

    def part(self, raw: Any) -> Part:
        used, total = memory_of(raw["memory"] or "")
        load = load_of(raw["load"] or "")
        name = clean(raw["hostname"], 128)
        return Part(
            node_id=node_id_of(raw["machine_id"], name),
            name=name,
            boot_id=clean(raw["boot_id"], 64) if raw["boot_id"] else None,
            host=Host(
                kernel=clean(raw["kernel"], 128),
                booted_at=raw["booted_at"],
                cpu_count=raw["cpu_count"],
                cpu_percent=raw["cpu_percent"],
                load_1_minute=load[0],
                load_5_minutes=load[1],
                load_15_minutes=load[2],
                memory_used_bytes=used,
                memory_total_bytes=total,
            ),
        )
