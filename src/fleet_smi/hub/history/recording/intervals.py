"""A GPU as long as it stands one way, and the processes on it, while that goes on."""

from collections.abc import Iterable, Sequence

from msgspec import Struct
from msgspec.structs import replace

from fleet_smi.hub.history.recording.holders import DeviceUse, is_same_process
from fleet_smi.hub.history.recording.usage import UsageAccumulator
from fleet_smi.model.history import Holder, Occupancy, Period


class Occupant(Struct, array_like=True):
    """A process on a GPU since `start`, and what it came to so far.

    It holds `memory_bytes` since `memory_from`, which is `None` while nobody looks.
    """

    holder: Holder
    start: float
    usage: UsageAccumulator
    memory_bytes: int | None = None
    memory_since: float | None = None
    memory_seconds: float = 0.0
    memory_byte_seconds: float = 0.0
    peak_memory_bytes: int | None = None

    def update_memory(self, at: float, memory_bytes: int | None) -> None:
        """From now on it holds so much memory."""
        if memory_bytes == self.memory_bytes and self.memory_since is not None:
            return
        self.pause(at)
        self.memory_bytes, self.memory_since = memory_bytes, at
        if memory_bytes is not None:
            self.peak_memory_bytes = max(memory_bytes, self.peak_memory_bytes or 0)

    def pause(self, at: float) -> None:
        """Nobody looks any longer."""
        if self.memory_since is not None and self.memory_bytes is not None:
            self.memory_seconds += at - self.memory_since
            self.memory_byte_seconds += (at - self.memory_since) * self.memory_bytes
        self.memory_since = None

    def merge(self, other: "Occupant") -> None:
        """Let what another knows of the same process be in this one."""
        self.usage.add(other.usage)
        self.memory_seconds += other.memory_seconds
        self.memory_byte_seconds += other.memory_byte_seconds
        if other.peak_memory_bytes is not None:
            self.peak_memory_bytes = max(other.peak_memory_bytes, self.peak_memory_bytes or 0)

    def to_occupancy(self, at: float, *, ended: bool = True, certain: bool = True) -> Occupancy:
        """What it is as of a moment."""
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
        return round(byte_seconds / seconds) if seconds > 0 else self.memory_bytes


class OpenInterval(Struct, array_like=True):
    """A GPU or instance since it stands so, and what has not been shared out yet.

    Who is on it are the `occupants`, and not told again in `part`. Its load was told for
    `measured_seconds` that are shared out; `busy_seconds` are these times the load.
    """

    use: DeviceUse
    start: float
    occupants: list[Occupant]
    usage: UsageAccumulator
    measured_seconds: float = 0.0
    busy_seconds: float = 0.0

    @property
    def holders(self) -> tuple[Holder, ...]:
        """Those on it, as they were first seen."""
        return tuple([occupant.holder for occupant in self.occupants])

    def continues_as(self, use: DeviceUse) -> bool:
        """Whether it still stands so, with the same processes on it."""
        mine, theirs = self.holders, use.holders
        return (
            use.state == self.use.state
            and use.weight == self.use.weight
            and len(theirs) == len(mine)
            and all(map(is_same_process, mine, theirs))
        )

    def update_memory(self, holders: Iterable[Holder], at: float) -> None:
        """From now on those on it hold so much memory; they are in the order of the occupants."""
        for occupant, holder in zip(self.occupants, holders, strict=True):
            occupant.update_memory(at, holder.memory_bytes)

    def to_period(self, end: float | None, *, certain: bool = True) -> Period:
        """What it is as of a moment."""
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
        """Whose time it is: everybody's in equal parts, and of each their processes'."""
        owners: dict[str, list[Occupant]] = {}
        if self.use.is_in_use:
            for occupant in self.occupants:
                owners.setdefault(occupant.holder.user, []).append(occupant)
        return owners


def begin_interval(use: DeviceUse, at: float, previous: Sequence[Occupant]) -> OpenInterval:
    """A GPU that stands so from now on; those who `were` on it and still are go on."""
    occupants = [
        next((one for one in previous if is_same_process(one.holder, holder)), None)
        or Occupant(holder, at, UsageAccumulator())
        for holder in use.holders
    ]
    return OpenInterval(replace(use, holders=()), at, occupants, UsageAccumulator())
