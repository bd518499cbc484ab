"""The ledger of one node: open intervals and hourly usage of each device.

Device uses and time spans go in, in time order; intervals that have ended go into a batch.
"""

from collections.abc import Iterable, Sequence

from msgspec.structs import replace

from fleet_smi.hub.history.recording.clock_steps import cut_hour, shift_occupants, shift_skews
from fleet_smi.hub.history.recording.device_use import DeviceUse
from fleet_smi.hub.history.recording.distribution import distribute_usage
from fleet_smi.hub.history.recording.gaps import recent_gaps, with_gap, without_span
from fleet_smi.hub.history.recording.idle_time import add_idle_window
from fleet_smi.hub.history.recording.intervals import (
    Occupant,
    OpenInterval,
    begin_interval,
    keep_holders,
)
from fleet_smi.hub.history.recording.ledger_state import LedgerState, TimeGap
from fleet_smi.hub.history.recording.occupancy_joins import (
    MAX_ENDED,
    TOLERANCE_SECONDS,
    EndedOccupant,
    join_occupant,
)
from fleet_smi.hub.history.recording.rows import Presence, WriteBatch
from fleet_smi.hub.history.recording.usage import (
    HOUR_SECONDS,
    UsageBuckets,
    add_buckets,
    filter_hours,
    hour_start,
    usage_rows,
)
from fleet_smi.hub.history.series.buffer import FigureSums
from fleet_smi.hub.history.series.series_row import GpuKey


