"""The ledger of one node: how each GPU stood, who was on it, and what that came to.

Stretches and samples go in, in the order of their time; what has ended goes into a batch.
"""

from collections.abc import Iterable, Sequence

from msgspec import Struct
from msgspec.structs import replace

from fleet_smi.hub.history.recording.holders import DeviceUse, is_same_process
from fleet_smi.hub.history.recording.intervals import Occupant, OpenInterval, begin_interval
from fleet_smi.hub.history.recording.rows import GpuKey, Presence, WriteBatch
from fleet_smi.hub.history.recording.usage import (
    HOUR_SECONDS,
    UsageAccumulator,
    UsageBucket,
    UsageBuckets,
    add_buckets,
    filter_hours,
    hour_start,
    usage_rows,
)
from fleet_smi.hub.history.series.buffer import FigureSums
from fleet_smi.model.fleet import State
from fleet_smi.model.history import NO_USER

# So long, and so many of them, the gaps of a node can still be filled by what comes late.
_GAPS_KEPT_SECONDS = 48.0 * HOUR_SECONDS
_MOST_GAPS = 8
_SHORTEST_GAP_SECONDS = 1.0

TimeGap = tuple[float, float]


class LedgerState(Struct, kw_only=True, array_like=True):
    """All of a ledger that goes on.

    The node has been heard `since` the last gap. Those `resting` were there when it fell
    silent, and may still be.
    """

    since: float | None = None
    hour: int = 0
    intervals: dict[str, OpenInterval] = {}
    dormant: dict[str, list[Occupant]] = {}
    buckets: list[tuple[UsageBucket, UsageAccumulator]] = []
    gaps: list[TimeGap] = []


