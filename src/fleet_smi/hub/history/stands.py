"""A GPU as long as it stands one way, and the processes on it, while that goes on."""

from collections.abc import Iterable, Sequence

from msgspec import Struct
from msgspec.structs import replace

from fleet_smi.hub.history.holders import Part, same
from fleet_smi.hub.history.usage import Account
from fleet_smi.model.history import Holder, Occupancy, Period


class Occupant(Struct, array_like=True):
    """A process on a GPU since `start`, and what it came to so far.

    It holds `memory_bytes` since `memory_from`, which is `None` while nobody looks.
    """

    holder: Holder
    start: float
    account: Account
    memory_bytes: int | None = None
    memory_from: float | None = None
    memory_seconds: float = 0.0
    memory_byte_seconds: float = 0.0
    peak_memory_bytes: int | None = None

    def remember(self, at: float, memory_bytes: int | None) -> None:
        """From now on it holds so much memory."""
        if memory_bytes == self.memory_bytes and self.memory_from is not None:
            return
        self.rest(at)
        self.memory_bytes, self.memory_from = memory_bytes, at
        if memory_bytes is not None:
            self.peak_memory_bytes = max(memory_bytes, self.peak_memory_bytes or 0)

    def rest(self, at: float) -> None:
        """Nobody looks any longer."""
        if self.memory_from is not None and self.memory_bytes is not None:
            self.memory_seconds += at - self.memory_from
            self.memory_byte_seconds += (at - self.memory_from) * self.memory_bytes
        self.memory_from = None

    def add(self, other: "Occupant") -> None:
        """Let what another knows of the same process be in this one."""
        self.account.add(other.account)
        self.memory_seconds += other.memory_seconds
        self.memory_byte_seconds += other.memory_byte_seconds
        if other.peak_memory_bytes is not None:
            self.peak_memory_bytes = max(other.peak_memory_bytes, self.peak_memory_bytes or 0)

    def occupancy(self, at: float, *, ended: bool = True, certain: bool = True) -> Occupancy:
        """What it is as of a moment."""
        return Occupancy(
            holder=self.holder,
            start=self.start,
            end=at if ended else None,
            certain=certain,
            sums=self.account.sums(),
            mean_memory_bytes=self._mean_memory_bytes(at),
            peak_memory_bytes=self.peak_memory_bytes,
        )

    def _mean_memory_bytes(self, at: float) -> int | None:
        seconds, byte_seconds = self.memory_seconds, self.memory_byte_seconds
        if self.memory_from is not None and self.memory_bytes is not None:
            seconds += at - self.memory_from
            byte_seconds += (at - self.memory_from) * self.memory_bytes
        return round(byte_seconds / seconds) if seconds > 0 else self.memory_bytes


class Stand(Struct, array_like=True):
    """A GPU or instance since it stands so, and what has not been shared out yet.

    Who is on it are the `occupants`, and not told again in `part`. Its load was told for
    `measured_seconds` that are shared out; `busy_seconds` are these times the load.
    """

    part: Part
    start: float
    occupants: list[Occupant]
    account: Account
    measured_seconds: float = 0.0
    busy_seconds: float = 0.0

    @property
    def holders(self) -> tuple[Holder, ...]:
        """Those on it, as they were first seen."""
        return tuple([occupant.holder for occupant in self.occupants])

    def goes_on(self, part: Part) -> bool:
        """Whether it still stands so, with the same processes on it."""
        mine, theirs = self.holders, part.holders
        return (
            part.state == self.part.state
            and part.weight == self.part.weight
            and len(theirs) == len(mine)
            and all(map(same, mine, theirs))
        )

    def remember(self, holders: Iterable[Holder], at: float) -> None:
        """From now on those on it hold so much memory; they are in the order of the occupants."""
        for occupant, holder in zip(self.occupants, holders, strict=True):
            occupant.remember(at, holder.memory_bytes)

    def period(self, end: float | None, *, certain: bool = True) -> Period:
        """What it is as of a moment."""
        return Period(
            start=self.start,
            end=end,
            state=self.part.state,
            reason=self.part.reason,
            holders=self.holders,
            certain=certain,
            busy_percent=self._busy_percent(),
        )

    def _busy_percent(self) -> float | None:
        seconds = self.measured_seconds
        return 100 * self.busy_seconds / seconds if seconds else None

    def owners(self) -> dict[str, list[Occupant]]:
        """Whose time it is: everybody's in equal parts, and of each their processes'."""
        owners: dict[str, list[Occupant]] = {}
        if self.part.taken:
            for occupant in self.occupants:
                owners.setdefault(occupant.holder.user, []).append(occupant)
        return owners


def begun(part: Part, at: float, were: Sequence[Occupant]) -> Stand:
    """A GPU that stands so from now on; those who `were` on it and still are go on."""
    occupants = [
        next((one for one in were if same(one.holder, holder)), None)
        or Occupant(holder, at, Account())
        for holder in part.holders
    ]
    return Stand(replace(part, holders=()), at, occupants, Account())
