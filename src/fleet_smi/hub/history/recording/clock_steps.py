"""Clock steps: how the history continues after the hub's clock was set, forward or back."""

from math import inf

from fleet_smi.hub.history.recording.intervals import Occupant
from fleet_smi.hub.history.recording.ledger_state import LedgerState
from fleet_smi.hub.history.recording.occupancy_joins import remove_row
from fleet_smi.hub.history.recording.rows import WriteBatch
from fleet_smi.hub.history.recording.usage import UsageAccumulator, UsageBuckets, hour_start
from fleet_smi.model.history import Gap
from fleet_smi.model.units import format_duration

MAX_IGNORED_STEP_SECONDS = 30.0
"""Smaller corrections of the clock are waited out: their time has been recorded."""


class ReplacedTime:
    """The time that was recorded before the clock was set back, and is now recorded again.

    What was stored of it is replaced little by little, as time goes on: the clock may be wrong now,
    and be set forward again before all of that is lost.
    """

    __slots__ = ("_cuts", "_recorded_until", "_until")

    def __init__(self) -> None:
        self._recorded_until = -inf
        self._until: float | None = None
        self._cuts: list[tuple[float, float]] = []

    def restore(self, recorded_until: float, now: float) -> None:
        """Continue at `now` after a restart; later rows are from before a step back."""
        if recorded_until > now:
            self._recorded_until = recorded_until

    def step_clock(self, now: float, seconds: float) -> Gap:
        """Continue at `now`, as the clock was set by `seconds`; return the gap that says so."""
        if seconds < 0:
            self._recorded_until = max(self._recorded_until, now - seconds)
            self._cuts.append((now, now))
        self._until = now
        return _clock_gap(now, seconds)

    def take_until(self, now: float) -> list[tuple[float, float]]:
        """The span up to `now` that was recorded before; empty where there is none.

        Before the first span after a step there is one without length, at its start: only what
        reaches beyond that is cut.
        """
        start = self._until
        if now == -inf or (start is not None and now <= start):
            return []
        self._until = now
        end = min(now, self._recorded_until)
        cuts, self._cuts = self._cuts, []
        return [*cuts, (start, end)] if start is not None and start < end else cuts


def shift_occupants(
    node_id: str,
    by_device: dict[str, list[Occupant]],
    accounted_until: float,
    seconds: float,
    now: float,
    batch: WriteBatch,
) -> None:
    """Move the starts of processes, so that they have run for as long as before."""
    for uuid, occupants in by_device.items():
        gpu_key = node_id, uuid
        for occupant in occupants:
            occupant.pause(accounted_until)
            # There is one if the node was silent since the process came.
            remove_row(gpu_key, occupant, batch)
            occupant.start += seconds
            end = min(accounted_until + seconds, now)
            batch.occupancies.append((gpu_key, occupant.to_occupancy(end, certain=False)))


def cut_hour(buckets: UsageBuckets, start: float, at: float, end: float) -> UsageBuckets:
    """The sums, where those of the hour in which `at` lies were counted from `start` to `end`.

    They are cut to their share before `at`: when in the hour each was counted, is not known.
    """
    share = 1.0 if end <= max(start, at) else max(0.0, at - start) / (end - start)
    cut: UsageBuckets = {}
    for bucket, sums in buckets.items():
        cut[bucket] = UsageAccumulator()
        cut[bucket].add(sums, share if bucket.hour == hour_start(at) else 1.0)
    return cut


def shift_skews(state: LedgerState, seconds: float) -> None:
    """Move the differences between the hub's clock and the node's for all occupants."""
    occupants = [one for interval in state.intervals.values() for one in interval.occupants]
    occupants += [one for dormant in state.dormant.values() for one in dormant]
    for occupant in (*occupants, *[ended.occupant for ended in state.ended]):
        occupant.skew += seconds


def _clock_gap(now: float, seconds: float) -> Gap:
    """The gap that says that the clock was set by `seconds`: the time that it skipped, if any."""
    by = format_duration(abs(seconds))
    if seconds < 0:
        why = f"the hub's clock was set back by {by}: that time is recorded again"
        return Gap(start=now, end=now, why=why)
    return Gap(start=now - seconds, end=now, why=f"the hub's clock was set forward by {by}")