class Ledger:
    """Of one node; an `heir` knows what came later, and whom of those here it still has."""

    __slots__ = ("_buckets", "_heir", "_hour", "_node_id", "_resting", "_since", "_stands", "gaps")

    def __init__(
        self, node_id: str, state: LedgerState | None = None, successor: "Ledger | None" = None
    ) -> None:
        state = LedgerState() if state is None else state
        self._node_id = node_id
        self._heir = successor
        self._since, self._hour = state.since, state.hour
        self._stands, self._resting = state.intervals, state.dormant
        self._buckets: UsageBuckets = dict(state.buckets)
        self.gaps = state.gaps

    def to_state(self) -> LedgerState:
        """What another goes on from; to be encoded at once."""
        return LedgerState(
            since=self._since,
            hour=self._hour,
            intervals=self._stands,
            dormant=self._resting,
            buckets=list(self._buckets.items()),
            gaps=self.gaps,
        )

    def add_usage(self, start: float, end: float, sums: FigureSums, batch: WriteBatch) -> None:
        """Count a stretch, which lies within one hour, as time of all that stands."""
        if (hour := hour_start(start)) != self._hour:
            self._end_hour(hour, batch)
        for stand in self._stands.values():
            account, busy, power = stand.usage, stand.use.busy_index, stand.use.power_index
            account.gpu_seconds += end - start
            if busy is not None:
                product, seconds = sums[busy]
                account.measured_seconds += seconds
                account.busy_seconds += product / 100
            if power is not None:
                account.energy_joules += sums[power][0]

    def measured_columns(self) -> set[int]:
        """The places of all figures that count for somebody."""
        parts = [stand.use for stand in self._stands.values()]
        places = {part.busy_index for part in parts} | {part.power_index for part in parts}
        return {place for place in places if place is not None}

    def update(self, uses: Iterable[DeviceUse], at: float, batch: WriteBatch) -> None:
        """From now on all stands so."""
        if self._since is None:
            self._since = at
        before, self._stands = self._stands, {}
        for part in uses:
            self._stands[part.uuid] = self._stand(part, before.pop(part.uuid, None), at, batch)
        for stand in before.values():
            self._end(stand, (), at, batch)
        self._resting = {}

    def update_some(self, uses: Iterable[DeviceUse], at: float, batch: WriteBatch) -> None:
        """From now on some stand so, and all others as before."""
        for part in uses:
            self._stands[part.uuid] = self._stand(part, self._stands[part.uuid], at, batch)

    def update_memory(self, uuid: str, memory: dict[int, int | None], at: float) -> None:
        """From now on the processes on a GPU hold so much memory."""
        for occupant in self._stands[uuid].occupants:
            occupant.update_memory(at, memory.get(occupant.holder.pid))

    def record_silence(self, end: float, batch: WriteBatch) -> None:
        """Nobody has heard the node since `end`: all ended then, or later.

        That is only told: where the node is heard again soon, all goes on as if nothing had been.
        """
        self.distribute()
        for uuid, stand in self._stands.items():
            place = self._node_id, uuid
            batch.periods.append((place, stand.to_period(end, certain=False)))
            left = [one.to_occupancy(end, certain=False) for one in stand.occupants]
            batch.occupancies += [(place, one) for one in left]
        batch.presence += self._presence(end, certain=False)
        batch.usage += usage_rows(self._node_id, self._buckets, [self._hour])

    def add_gap(self, start: float, end: float) -> None:
        """The node was silent in between; who is still there goes on."""
        self.distribute()
        for uuid, stand in self._stands.items():
            self._resting[uuid] = stand.occupants
            for occupant in stand.occupants:
                occupant.pause(start)
        self._stands, self._since = {}, None
        kept = [one for one in self.gaps if one[1] > end - _GAPS_KEPT_SECONDS]
        self.gaps = [*kept, (start, end)][-_MOST_GAPS:]

    def end(self, at: float, batch: WriteBatch) -> None:
        """Nothing more is to come."""
        batch.presence += self._presence(at)
        self.update((), at, batch)
        batch.usage += usage_rows(self._node_id, self._buckets, [self._hour])
        self._since = None

    def fill_gap(
        self, gap: TimeGap, late_ledger: "Ledger", span: TimeGap, batch: WriteBatch
    ) -> None:
        """Take in what another ledger, of which all has ended, knows of this part of a gap."""
        hours = {bucket.hour for bucket in late_ledger._buckets}
        add_buckets(self._buckets, late_ledger._buckets)
        batch.usage += usage_rows(self._node_id, self._buckets, hours)
        rest = [(gap[0], span[0]), (span[1], gap[1])]
        holes = [one for one in rest if one[1] - one[0] > _SHORTEST_GAP_SECONDS]
        self.gaps = sorted([*holes, *[one for one in self.gaps if one != gap]])[-_MOST_GAPS:]
        self._buckets = filter_hours(self._buckets, self._hours())

    def distribute(self) -> None:
        """Share out what has been counted."""
        for stand in self._stands.values():
            self._share_out(stand)

    def collect_open(self, at: float, batch: WriteBatch) -> None:
        """Put all that goes on into a batch, as it is at a moment: for who asks, not to be kept."""
        self.distribute()
        for uuid, stand in self._stands.items():
            place = self._node_id, uuid
            batch.periods.append((place, stand.to_period(None)))
            batch.occupancies += [
                (place, one.to_occupancy(at, ended=False)) for one in stand.occupants
            ]
        batch.presence += self._presence(None)
        batch.usage += usage_rows(self._node_id, self._buckets, [self._hour])

    def states(self, uuids: Iterable[str]) -> list[State]:
        """How these stand."""
        return [self._stands[uuid].use.state for uuid in uuids if uuid in self._stands]

    def _stand(
        self, part: DeviceUse, before: OpenInterval | None, at: float, batch: WriteBatch
    ) -> OpenInterval:
        if before is not None and before.continues_as(part):
            stand = before
            stand.use = replace(part, reason=before.use.reason, holders=())
        else:
            were = self._resting.get(part.uuid, ()) if before is None else before.occupants
            stand = begin_interval(part, at, were)
            if before is not None:
                self._end(before, stand.occupants, at, batch)
        stand.update_memory(part.holders, at)
        return stand

    def _end(
        self, stand: OpenInterval, staying: Sequence[Occupant], at: float, batch: WriteBatch
    ) -> None:
        self._share_out(stand)
        place = self._node_id, stand.use.uuid
        if at > stand.start:
            batch.periods.append((place, stand.to_period(at)))
        for occupant in stand.occupants:
            if not any(occupant is one for one in staying) and not self._inherited(place, occupant):
                batch.occupancies.append((place, occupant.to_occupancy(at)))

    def _inherited(self, place: GpuKey, occupant: Occupant) -> bool:
        """Whether the heir has it still, from before this: then it is one with that."""
        stand = None if self._heir is None else self._heir._stands.get(place[1])
        for one in () if stand is None else stand.occupants:
            if one.start < occupant.start and is_same_process(one.holder, occupant.holder):
                one.merge(occupant)
                return True
        return False

    def _share_out(self, stand: OpenInterval) -> None:
        account, part = stand.usage, stand.use
        if not account.gpu_seconds:
            return
        stand.usage = UsageAccumulator()
        stand.measured_seconds += account.measured_seconds
        stand.busy_seconds += account.busy_seconds
        if part.state == "held":
            account.idle_seconds = account.gpu_seconds
        owners = stand.occupants_by_user()
        if not owners and part.weight:
            self._bucket(part, NO_USER, "").add(account, part.weight)
        for user, theirs in owners.items():
            share = part.weight / len(owners)
            self._bucket(part, user, theirs[0].holder.group or "").add(account, share)
            for occupant in theirs:
                occupant.usage.add(account, share / len(theirs))

    def _bucket(self, part: DeviceUse, user: str, group: str) -> UsageAccumulator:
        bucket = UsageBucket(self._hour, part.uuid, user, group, part.state)
        return self._buckets.setdefault(bucket, UsageAccumulator())

    def _end_hour(self, hour: int, batch: WriteBatch) -> None:
        self.distribute()
        ended, self._hour = self._hour, hour
        if self._heir is None:
            batch.usage += usage_rows(self._node_id, self._buckets, [ended])
            self._buckets = filter_hours(self._buckets, self._hours())

    def _hours(self) -> set[int]:
        """Those whose sums may still grow; of what came after a gap nothing may be counted yet."""
        edges = [edge for gap in self.gaps for edge in gap]
        if self._since is not None and self._since > self._hour:
            edges.append(self._since)
        return {self._hour, *map(hour_start, edges)}

    def _presence(self, end: float | None, *, certain: bool = True) -> list[Presence]:
        if self._since is None:
            return []
        presence = Presence(node_id=self._node_id, start=self._since, end=end, certain=certain)
        return [presence]
