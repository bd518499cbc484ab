"""Leases of GPUs on this machine: who has taken which, since and until when, and what for."""

from math import isfinite
from typing import Any

from fleet_smi.model.safe_text import sanitize_text
from fleet_smi.model.snapshot import Lease
from fleet_smi.node.collector import SnapshotPart

_MAX_TEXT = 128
_MAX_TIME = 2.0**33


class LeasesCollector:
    """The leases that are held, by the UUID of the GPU or instance."""

    name = "leases"

    def parse(self, raw: Any) -> SnapshotPart:
        return SnapshotPart(leases={row["uuid"]: _lease(row) for row in raw})


def _lease(row: dict[str, Any]) -> Lease:
    details = row["details"]
    since, changed_at = _time(details.get("since")), row["changed_at"]
    return Lease(
        holder=sanitize_text(row["user"], _MAX_TEXT),
        # The file was last written when the lease was taken: nobody has held it for less.
        taken_at=changed_at if since is None else min(since, changed_at),
        uid=row["uid"],
        pid=row["pid"],
        until=_time(details.get("until")),
        command=_text(details.get("command")),
        note=_text(details.get("note")),
    )


def _time(text: str | None) -> float | None:
    try:
        value = float(text or "")
    except ValueError:
        return None
    return value if isfinite(value) and 0 <= value <= _MAX_TIME else None


def _text(text: str | None) -> str | None:
    return sanitize_text(text, _MAX_TEXT) or None if text else None
