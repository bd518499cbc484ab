"""The contract of a source, and what it delivers: a snapshot, or why there is none."""

from collections.abc import Callable, Sequence
from typing import Literal, Protocol

from msgspec import Struct
from msgspec.structs import replace

from fleet_smi.errors import DeliveryError
from fleet_smi.model.snapshot import Snapshot
from fleet_smi.model.snapshot_figures import SnapshotFigures

IdOrigin = Literal["report", "target", "credential"]
"""Where a node's id comes from: its report claims it, the source made it from the target's name,
or the sender has proven it by a credential."""


class Delivery(Struct, frozen=True, kw_only=True):
    """One snapshot, or the error instead of one: failures are values.

    A `result` of `None` clears an earlier failure that belongs to no node, such as a missing
    folder. `target` is what the source calls the node: a host name, an address, a file's name,
    or the node's id where nodes push. `age_seconds` is how long ago the snapshot was taken, as
    far as the source can tell without comparing the clocks of two machines. A claimed id is
    accepted only from the route that it first came by (`fleet/identity.py`). `address` is that of
    the machine which the source has connected to, or which has connected to it. A snapshot of a
    report `is_limited` already (`model/process_limit.py`). Where there are `figures`, they are
    newer than those of the snapshot, which is the rest of its node's latest sample.
    """

    source: str
    target: str
    result: Snapshot | DeliveryError | None
    age_seconds: float = 0.0
    id_origin: IdOrigin = "report"
    address: str | None = None
    is_limited: bool = False
    figures: SnapshotFigures | None = None


# A node is silent after three missed intervals, so this makes 15 minutes.
_DEFAULT_INTERVAL_SECONDS = 300.0
_INTERVALS_UNTIL_SILENT = 3


def with_default_interval(snapshot: Snapshot) -> Snapshot:
    """Set an interval where the node reports none (run by cron): silent after 15 minutes.

    Without one the node would never become silent, and its GPUs could stay free for ever.
    """
    if snapshot.interval_seconds is not None:
        return snapshot
    return replace(snapshot, interval_seconds=_DEFAULT_INTERVAL_SECONDS)


def with_polling_interval(snapshot: Snapshot, polling_seconds: float) -> Snapshot:
    """Add the polling interval to that of a node of which only the latest report is polled.

    A report appears up to one interval after the one before it, and is read up to one polling
    interval later: by the node's own interval alone, the pause between polls would be silence.
    """
    own = snapshot.interval_seconds
    if own is None:
        return with_default_interval(snapshot)
    return replace(snapshot, interval_seconds=own + polling_seconds)


def claim_order(delivery: Delivery) -> tuple[bool, str]:
    """Sort key of deliveries of one moment: of two that claim one node, the first owns it.

    The order of the targets, so that it is the same each time; but a report that is out of date,
    such as the file of a machine that has another name now, comes last.
    """
    result = delivery.result
    interval = result.interval_seconds if isinstance(result, Snapshot) else None
    timeout = _INTERVALS_UNTIL_SILENT * (interval or _DEFAULT_INTERVAL_SECONDS)
    return delivery.age_seconds > timeout, delivery.target


DeliverCallback = Callable[[Delivery], None]
"""Accepts one delivery; never blocks, to be called on the event loop only."""


class Source(Protocol):
    """The hub's end of one transport."""

    name: str

    @property
    def targets(self) -> Sequence[str]:
        """The nodes that are listed before any report of theirs was received."""

    async def poll(self) -> Sequence[Delivery]:
        """Return one delivery for each target, now; none for a source that only listens.

        Raise a `DeliveryError` when the source as a whole fails, and so has no target. A source
        with slow targets also has `poll_each(deliver)`, which delivers each when it answers.
        """

    async def run(self, deliver: DeliverCallback) -> None:
        """Deliver reports and failures until cancelled.

        A target that fails must not delay another. When this returns, no task, thread, process
        or file descriptor of the source is left.
        """
