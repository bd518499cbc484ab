"""Range checks of readings: a value outside its valid range becomes `None`, with the reason.

Drivers print sentinels (2³²−1, 2⁶³, −1) and garbage as if they were readings. The ranges of
figures come from the registry in `figures.py`.
"""

from typing import Any, TypeVar

from fleet_smi.model.figures import GPU_FIGURES

Number = TypeVar("Number", int, float)

_32_BITS = (0, 2**32 - 2)  # 2³²−1, which is (uid_t) -1, means "no user" to the kernel

RANGES: dict[str, tuple[float, float]] = {
    **{figure.field: figure.valid_range for figure in GPU_FIGURES},
    # Numbers that are no figures of a GPU: identifiers, and what is known of a process.
    "index": (0, 65_535),
    "gpu_instance_id": (0, 65_535),
    "compute_instance_id": (0, 65_535),
    "pid": _32_BITS,
    "parent_pid": _32_BITS,
    "gpu_memory_bytes": (0, 2**50),  # 1 PiB
    "uid": _32_BITS,
    "started_at": (0, 2**33),
    "cpu_percent": (0, 1_000_000),  # of one core: 10,000 cores
    "host_memory_bytes": (0, 2**50),
    "more_processes": (0, 2**31),
}
"""The smallest and largest possible value of each numeric field, by its name."""


def check_range(field: str, value: Number | None, unread: dict[str, str]) -> Number | None:
    """Return `value`, or `None` with the reason in `unread` when `field` cannot be that."""
    if value is None:
        return None
    low, high = RANGES[field]
    # NaN fails both comparisons, so it is out of every range.
    if low <= value <= high:
        return value
    unread[field] = f"out of range: {_format(value)}"
    return None


def check_temperature(
    value: Number | None, busy_percent: float | None, unread: dict[str, str]
) -> Number | None:
    """Like `check_range`, for a temperature; −1 °C on a busy device is a sentinel."""
    if value == -1 and busy_percent:
        unread["temperature_celsius"] = "out of range: -1 under load"
        return None
    return check_range("temperature_celsius", value, unread)


def check_memory_used(used: int | None, total: int | None, unread: dict[str, str]) -> int | None:
    """Like `check_range`, for the memory in use, which cannot exceed the total."""
    if used is not None and total is not None and used > total:
        unread["memory_used_bytes"] = "out of range: more than there is"
        return None
    return check_range("memory_used_bytes", used, unread)


def check_fields(fields: dict[str, Any], unread: dict[str, str]) -> dict[str, Any]:
    """Check several fields of a `Gpu`; return them with `None` for what is out of range."""
    checked = dict(fields)
    for name, value in fields.items():
        if value is not None:
            low, high = RANGES[name]
            # Nearly all values are in range: calling a function for each would be most of the cost.
            if not low <= value <= high:
                checked[name] = check_range(name, value, unread)
    if "memory_used_bytes" in checked:
        used, total = checked["memory_used_bytes"], checked.get("memory_total_bytes")
        checked["memory_used_bytes"] = check_memory_used(used, total, unread)
    return checked


def first_known(*values: Any) -> Any:
    """Return the first value that is not `None`."""
    return next((value for value in values if value is not None), None)


def _format(value: float) -> str:
    # A hostile integer of a million digits must not become a message of that length.
    if isinstance(value, int) and abs(value) >= 10**24:
        return "24 digits or more"
    return str(value) if isinstance(value, int) else f"{value:g}"
