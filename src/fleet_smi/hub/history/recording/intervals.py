"""Open intervals: a device in one state, and the processes on it, until either changes.

These structs are part of a node's checkpoint: a new field must come last, with a default.
"""

from collections.abc import Iterable, Sequence

from msgspec import Struct
from msgspec.structs import replace

from fleet_smi.hub.history.recording.device_use import DeviceUse
from fleet_smi.hub.history.recording.usage import UsageAccumulator
from fleet_smi.model.history import Holder, Occupancy, Period

# Some platforms report starts in whole seconds, and reports take a moment.
_SAME_START_SECONDS = 5.0


class Occupant(Struct, array_like=True):
    """A process on a GPU since `start`, with its usage and memory statistics so far.

    It holds `memory_bytes` since `memory_since`, which is `None` while the node is silent. When it
    was last listed, it had `started_at` by the node's clock; the hub's was ahead of it by `skew`.
    """

    holder: Holder
    start: float
    usage: UsageAccumulator
    memory_bytes: int | None = None
    memory_since: float | None = None
    memory_seconds: float = 0.0
    memory_byte_seconds: float = 0.0
    peak_memory_bytes: int | None = None
    skew: float = 0.0
    started_at: float | None = None

    def is_same_process(self, holder: Holder, skew: float) -> bool:
        """Whether a holder is this process: same pid and user, and about the same start.

        The start is compared by the hub's clock, too: it moves when the node's clock is set.
        """
        mine = self.holder
        if mine.pid != holder.pid or mine.user != holder.user:
            return False
        started_at = mine.started_at if self.started_at is None else self.started_at
        if started_at is None or holder.started_at is None:
            return True
        moved = holder.started_at - started_at
        return min(abs(moved), abs(moved + skew - self.skew)) < _SAME_START_SECONDS

    def update_memory(self, at: float, memory_bytes: int | None) -> None:
        """Set the memory that it holds from `at` on."""
        if memory_bytes == self.memory_bytes and self.memory_since is not None:
            return  # the usual case: the average is updated only when the memory changes
        self.pause(at)
        self.memory_bytes, self.memory_since = memory_bytes, at
        if memory_bytes is not None:
            self.peak_memory_bytes = max(memory_bytes, self.peak_memory_bytes or 0)

    def pause(self, at: float) -> None:
        """Stop the memory average until the next `update_memory`."""
        if self.memory_since is not None and self.memory_bytes is not None:
            self.memory_seconds += at - self.memory_since
            self.memory_byte_seconds += (at - self.memory_since) * self.memory_bytes
        self.memory_since = None

    def merge(self, other: "Occupant") -> None:
        """Add the statistics of another occupant that is the same process."""
        self.usage.add(other.usage)
        self.memory_seconds += other.memory_seconds
        self.memory_byte_seconds += other.memory_byte_seconds
        if other.peak_memory_bytes is not None:
            self.peak_memory_bytes = max(other.peak_memory_bytes, self.peak_memory_bytes or 0)

    def to_occupancy(self, at: float, *, ended: bool = True, certain: bool = True) -> Occupancy:
        """Return it as a ledger entry as of `at`."""
        return Occupancy(
            holder=self.holder,
            start=self.start,
            end=at if ended else None,
            certain=certain,
            sums=self.usage.to_sums(),
            mean_memory_bytes=self._mean_memory_bytes(at),
            peak_memory_bytes=self.peak_memory_bytes,
        )

    def _mean_memory_bytes(self, at: float) -> int | None:
        seconds, byte_seconds = self.memory_seconds, self.memory_byte_seconds
        if self.memory_since is not None and self.memory_bytes is not None:
            seconds += at - self.memory_since
            byte_seconds += (at - self.memory_since) * self.memory_bytes
        # A process that was in a single report so far has no duration to average over.
        return round(byte_seconds / seconds) if seconds > 0 else self.memory_bytes


class OpenInterval(Struct, array_like=True):
    """A device in one state with the same processes since `start`.

    `usage` is what has not been distributed to its occupants yet. `measured_seconds` is the
    distributed time with a known load, and `busy_seconds` that time multiplied by the load.
    `use.holders` is always empty here: the `occupants` carry the holders.
    """

    use: DeviceUse
    start: float
    occupants: list[Occupant]
    usage: UsageAccumulator
    measured_seconds: float = 0.0
    busy_seconds: float = 0.0

    @property
    def holders(self) -> tuple[Holder, ...]:
        """The holders of its occupants, as first seen."""
        return tuple([occupant.holder for occupant in self.occupants])

    def continues_as(self, use: DeviceUse) -> bool:
        """Whether the device is still in this state with the same processes."""
        return (
            use.state == self.use.state
            and use.lease == self.use.lease
            and use.weight == self.use.weight  # differs when MIG was reconfigured
            and len(use.holders) == len(self.occupants)
            and all(
                occupant.is_same_process(holder, use.skew)
                for occupant, holder in zip(self.occupants, use.holders, strict=True)
            )
        )

    def update_occupants(self, use: DeviceUse, at: float) -> None:
        """Set the memory and the starts of all occupants, which are in the order of the holders."""
        for occupant, holder in zip(self.occupants, use.holders, strict=True):
            occupant.update_memory(at, holder.memory_bytes)
            if not use.could_not_be_listed:
                occupant.started_at, occupant.skew = holder.started_at, use.skew

    def to_period(self, end: float | None, *, certain: bool = True) -> Period:
        """Return it as a ledger entry that ends at `end`."""
        return Period(
            start=self.start,
            end=end,
            state=self.use.state,
            reason=self.use.reason,
            holders=self.holders,
            certain=certain,
            busy_percent=self._busy_percent(),
        )

    def _busy_percent(self) -> float | None:
        seconds = self.measured_seconds
        return 100 * self.busy_seconds / seconds if seconds else None

    def occupants_by_user(self) -> dict[str, list[Occupant]]:
        """The occupants that are charged for its time, grouped by user."""
        by_user: dict[str, list[Occupant]] = {}
        if self.use.is_in_use:
            for occupant in self.occupants:
                by_user.setdefault(occupant.holder.user, []).append(occupant)
        return by_user


def begin_interval(use: DeviceUse, at: float, previous: Sequence[Occupant]) -> OpenInterval:
    """Begin an interval at `at`; occupants of the `previous` one that are still there continue."""
    # The same object moves on: an occupancy lasts through any number of periods of its GPU.
    occupants = [
        find_process(previous, holder, use.skew)
        or Occupant(holder, at, UsageAccumulator(), skew=use.skew)
        for holder in use.holders
    ]
    return OpenInterval(replace(use, holders=()), at, occupants, UsageAccumulator())


def keep_holders(use: DeviceUse, occupants: Sequence[Occupant]) -> DeviceUse:
    """Return a use whose holders could not be listed, with the occupants of before as holders."""
    if not (occupants and use.is_in_use):
        return use
    holders = [
        replace(
            one.holder,
            memory_bytes=one.memory_bytes,
            started_at=one.holder.started_at if one.started_at is None else one.started_at,
        )
        for one in occupants
    ]
    return replace(use, holders=tuple(holders))


def find_process(occupants: Iterable[Occupant], holder: Holder, skew: float) -> Occupant | None:
    """The occupant that is the process of a holder; `None` where there is none."""
    return next((known for known in occupants if known.is_same_process(holder, skew)), None)