class Ledger:
    """The ledger of one node.

    A ledger for late reports has a `successor`: the ledger that recorded what came after them,
    into which processes that were still running are merged.
    """

    __slots__ = (
        "_begun",
        "_buckets",
        "_dormant",
        "_ended",
        "_hour",
        "_intervals",
        "_node_id",
        "_since",
        "_successor",
        "counted",
        "gaps",
    )

    def __init__(
        self, node_id: str, state: LedgerState | None = None, successor: "Ledger | None" = None
    ) -> None:
        state = LedgerState() if state is None else state
        self._node_id = node_id
        self._successor = successor
        self._since, self._hour = state.since, state.hour
        self._intervals, self._dormant = state.intervals, state.dormant
        self._buckets: UsageBuckets = dict(state.buckets)
        self.gaps = state.gaps
        self._ended = state.ended
        self.counted = state.counted_from, state.counted_until
        """Usage between these was counted before the clock was set back."""
        self._begun = state.begun

    def to_state(self) -> LedgerState:
        """Return the open state; it shares objects with this ledger: encode it immediately."""
        return LedgerState(
            since=self._since,
            hour=self._hour,
            intervals=self._intervals,
            dormant=self._dormant,
            buckets=list(self._buckets.items()),
            gaps=self.gaps,
            ended=self._ended,
            counted_from=self.counted[0],
            counted_until=self.counted[1],
            begun=self._begun,
        )

    def add_usage(self, start: float, end: float, sums: FigureSums, batch: WriteBatch) -> None:
        """Add a time span, which lies within one hour, to the usage of all open intervals."""
        if (hour := hour_start(start)) != self._hour:
            self._end_hour(hour, batch)
        for interval in self._intervals.values():
            usage, use = interval.usage, interval.use
            usage.gpu_seconds += end - start
            if use.busy_index is not None:
                percent_seconds, known_seconds = sums[use.busy_index]
                usage.measured_seconds += known_seconds
                usage.busy_seconds += percent_seconds / 100
            if use.power_index is not None:
                usage.energy_joules += sums[use.power_index][0]

    def measured_columns(self) -> set[int]:
        """The sample columns that `add_usage` needs sums of."""
        uses = [interval.use for interval in self._intervals.values()]
        columns = {use.busy_index for use in uses} | {use.power_index for use in uses}
        return {column for column in columns if column is not None}

    def update(self, uses: Iterable[DeviceUse], at: float, batch: WriteBatch) -> None:
        """Set the uses of all devices from `at` on; a device that is not among them has ended."""
        self._since = at if self._since is None else self._since
        self._begun = at if self._begun is None else self._begun
        previous, self._intervals = self._intervals, {}
        for use in uses:
            self._intervals[use.uuid] = self._next_interval(
                use, previous.pop(use.uuid, None), at, batch
            )
        for interval in previous.values():
            self._end_interval(interval, (), at, batch)
        self._end_dormant()

    def update_some(self, uses: Iterable[DeviceUse], at: float, batch: WriteBatch) -> None:
        """Set the uses of some devices from `at` on; all others stay as they are."""
        for use in uses:
            self._intervals[use.uuid] = self._next_interval(
                use, self._intervals[use.uuid], at, batch
            )

    def update_memory(self, uuid: str, memory: dict[int, int | None], at: float) -> None:
        """Set the memory, by pid, that the processes on a device hold from `at` on."""
        for occupant in self._intervals[uuid].occupants:
            occupant.update_memory(at, memory.get(occupant.holder.pid))

    def record_silence(self, end: float, batch: WriteBatch) -> None:
        """Write that all intervals ended at `end` or later, because the node fell silent.

        The intervals stay open here: if the node reports again soon they continue, and their
        rows, which have the same keys, are replaced.
        """
        self.distribute()
        for uuid, interval in self._intervals.items():
            gpu_key = self._node_id, uuid
            batch.periods.append((gpu_key, interval.to_period(end, certain=False)))
            batch.occupancies += [
                (gpu_key, occupant.to_occupancy(end, certain=False))
                for occupant in interval.occupants
            ]
        batch.presence += self._presence(end, certain=False)
        batch.usage += usage_rows(self._node_id, self._buckets, [self._hour])

    def add_gap(self, start: float, end: float) -> None:
        """Record that the node was silent between two times; its processes may continue."""
        self.distribute()
        for uuid, interval in self._intervals.items():
            self._dormant[uuid] = interval.occupants
            for occupant in interval.occupants:
                occupant.pause(start)
        self._intervals, self._since = {}, None
        self.gaps = with_gap(self.gaps, (start, end))
        self._ended = [ended for ended in self._ended if self._borders_gap(ended)]

    def add_past(self, end: float) -> None:
        """Record that nothing is known of a new node before `end`: late reports may tell."""
        self.gaps = [(0.0, end)]

    def shift_skews(self, seconds: float) -> None:
        """Note that the hub's clock was set by `seconds`: nodes' clocks differ from it by more."""
        shift_skews(self.to_state(), seconds)

    def step_back(
        self, at: float, accounted_until: float, seconds: float, batch: WriteBatch
    ) -> "Ledger":
        """Return the ledger that continues at `at`: the hub's clock was set by `seconds`, back.

        Periods end there. Processes go on, and have run for as long as before. No time is counted
        twice: the usage of this hour is cut, and of an earlier one, not in memory any more, stays.
        """
        self.distribute()
        hour = hour_start(at)
        # Where it is not known when the first was recorded, all of the hour may have been.
        begun = hour if self._begun is None else self._begun
        counted = max(begun, at), min(accounted_until, hour + HOUR_SECONDS)
        if hour == self._hour:
            self._buckets = cut_hour(self._buckets, max(begun, hour), at, accounted_until)
            counted = at, at
        hours = {bucket.hour for bucket in self._buckets}
        batch.usage += usage_rows(self._node_id, self._buckets, hours)
        for uuid, interval in self._intervals.items():
            if interval.start < at:
                batch.periods.append(((self._node_id, uuid), interval.to_period(at, certain=False)))
        if self._since is not None and self._since < at:
            batch.presence += self._presence(at, certain=False)
        dormant = {uuid: interval.occupants for uuid, interval in self._intervals.items()}
        shift_occupants(self._node_id, dormant, accounted_until, seconds, at, batch)
        state = LedgerState(
            hour=hour,
            dormant=dormant,
            buckets=list(filter_hours(self._buckets, [hour]).items()),
            gaps=[gap for gap in self.gaps if gap[1] < at],
            counted_from=counted[0],
            counted_until=counted[1],
            begun=min(begun, at),
        )
        return Ledger(self._node_id, state)

    def step_forward(
        self, at: float, accounted_until: float, seconds: float, batch: WriteBatch
    ) -> None:
        """Move the processes of a node that counts as silent: the hub's clock was set forward."""
        open_occupants = {uuid: interval.occupants for uuid, interval in self._intervals.items()}
        shift_occupants(self._node_id, open_occupants, accounted_until, seconds, at, batch)

    def end(self, at: float, batch: WriteBatch) -> None:
        """End all intervals at `at`; none can continue after it."""
        # Before `update`, which would begin a presence where there is none.
        batch.presence += self._presence(at)
        self.update((), at, batch)
        batch.usage += usage_rows(self._node_id, self._buckets, [self._hour])
        self._since = None

    @property
    def usage_count(self) -> int:
        """The number of sums of usage that each checkpoint has: by GPU, user and state."""
        return len(self._buckets)

    @property
    def hour_buckets(self) -> UsageBuckets:
        """The sums of the current hour: a ledger that takes over begins with them."""
        return filter_hours(self._buckets, [self._hour])

    def fill_gap(self, gap: TimeGap, late: "Ledger", span: TimeGap, batch: WriteBatch) -> None:
        """Add the usage of an ended ledger of late reports, which covered `span` of this gap."""
        hours = {bucket.hour for bucket in late._buckets}
        add_buckets(self._buckets, late._buckets)
        # Whole sums, not the late part: a row replaces the stored one of its hour.
        batch.usage += usage_rows(self._node_id, self._buckets, hours)
        self.gaps = without_span(self.gaps, gap, span)
        self._ended = [ended for ended in self._ended if self._borders_gap(ended)]
        self._buckets = filter_hours(self._buckets, self._growing_hours())

    def distribute(self) -> None:
        """Distribute the usage of all intervals to users and processes."""
        for interval in self._intervals.values():
            distribute_usage(interval, self._hour, self._buckets)

    def collect_open(self, at: float, batch: WriteBatch) -> None:
        """Copy all open intervals into a batch as of `at`, for queries: not to be written."""
        self.distribute()
        for uuid, interval in self._intervals.items():
            gpu_key = self._node_id, uuid
            batch.periods.append((gpu_key, interval.to_period(None)))
            batch.occupancies += [
                (gpu_key, occupant.to_occupancy(at, ended=False)) for occupant in interval.occupants
            ]
        batch.presence += self._presence(None)

    def add_current_hour(self, batch: WriteBatch) -> None:
        """Put the sums of the current hour so far into a batch."""
        self.distribute()
        batch.usage += usage_rows(self._node_id, self._buckets, [self._hour])

    def _next_interval(
        self, use: DeviceUse, previous: OpenInterval | None, at: float, batch: WriteBatch
    ) -> OpenInterval:
        """Continue the previous interval of a device, or end it and begin another."""
        known = self._dormant.get(use.uuid, ()) if previous is None else previous.occupants
        if use.could_not_be_listed:
            use = keep_holders(use, known)
        if previous is not None and previous.continues_as(use):
            interval = previous
            # The reason quotes figures of the beginning; the stored period keeps those.
            interval.use = replace(use, reason=previous.use.reason, holders=())
        else:
            interval = begin_interval(use, at, known)
            if previous is not None:
                self._end_interval(previous, interval.occupants, at, batch)
                add_idle_window(previous, use, at, self._hour, self._buckets)
        interval.update_occupants(use, at)
        return interval

    def _end_interval(
        self, interval: OpenInterval, staying: Sequence[Occupant], at: float, batch: WriteBatch
    ) -> None:
        """Put the period, and the occupancies of processes that left with it, into a batch."""
        distribute_usage(interval, self._hour, self._buckets)
        gpu_key = self._node_id, interval.use.uuid
        # Periods are keyed by their start: an empty one would collide with the next.
        if at > interval.start:
            batch.periods.append((gpu_key, interval.to_period(at)))
        for occupant in interval.occupants:
            # By identity: `begin_interval` moves on the objects of those that stay.
            if any(occupant is other for other in staying):
                continue
            self._end_occupant(gpu_key, EndedOccupant(gpu_key[1], occupant, at), batch)

    def _end_occupant(self, gpu_key: GpuKey, ended: EndedOccupant, batch: WriteBatch) -> None:
        """Put an occupancy into a batch; a late one may be a part of one in the successor."""
        ledger = self if self._successor is None else self._successor
        interval = ledger._intervals.get(ended.uuid)
        running = () if interval is None or ledger is self else interval.occupants
        # A process that was running before, during and after a gap is one occupancy.
        if ledger is not self and join_occupant(gpu_key, ended, running, ledger._ended, batch):
            return
        batch.occupancies.append((gpu_key, ended.occupant.to_occupancy(ended.end)))
        if ledger._borders_gap(ended):
            ended.occupant.pause(ended.end)
            ledger._ended = [*ledger._ended, ended][-MAX_ENDED:]

    def _end_dormant(self) -> None:
        """Give up the processes that did not return after a gap; their rows are written."""
        for uuid, occupants in self._dormant.items():
            staying = self._intervals[uuid].occupants if uuid in self._intervals else []
            gone = [one for one in occupants if not any(one is other for other in staying)]
            if gone and self.gaps:
                end = self.gaps[-1][0]
                ended = [EndedOccupant(uuid, occupant, end) for occupant in gone]
                self._ended = [*self._ended, *ended][-MAX_ENDED:]
        self._dormant = {}

    def _borders_gap(self, ended: EndedOccupant) -> bool:
        """Whether late reports may show that an occupancy was longer."""
        return any(ended.occupant.start <= end + TOLERANCE_SECONDS for _, end in self.gaps)

    def _end_hour(self, hour: int, batch: WriteBatch) -> None:
        self.distribute()
        ended, self._hour = self._hour, hour
        # Late usage is written by `fill_gap`, added to what the successor has of that hour.
        if self._successor is None:
            self.gaps = recent_gaps(self.gaps, hour)
            batch.usage += usage_rows(self._node_id, self._buckets, [ended])
            self._buckets = filter_hours(self._buckets, self._growing_hours())

    def _growing_hours(self) -> set[int]:
        """The hours whose sums may still grow: the current one and those at the edges of gaps.

        A row of sums replaces the stored one, so an hour must stay in memory until it is final.
        """
        edges = [edge for gap in self.gaps for edge in gap]
        # The first hour after a gap: none of it may have been counted yet.
        if self._since is not None and self._since > self._hour:
            edges.append(self._since)
        return {self._hour, *map(hour_start, edges)}

    def _presence(self, end: float | None, *, certain: bool = True) -> list[Presence]:
        if self._since is None:
            return []
        return [Presence(node_id=self._node_id, start=self._since, end=end, certain=certain)]
