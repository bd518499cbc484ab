"""The latest sequence number of each agent run, to recognise resent reports."""

from fleet_smi.model.snapshot import Snapshot

_MAX_RUNS = 4  # agent restarts whose sequence numbers are remembered


class LatestSequences:
    """The latest sequence numbers of one node's agent, by run.

    The number of the current run is an attribute of its own, `sequence`, because it is set with
    every report.
    """

    __slots__ = ("_runs", "run_id", "sequence")

    def __init__(self, runs: dict[str | None, int] | None = None) -> None:
        self._runs = {} if runs is None else runs
        self.run_id: str | None = None
        self.sequence = -1

    def update(self, snapshot: Snapshot) -> None:
        """Set the latest number of the run that this report is from."""
        if snapshot.run_id != self.run_id:
            self.by_run()  # saves the number of the run that has ended
        self.run_id, self.sequence = snapshot.run_id, snapshot.sequence

    def was_received(self, snapshot: Snapshot) -> bool:
        """Whether this report, or a later one of the same run, was received before.

        Never true for an agent that sends no run id, or whose run is no longer remembered.
        """
        run_id = snapshot.run_id
        return run_id is not None and snapshot.sequence <= self.by_run().get(run_id, -1)

    def by_run(self) -> dict[str | None, int]:
        """The latest sequence numbers of the last few runs, the current one included."""
        if self.run_id is not None:
            self._runs[self.run_id] = self.sequence
            if len(self._runs) > _MAX_RUNS:
                # A dict is in insertion order: the first is the oldest run.
                del self._runs[next(iter(self._runs))]
        return self._runs
