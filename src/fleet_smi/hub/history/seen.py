"""Who was on each GPU when one last looked: most reports show the same, and need no other look."""

from fleet_smi.hub.fleet import Change
from fleet_smi.model.crowd import Crowd
from fleet_smi.model.snapshot import Gpu, Snapshot

Starts = list[list[float | None]]


class Seen:
    """What one change showed of a node; `reported` are the UUIDs in it."""

    __slots__ = ("_crowds", "_starts", "reported")

    def __init__(self, change: Change | None = None) -> None:
        self.reported = None if change is None else change.reported
        self._crowds: list[Crowd] = [] if change is None else _crowds(change)
        self._starts: Starts = [] if change is None else _starts(change.snapshot)

    def shows(self, latest: Snapshot) -> bool:
        """Whether the processes are those in the latest report, and not others of their numbers."""
        return _starts(latest) == self._starts

    def with_other_memory(self, change: Change) -> set[str] | None:
        """Where the same people hold other memory; `None` where it is not the same people.

        From now on they are seen with that memory.
        """
        crowds, stirred = _crowds(change), set[str]()
        if len(crowds) != len(self._crowds):
            return None
        for uuid, crowd, before in zip(change.standings, crowds, self._crowds, strict=True):
            if crowd is not before:
                if crowd.pids != before.pids or crowd.name != before.name:
                    return None
                stirred.add(uuid)
        self._crowds = crowds
        return stirred

    def stirred(self, change: Change) -> list[Gpu] | None:
        """The GPUs to be looked at again; `None` where there are others than before."""
        crowds = _crowds(change)
        if change.reported is not self.reported or len(crowds) != len(self._crowds):
            return None
        stirred = {turn.uuid for turn in change.turns}
        pairs = zip(change.standings, crowds, self._crowds, strict=True)
        stirred |= {uuid for uuid, crowd, before in pairs if crowd is not before}
        snapshot, some = change.snapshot, []
        for gpu, now, then in zip(snapshot.gpus, _starts(snapshot), self._starts, strict=True):
            uuids = {gpu.uuid, *[part.uuid for part in gpu.instances]}
            if now != then or not stirred.isdisjoint(uuids):
                some.append(gpu)
                stirred -= uuids
        return None if stirred else some


def _crowds(change: Change) -> list[Crowd]:
    return [standing.crowd for standing in change.standings.values()]


def _starts(snapshot: Snapshot) -> Starts:
    """When those on each GPU began."""
    return [[one.started_at for one in gpu.processes or ()] for gpu in snapshot.gpus]
