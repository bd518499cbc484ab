"""What a hub remembers: how large it gets, how long answers take, and what a report costs."""

import gc
import os
import shutil
import tempfile
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import get_args

from bench import past
from bench.peers import BUILD
from bench.report import Pair, Series
from fleet_smi.hub.database import open_database
from fleet_smi.hub.fleet import Fleet, Remembered
from fleet_smi.hub.history import versions
from fleet_smi.hub.history.asking import Asking
from fleet_smi.hub.history.drawing import strips
from fleet_smi.hub.history.going_on import Written, nodes_then
from fleet_smi.hub.history.history import History
from fleet_smi.hub.history.jobs import jobs
from fleet_smi.hub.history.past import fleet_at
from fleet_smi.hub.history.retention import Keep
from fleet_smi.hub.history.rows import Batch
from fleet_smi.hub.history.store import open_history
from fleet_smi.hub.history.totals import By
from fleet_smi.hub.history.writer import Writer
from fleet_smi.hub.hub import keeping_turns
from fleet_smi.hub.keeping import Keeping
from fleet_smi.hub.memory import Memory
from fleet_smi.model.units import GIB
from fleet_smi.simulation.crowd import crowd

LEAST_DAYS = 7
NODES, LOADED_NODES, COLUMNS, POINTS = 125, 2000, 240, 1000
_WARM_SECONDS = 360  # until rows are made of as many nodes in any second
_WINDOW_SECONDS, _WINDOWS = 30, 5
_WINDOW_REPORTS = LOADED_NODES * _WINDOW_SECONDS
_REMEMBER_SECONDS = 5.0  # as a hub does where nobody set it
_SELDOM = (50_000, 20, 100)  # as the hub has it
_HOUR, _DAY = 3600, 86400
_NODE, _USER = "id-7", "user07"
SIZE, COST = "the database", "history, CPU of one report"
SIZE_AIM, ANSWER_AIM, COST_AIM = "10 GiB", "200 ms", "10 µs"
Question = Callable[[Asking], object]


@dataclass(frozen=True, kw_only=True)
class Measured:
    """All that was found out; `answers` are warm, and what they took at first is in the words."""

    sizes: list[Series]
    answers: list[Series]
    costs: list[Series]
    words: str


SIZE_PAIRS = (Pair(ours=SIZE, theirs=SIZE_AIM, budget=1.0),)
COST_PAIRS = (Pair(ours=COST, theirs=COST_AIM, budget=1.0),)


def answer_pairs(measured: Measured) -> list[Pair]:
    """Every answer against the time that it may take."""
    labels = [one.label for one in measured.answers if one.label != ANSWER_AIM]
    return [Pair(ours=label, theirs=ANSWER_AIM, budget=1.0) for label in labels]


def measure(days: int, rounds: int) -> Measured:
    """A past of 1,000 GPUs over so many days, made once, and what it takes to ask it."""
    path = BUILD / "history" / f"{NODES}-nodes-{days}-days-v{versions.version()}.db"
    words = "" if path.exists() else _built(path, days)
    gc.freeze()
    gc.set_threshold(*_SELDOM)
    size = Series(label=SIZE, values=(float(path.stat().st_size),))
    answers, at_first = _answers(path, days, rounds)
    return Measured(
        sizes=[size, Series(label=SIZE_AIM, values=(10.0 * GIB,))],
        answers=[*answers, Series(label=ANSWER_AIM, values=(0.2,))],
        costs=[*_costs(), Series(label=COST_AIM, values=(10e-6,))],
        words=f"{words}with nothing of the file in memory: {at_first}\n",
    )


def _built(path: Path, days: int) -> str:
    began, unfinished = time.monotonic(), path.with_suffix(".unfinished")
    for end in ("", "-wal", "-shm"):
        Path(f"{unfinished}{end}").unlink(missing_ok=True)
    past.build(unfinished, NODES, days)
    shutil.move(unfinished, path)
    return f"made in {time.monotonic() - began:.0f} s\n"


def questions(days: int) -> dict[str, Question]:
    """What pages and reports ask, the widest of each."""
    end = past.END
    long_ago, last = end - days * _DAY // 2, min(days, 30)
    asked: dict[str, Question] = {
        "the fleet at a moment": partial(_fleet, at=float(long_ago)),
        "strips, 1 hour": partial(_strips, start=end - _HOUR),
        "strips, 24 hours": partial(_strips, start=end - _DAY),
        "strips, 30 hours": partial(_strips, start=end - 30 * _HOUR + 1),
        "strips, 7 days": partial(_strips, start=end - 7 * _DAY),
        f"strips, {last} days": partial(_strips, start=end - last * _DAY),
        f"jobs of a user, {last} days": partial(_jobs, start=end - last * _DAY, user=_USER),
        "jobs of all, 24 hours": partial(_jobs, start=end - _DAY, user=None),
    }
    for words, seconds in (("1 hour", _HOUR), ("7 days", 7 * _DAY), (f"{days} days", days * _DAY)):
        start = end - seconds
        asked[f"figures of a node, {words}"] = partial(_figures, start=start)
        asked[f"ribbon, {words}"] = partial(_ribbon, start=start)
    for by in get_args(By):
        for daily in (False, True):
            label = f"usage by {by}, {days} days{', daily' if daily else ''}"
            # Neither begins nor ends with a day: hours are added up as well.
            start = end - days * _DAY + 5 * _HOUR
            asked[label] = partial(_usages, start=start, by=by, daily=daily)
    return asked


