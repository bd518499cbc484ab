"""Tracking of sequence numbers: which reports of a node were received, as a few ranges."""

from bisect import bisect_right

from msgspec import Struct
from msgspec.structs import replace

# A hostile node must neither fill the memory nor make the count of missing reports exceed 2⁵³,
# up to which JSON readers that use doubles are exact.
_MAX_RUNS = 4
_MAX_RANGES = 32
_MAX_MISSING = 1 << 53


class RunSequences(Struct, omit_defaults=True):
    """The numbers received from one run of an agent.

    `firsts` and `lasts` are the ends of the ranges, ascending. `given_up` counts the missing
    numbers of gaps that are no longer tracked because there were too many.
    """

    run_id: str
    firsts: list[int]
    lasts: list[int]
    given_up: int = 0

    def add(self, sequence: int) -> bool:
        """Add a number; return false for a duplicate."""
        lasts = self.lasts
        # The usual case, without a search: the next number after the last.
        if sequence == lasts[-1] + 1:
            lasts[-1] = sequence
            return True
        place = bisect_right(self.firsts, sequence)
        if place and sequence <= lasts[place - 1]:
            return False
        self.firsts.insert(place, sequence)
        lasts.insert(place, sequence)
        self._join(place)
        self._join(place - 1)
        if len(lasts) > _MAX_RANGES:
            self._give_up()
        return True

    def has(self, sequence: int) -> bool:
        """Return whether a number was added."""
        place = bisect_right(self.firsts, sequence)
        return place > 0 and sequence <= self.lasts[place - 1]

    @property
    def missing(self) -> int:
        """How many numbers between the first and the last were not received."""
        # The sum of `next first - last - 1` over the gaps between the ranges.
        gaps = sum(self.firsts[1:]) - sum(self.lasts[:-1]) - len(self.lasts) + 1
        return self.given_up + gaps

    def _join(self, place: int) -> None:
        """Merge the range at `place` with the next where they are adjacent."""
        if 0 <= place < len(self.lasts) - 1 and self.lasts[place] + 1 == self.firsts[place + 1]:
            del self.lasts[place], self.firsts[place + 1]

    def _give_up(self) -> None:
        """Close the oldest gap, and keep only its size."""
        gap = self.firsts[1] - self.lasts[0] - 1
        self.given_up = min(self.given_up + gap, _MAX_MISSING)
        del self.lasts[0], self.firsts[1]


class SequenceTracker(Struct):
    """The numbers received from a node, by the runs of its agent; the latest run is last."""

    runs: list[RunSequences] = []

    def copy(self) -> "SequenceTracker":
        """Return a copy that later changes do not affect."""
        return SequenceTracker(
            [replace(run, firsts=[*run.firsts], lasts=[*run.lasts]) for run in self.runs]
        )

    def add(self, run_id: str, sequence: int) -> bool:
        """Add the number of a report; return false for a duplicate."""
        runs = self.runs
        if runs and runs[-1].run_id == run_id:
            return runs[-1].add(sequence)
        # Rare: a report of an earlier run of the agent that was delivered late.
        for run in runs:
            if run.run_id == run_id:
                return run.add(sequence)
        runs.append(RunSequences(run_id, [sequence], [sequence]))
        del runs[:-_MAX_RUNS]
        return True

    def has(self, run_id: str, sequence: int) -> bool:
        """Return whether the report of this number was added."""
        return any(run.has(sequence) for run in self.runs if run.run_id == run_id)

    def last(self, run_id: str | None) -> int | None:
        """Return the highest number of a run; `None` where none was added."""
        return next((run.lasts[-1] for run in self.runs if run.run_id == run_id), None)

    @property
    def missing(self) -> int:
        """How many reports are missing between the first and the last of each run."""
        return min(sum([run.missing for run in self.runs]), _MAX_MISSING)
