"""The machine itself: its name and identity, kernel, load and memory."""

from typing import Any

from fleet_smi.model.snapshot import Host
from fleet_smi.model.text import clean
from fleet_smi.node.collecting import Part

# As `random` does in the standard library: `hashlib` would load OpenSSL, 6 ms for one hash.
try:
    from _sha2 import sha256
except ImportError:
    from _sha256 import sha256  # Python 3.11


class HostCollector:
    """A node is known by its machine-id, hashed because the bare one is a secret."""

    name = "host"

    def part(self, raw: Any) -> Part:
        used, total = _memory(raw["memory"] or "")
        load = _load(raw["load"] or "")
        name = clean(raw["hostname"], 128)
        return Part(
            node_id=_node_id(raw["machine_id"], name),
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


def _node_id(machine_id: str | None, name: str) -> str:
    if not machine_id:
        return f"name-{name}"
    return str(sha256(b"fleet-smi\0" + machine_id.encode()).hexdigest()[:32])


def _load(text: str) -> tuple[float | None, float | None, float | None]:
    try:
        one, five, fifteen = (float(word) for word in text.split()[:3])
    except ValueError:
        return None, None, None
    return one, five, fifteen


def _memory(text: str) -> tuple[int | None, int | None]:
    total, available = _kibibytes(text, "MemTotal:"), _kibibytes(text, "MemAvailable:")
    return (total - available if total and available is not None else None), total


def _kibibytes(text: str, key: str) -> int | None:
    words = text.partition(key)[2].split(maxsplit=1)
    number = words[0] if words else ""
    return (
        int(number) * 1024 if number.isascii() and number.isdigit() and len(number) < 16 else None
    )
