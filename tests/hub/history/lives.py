"""Lives of a hub, and agents that report to it as real ones do: what it does not keep, again."""

import contextlib
import random
import secrets
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

import msgspec

from fleet_smi.errors import Unreachable
from fleet_smi.hub.database import open_database
from fleet_smi.hub.fleet import Fleet, Remembered
from fleet_smi.hub.history.answers import Answers
from fleet_smi.hub.history.history import History
from fleet_smi.hub.history.retention import Keep
from fleet_smi.hub.history.rows import Batch, Checkpoint, SeriesRow
from fleet_smi.hub.history.store import open_history
from fleet_smi.hub.history.writer import Writer
from fleet_smi.hub.keeping import Keeping
from fleet_smi.hub.memory import Memory
from fleet_smi.hub.turns import Turns
from fleet_smi.model.snapshot import Snapshot
from fleet_smi.node.buffer import Buffer
from fleet_smi.node.outlets.push import PushOutlet
from fleet_smi.node.reporting import Reporter
from fleet_smi.node.spool import Spool
from fleet_smi.wire.report import Receipt
from tests.machines import wait_until

# A report that is sent again is a moment off: by so much of an interval at most.
_OFF = 0.01


class Behind:
    """A keeper who is one batch behind: what a hub that is killed had not written yet."""

    def __init__(self, writer: Writer) -> None:
        self._writer = writer
        self._last: Batch | None = None

    def put(self, batch: Batch) -> int:
        self.catch_up()
        self._last = batch
        return self._writer.given + 1

    def catch_up(self) -> None:
        if self._last is not None:
            self._writer.put(self._last)
        self._last = None

    def is_done(self, number: int) -> bool:
        return number <= self._writer.given and self._writer.is_done(number)

    def checkpoints(self) -> Iterable[Checkpoint]:
        return self._writer.checkpoints()

    def rows(self, moments: Mapping[str, float]) -> Iterable[SeriesRow]:
        return self._writer.rows(moments)


class Lives:
    """One hub after the other on one history and one memory, with a clock of their own.

    At one of so many snapshots it `ends`: it is stopped, or killed.
    """

    def __init__(self, where: str, folder: Path, keep: Keep, now: float, ends: float) -> None:
        self.now = now
        self._ends = ends
        self._where = where
        self._keep = keep
        self._chance = random.Random(7)
        self._engine = open_database(folder)
        self._begin()

    def hear(self, snapshots: Sequence[Snapshot]) -> Receipt:
        """What a hub does with a report; raise `Unreachable` where it ends meanwhile."""
        for one in snapshots:
            if self._chance.random() < self._ends:
                self.start_again(killed=self._chance.random() < 0.5)
                raise Unreachable("the hub ended")
            self.now = max(self.now, one.taken_at)
            off = self._chance.uniform(0, _OFF) * (one.interval_seconds or 0.0)
            change = self._fleet.apply(one, one.taken_at + off)
            if change is not None:
                self._history.take(change)
                if change.late:
                    self._keeping.unkeep(one.node_id)
        return Receipt(hub=self.life, kept=self._keeping.kept(snapshots[-1]))

    def knows(self, snapshot: Snapshot) -> bool:
        """Whether its node was ever heard."""
        return self._fleet.node(snapshot.node_id, self.now) is not None

    def ask(self, snapshot: Snapshot) -> None:
        """Hear one node by another way, if it does not end meanwhile."""
        with contextlib.suppress(Unreachable):
            self.hear([snapshot])

    def tick(self) -> None:
        """What it does from time to time."""
        self._history.tick(self.now)
        self._wait()
        self._keeping.changed(self._fleet.take_dirty())
        self._keeping.turn()

    def start_again(self, *, killed: bool = False) -> None:
        """End, or be killed, and begin again with what is on the disk."""
        if not killed:
            self._keeping.changed(self._fleet.take_dirty())
            self._keeping.write_all()
            self._history.close()
            self._keeper.catch_up()
        self._writer.close()
        self._memory.close()
        assert (self._writer.failures, self._writer.gap) == (0, None)
        self._store.close()
        self._begin()

    def end(self) -> None:
        """Let go of all."""
        self._writer.close()
        self._memory.close()
        self._store.close()
        self._engine.dispose()

    def answers(self) -> Answers:
        """Who is asked, with all written."""
        self._keeper.catch_up()
        self._wait()
        return Answers(self._history, self._store, self._writer, self._keep, clock=lambda: self.now)

    def _begin(self) -> None:
        self.life = secrets.token_hex(4)
        self._fleet = Fleet()
        self._memory = Memory(self._engine, Remembered)
        self._store = open_history(self._where)
        self._writer = Writer(self._store, self._keep, clock=lambda: self.now, upkeep_seconds=2.0)
        self._keeper = Behind(self._writer)
        self._history = History(self._fleet, self._keeper)
        self._keeping = Keeping(self._fleet, self._memory, self._history, Turns(1))
        self._keeping.recall()
        self._history.recall()

    def _wait(self) -> None:
        """Let those who write come after: an interval is long."""
        wait_until(lambda: self._writer.written == self._writer.given)
        wait_until(lambda: self._memory.kept == self._memory.given)


class Line(Reporter):
    """A line to a hub in this process, as long as it is `up`; it breaks when that hub ends."""

    def __init__(self, hub: Lives) -> None:
        self.up = True
        self._hub = hub
        self._life = hub.life
        self._decoder = msgspec.msgpack.Decoder(Snapshot)

    def report(self, snapshots: Sequence[bytes], node_id: str, name: str) -> Receipt:
        before, self._life = self._life, self._hub.life
        if not self.up or before != self._life:
            raise Unreachable(f"nobody hears {name}")
        return self._hub.hear([self._decoder.decode(each) for each in snapshots])

    def close(self) -> None:
        """There is nothing to hang up."""


class Agent:
    """An agent and its line."""

    def __init__(self, hub: Lives, folder: Path) -> None:
        self.line = Line(hub)
        self._outlet = PushOutlet(self.line, Buffer(Spool(str(folder))))

    def report(self, snapshot: Snapshot) -> None:
        """Send this, after all that it kept; or keep it."""
        with contextlib.suppress(Unreachable):
            self._outlet.deliver(snapshot)

    def close(self) -> None:
        """Write down what the hub does not keep."""
        self._outlet.close()