def _answers(path: Path, days: int, rounds: int) -> tuple[list[Series], str]:
    store = open_history(path)
    asking = Asking(store)
    found: list[Series] = []
    at_first: dict[str, float] = {}
    for label, question in questions(days).items():
        store.engine.dispose()
        _leave_memory(path)
        first, *others = [_seconds(partial(question, asking)) for _ in range(1 + rounds)]
        at_first[label] = first
        found.append(Series(label=label, values=tuple(others)))
    store.close()
    slowest = sorted(at_first, key=at_first.__getitem__)[-3:]
    return found, ", ".join(f"{label} {1000 * at_first[label]:.0f} ms" for label in slowest)


def _leave_memory(path: Path) -> None:
    """Let the kernel read the file anew."""
    descriptor = os.open(path, os.O_RDONLY)
    os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_DONTNEED)
    os.close(descriptor)


def _seconds(work: Callable[[], object]) -> float:
    began = time.perf_counter()
    work()
    return time.perf_counter() - began


def _fleet(asking: Asking, *, at: float) -> object:
    written = Written(
        nodes=asking.nodes(),
        presence=asking.presence_at(at),
        gpus=asking.gpus(),
        periods=asking.periods_at(at),
        series=asking.series_at(at),
    )
    return fleet_at(at, nodes_then(at, written, Batch()))


def _strips(asking: Asking, *, start: float) -> object:
    places = {(gpu.node_id, gpu.uuid) for gpu in asking.gpus()}
    return strips(asking, places, start, past.END, COLUMNS, Batch())


def _jobs(asking: Asking, *, start: float, user: str | None) -> object:
    return jobs(asking.occupancies(start, past.END, user=user))


def _figures(asking: Asking, *, start: float) -> object:
    return asking.series(_NODE, start, past.END, POINTS)


def _ribbon(asking: Asking, *, start: float) -> object:
    return asking.ribbon(start, past.END, COLUMNS)


def _usages(asking: Asking, *, start: float, by: By, daily: bool) -> object:
    return asking.usages(start, past.END - 3 * _HOUR, by, daily=daily)


class _Timed(History):
    """One who knows how long it took to have nodes saved."""

    spent = 0.0

    def save(self, node_ids: Iterable[str]) -> int:
        """The same."""
        began = time.thread_time()
        number = super().save(node_ids)
        self.spent += time.thread_time() - began
        return number


def _costs() -> Iterator[Series]:
    """What one report costs, of 2,000 nodes with 8 GPUs that report every second."""
    keep = Keep(grains={10: 6 * _HOUR, 60: 14 * _DAY}, ledger_seconds=_DAY, most_bytes=10 * GIB)
    with tempfile.TemporaryDirectory(prefix="fleet-smi-bench-") as folder:
        store, state = open_history(Path(folder) / "history.db"), open_database(Path(folder))
        writer = Writer(store, keep, clock=lambda: float(past.END))
        memory = Memory(state, Remembered)
        *windows, alone = _loaded(writer, memory)
        memory.close()
        writer.close()
        store.close()
        state.dispose()
    made = tuple(each[0] for each in windows)
    written = tuple(each[1] for each in windows)
    yield Series(label=COST, values=tuple(map(sum, windows)))
    yield Series(label="of that on the event loop", values=made)
    yield Series(label="of that who writes", values=written)
    yield Series(label="where no node is kept", values=(sum(alone),))


def _loaded(writer: Writer, memory: Memory[Remembered]) -> Iterator[tuple[float, float]]:
    """The CPU seconds of a report, of those who make history and of who writes it.

    Nodes are kept as well, as a hub does that agents push to; but not in the last window.
    """
    story = crowd(LOADED_NODES, past.GPUS, seed=1, began=float(past.END))
    fleet, clock, clock_seconds = Fleet(), time.thread_time, _clock_seconds()
    history, writes = _Timed(fleet, writer), _clock_of("history")
    keeping = Keeping(fleet, memory, history, keeping_turns(_REMEMBER_SECONDS))
    end = _WARM_SECONDS + _WINDOWS * _WINDOW_SECONDS
    for first in range(0, end, _WINDOW_SECONDS):
        made, history.spent, began = 0.0, 0.0, time.clock_gettime(writes)
        for second in range(first, first + _WINDOW_SECONDS):
            for node in range(LOADED_NODES):
                at = past.END + second + node / LOADED_NODES
                change = fleet.apply(story.snapshot(node, at, second + 1), at)
                taken = time.perf_counter()
                if change is not None:
                    history.take(change)
                made += time.perf_counter() - taken - clock_seconds
            ticked = clock()
            history.tick(past.END + second + 1.0)
            made += clock() - ticked
            if second < end - _WINDOW_SECONDS:
                keeping.changed(fleet.take_dirty())
                keeping.turn()
            while writer.written < writer.given or memory.kept < memory.given:
                time.sleep(0.01)
        written = time.clock_gettime(writes) - began
        if first >= _WARM_SECONDS:
            yield (made + history.spent) / _WINDOW_REPORTS, written / _WINDOW_REPORTS


def _clock_of(name: str) -> int:
    """The clock of the CPU that the thread of that name uses."""
    (found,) = [one.ident for one in threading.enumerate() if one.name == name]
    return time.pthread_getcpuclockid(found or 0)


def _clock_seconds() -> float:
    """What it takes to look at the clock twice: that of the CPU takes as long as what is timed."""
    looks = [-(time.perf_counter() - time.perf_counter()) for _ in range(10_000)]
    return sum(looks) / len(looks)
