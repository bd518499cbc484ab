"""Which of a node's numbered reports came: as few ranges, with holes where one is missing."""

from bisect import bisect_right

from msgspec import Struct
from msgspec.structs import replace

# A hostile node must fill neither the memory nor a number that goes over the wire.
_MOST_RUNS = 4
_MOST_RANGES = 32
_MOST_MISSING = 1 << 53


class RunSequences(Struct, omit_defaults=True):
    """The numbers that came from one life of an agent.

    `firsts` and `lasts` are the ends of the ranges, in rising order. `given_up` counts the
    holes that are no longer waited for, since there were too many.
    """

    run_id: str
    firsts: list[int]
    lasts: list[int]
    given_up: int = 0

    def add(self, sequence: int) -> bool:
        """Take a number in; false when it came before."""
        lasts = self.lasts
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
        if len(lasts) > _MOST_RANGES:
            self._give_up()
        return True

    @property
    def missing(self) -> int:
        """How many numbers between the first and the last did not come."""
        holes = sum(self.firsts[1:]) - sum(self.lasts[:-1]) - len(self.lasts) + 1
        return self.given_up + holes

    def _join(self, place: int) -> None:
        """Make one range of two that touch: the one at `place` and the next."""
        if 0 <= place < len(self.lasts) - 1 and self.lasts[place] + 1 == self.firsts[place + 1]:
            del self.lasts[place], self.firsts[place + 1]

    def _give_up(self) -> None:
        """Close the oldest hole, and remember only how large it was."""
        hole = self.firsts[1] - self.lasts[0] - 1
        self.given_up = min(self.given_up + hole, _MOST_MISSING)
        del self.lasts[0], self.firsts[1]


class SequenceTracker(Struct):
    """The numbers that came from a node, by the runs of its agent; the latest run is last."""

    runs: list[RunSequences] = []

    def copy(self) -> "SequenceTracker":
        """The same, to be kept while this one goes on changing."""
        return SequenceTracker(
            [replace(run, firsts=[*run.firsts], lasts=[*run.lasts]) for run in self.runs]
        )

    def add(self, run_id: str, sequence: int) -> bool:
        """Take a report's number in; false when it came before."""
        runs = self.runs
        if runs and runs[-1].run_id == run_id:
            return runs[-1].add(sequence)
        for run in runs:
            if run.run_id == run_id:
                return run.add(sequence)
        runs.append(RunSequences(run_id, [sequence], [sequence]))
        del runs[:-_MOST_RUNS]
        return True

    @property
    def missing(self) -> int:
        """How many reports did not come, between the first and the last of each run."""
        return min(sum([run.missing for run in self.runs]), _MOST_MISSING)
