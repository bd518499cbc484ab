"""Work time of reports on the event loop, without a system call for each."""

import time
from collections.abc import Callable

# A reading of the CPU clock takes a microsecond, ten times as long as one of the elapsed time.
_REPORTS_PER_CPU_READING = 16
# What took less is charged as it is: no report of this little work uses up a budget.
_MIN_DOUBTED_SECONDS = 0.001


class WorkClock:
    """Measures elapsed time, which counts only as far as the thread has used CPU time meanwhile.

    On a machine that is busy with other programs, a report can take long without any work.
    """

    def __init__(
        self,
        elapsed_clock: Callable[[], float] = time.monotonic,
        cpu_clock: Callable[[], float] = time.thread_time,
    ) -> None:
        self._elapsed_clock = elapsed_clock
        self._cpu_clock = cpu_clock
        self._reports_left = 0
        self._cpu_at = 0.0

    def start(self) -> float:
        """Return the start of some work, for `seconds_since`."""
        if self._reports_left <= 0:
            self._reports_left = _REPORTS_PER_CPU_READING
            self._cpu_at = self._cpu_clock()
        self._reports_left -= 1
        return self._elapsed_clock()

    def seconds_since(self, started: float) -> float:
        """Return how long the work took at most."""
        seconds = self._elapsed_clock() - started
        if seconds > _MIN_DOUBTED_SECONDS:
            before, self._cpu_at = self._cpu_at, self._cpu_clock()
            seconds = min(seconds, self._cpu_at - before)
        return seconds
