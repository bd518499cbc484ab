"""What a source is, and what it delivers: a snapshot, or why there is none."""

from collections.abc import Callable, Sequence
from typing import Protocol

from msgspec import Struct
from msgspec.structs import replace

from fleet_smi.errors import DeliveryError
from fleet_smi.model.snapshot import Snapshot


class Delivery(Struct, frozen=True, kw_only=True):
    """One snapshot, or why there is none; failures are values.

    `None` takes a failure back that was nobody's own: the folder is there again.
    `target` is what the source calls the node: a host name, an address, a file's name, and
    the node's id where it comes by itself. `age_seconds` is how long ago the snapshot was
    taken, by whatever the source can tell; never by comparing two machines' clocks.
    """

    source: str
    target: str
    result: Snapshot | DeliveryError | None
    age_seconds: float = 0.0


_UNTOLD_INTERVAL_SECONDS = 300.0


def with_default_interval(snapshot: Snapshot) -> Snapshot:
    """The snapshot with a pace: one that tells none (a run from cron) is old after 15 minutes.

    Without it a node would never be silent, and its GPUs free for ever.
    """
    if snapshot.interval_seconds is not None:
        return snapshot
    return replace(snapshot, interval_seconds=_UNTOLD_INTERVAL_SECONDS)


DeliverCallback = Callable[[Delivery], None]
"""Takes one delivery in; quick, never blocks, to be called on the event loop only."""


class Source(Protocol):
    """The hub's end of one way in which nodes are heard."""

    name: str

    @property
    def targets(self) -> Sequence[str]:
        """The nodes that are known to be there before anything is heard of them."""

    async def poll(self) -> Sequence[Delivery]:
        """One delivery for each target, now. A source that only listens has none.

        Raise a `DeliveryError` when there is no place to look at, and so no target.
        """

    async def run(self, deliver: DeliverCallback) -> None:
        """Deliver what comes, failures included, until cancelled.

        A target that fails never delays another. When this ends, no task, thread, process or
        descriptor of it is left.
        """
