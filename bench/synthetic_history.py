"""Synthetic history of a large fleet, inserted in bulk into the database."""

import random
import sqlite3
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import msgspec
import numpy as np

from fleet_smi.hub.history.series.codec import SeriesArrays, pack
from fleet_smi.hub.history.series.layout import (
    CURRENT_LAYOUT,
    GPU_COLUMNS,
    NODE_COLUMNS,
    encode_layout,
)
from fleet_smi.hub.history.storage import schema, strip_sample_rows
from fleet_smi.hub.history.storage.holder_codec import encode_holders
from fleet_smi.hub.history.storage.schema import (
    DAY_COLUMNS,
    DAY_SECONDS,
    HOUR_SECONDS,
    SUM_COLUMNS,
    WEEK_SECONDS,
)
from fleet_smi.hub.history.storage.store import open_history
from fleet_smi.model.fleet import STATES, State
from fleet_smi.model.history import Holder
from fleet_smi.model.units import GIB

END = 1_794_787_200
"""The end of the generated history: midnight UTC."""
GPUS, USERS, NOBODY = 8, 40, 1
_FINE_SECONDS = 6 * HOUR_SECONDS
_POOL = 4096
_BUSY_PART, _BUSY_SECONDS, _FREE_SECONDS, _SHORTEST_SECONDS = 0.6, 3 * 3600.0, 1800.0, 30.0
_TYPICAL = {
    "cpu_percent": 35.0,
    "memory_percent": 40.0,
    "busy_percent": 70.0,
    "memory_used_bytes": 40.0 * GIB,
    "power_watts": 420.0,
    "temperature_celsius": 62.0,
    "sm_clock_mhz": 1700.0,
    "encoder_percent": 5.0,
    "decoder_percent": 10.0,
    "memory_temperature_celsius": 70.0,
    "energy_joules_per_second": 420.0,
    "throttled_percent": 10.0,
}


@dataclass(frozen=True, kw_only=True)
class SyntheticInterval:
    """An interval of one GPU in one state; `process` and `user` are 0 where it was unused."""

    gpu: int
    start: float
    end: float
    state: State
    user: int = 0
    process: int = 0
    is_last: bool = True


@dataclass
class SyntheticLedger:
    """Rows of one day, buffered for insertion."""

    periods: list[tuple[Any, ...]] = field(default_factory=list)
    occupancies: list[tuple[Any, ...]] = field(default_factory=list)
    hours: dict[tuple[int, int, int, str], float] = field(
        default_factory=lambda: defaultdict(float)
    )

    def add(self, interval: SyntheticInterval, process_start: float) -> None:
        """Add an interval and, if it is the last of its process, the occupancy since it `began`."""
        taken = interval.user > 0
        name = f"user{interval.user:02d}" if taken else ""
        data = _holders(interval, process_start) if taken else None
        words = f"{name}: python, 78 %" if taken else "nobody on it"
        load = 78.0 if taken else 0.0
        self.periods.append(
            (
                interval.gpu,
                interval.start,
                interval.end,
                True,
                interval.state,
                name,
                0,
                words,
                data,
                load,
            )
        )
        if taken and interval.is_last:
            seconds, key = (
                interval.end - process_start,
                (interval.gpu, process_start, interval.process, interval.end, True),
            )
            sums = _sums(seconds)
            self.occupancies.append((*key, interval.user + NOBODY, data, *sums, 30 * GIB, 40 * GIB))
        hour = int(interval.start // HOUR_SECONDS) * HOUR_SECONDS
        while hour < interval.end:
            part = min(interval.end, hour + HOUR_SECONDS) - max(interval.start, hour)
            self.hours[hour, interval.gpu, interval.user + NOBODY, interval.state] += part
            hour += HOUR_SECONDS

    def pop_hours_before(self, end: float) -> list[tuple[Any, ...]]:
        """Return and drop the rows of finished hours."""
        over = sorted(key for key in self.hours if key[0] < end)
        return [(*key, *_sums(self.hours.pop(key))) for key in over]


def build_database(path: Path, nodes: int, days: int) -> None:
    """Insert the history of the given nodes and days, up to `END`."""
    path.parent.mkdir(parents=True, exist_ok=True)
    open_history(path).close()
    database = sqlite3.connect(path, isolation_level=None)
    for pragma in ("synchronous=OFF", "cache_size=-200000", "journal_mode=MEMORY"):
        database.execute(f"PRAGMA {pragma}")
    start = END - days * DAY_SECONDS
    _write_names(database, nodes)
    _write_ledger(database, nodes * GPUS, start)
    _write_days(database)
    _write_fleet(database, nodes, start)
    for grain, since in ((10, END - _FINE_SECONDS), (60, start), (900, start), (10800, start)):
        _write_series(database, grain, since)
    database.execute("PRAGMA journal_mode=WAL")
    database.close()
    store = open_history(path)
    with store.write_transaction() as connection:
        strip_sample_rows.backfill_samples(connection)
    store.close()


def gpu_uuid(gpu: int) -> str:
    """Return the UUID of a GPU by its number, from 1."""
    return f"GPU-{gpu:08d}-7e15-4b52-9d4e-0123456789ab"


def _write_names(database: sqlite3.Connection, nodes: int) -> None:
    numbers = range(1, nodes + 1)
    _insert(database, "nodes", [(n, f"id-{n}", f"gpu{n:04d}", '{"rack":"a"}') for n in numbers])
    cards = [
        (
            gpu,
            (gpu - 1) // GPUS + 1,
            gpu_uuid(gpu),
            (gpu - 1) % GPUS,
            "nvidia",
            model,
            80 * GIB,
            None,
        )
        for gpu in range(1, nodes * GPUS + 1)
        for model in ("NVIDIA H100 80GB HBM3" if gpu % 16 > 7 else "NVIDIA A100-SXM4-80GB",)
    ]
    _insert(database, "gpus", cards)
    users = [(u + NOBODY, f"user{u:02d}", f"group{u % 6}") for u in range(1, USERS + 1)]
    _insert(database, "people", [(NOBODY, "", ""), *users])
    layouts = [
        (n, msgspec.json.encode([gpu_uuid((n - 1) * GPUS + place) for place in range(1, GPUS + 1)]))
        for n in numbers
    ]
    figures = encode_layout(CURRENT_LAYOUT)
    _insert(database, "layouts", [(n, uuids.decode(), figures) for n, uuids in layouts])


def _write_ledger(database: sqlite3.Connection, gpus: int, start: int) -> None:
    """Insert one day at a time to bound the memory."""
    ledger = SyntheticLedger()
    lives = [_life(gpu, float(start), random.Random(gpu)) for gpu in range(1, gpus + 1)]
    for day in range(start + DAY_SECONDS, END + 1, DAY_SECONDS):
        for life in lives:
            for stretch, began in life:
                ledger.add(stretch, began)
                if stretch.end >= day:
                    break
        _insert(database, "periods", ledger.periods)
        _insert(database, "occupancies", ledger.occupancies)
        _insert(database, "usage_hours", ledger.pop_hours_before(day))
        ledger.periods, ledger.occupancies = [], []


def _life(
    gpu: int, start: float, chance: random.Random
) -> Iterator[tuple[SyntheticInterval, float]]:
    """Yield the intervals of a GPU, with the start of each process."""
    at = start
    while at < END:
        taken = chance.random() < _BUSY_PART
        length = chance.expovariate(1 / (_BUSY_SECONDS if taken else _FREE_SECONDS))
        end = min(at + length + _SHORTEST_SECONDS, float(END))
        if not taken:
            yield SyntheticInterval(gpu=gpu, start=at, end=end, state="free"), at
        else:
            user, pid = chance.randint(1, USERS), chance.randrange(1000, 4_000_000)
            parts, step = chance.choice((1, 1, 1, 3)), end - at
            for part in range(parts):
                yield (
                    SyntheticInterval(
                        gpu=gpu,
                        start=at + step * part / parts,
                        end=at + step * (part + 1) / parts,
                        state="held" if part % 2 else "busy",
                        user=user,
                        process=pid,
                        is_last=part == parts - 1,
                    ),
                    at,
                )
        at = end


def _write_days(database: sqlite3.Connection) -> None:
    of_users = f"CASE WHEN person = {NOBODY} THEN 0.0 ELSE {{}} END"
    people = [f"sum({of_users.format(name)})" for name in SUM_COLUMNS]
    states = [f"sum(CASE WHEN state = '{one}' THEN gpu_seconds ELSE 0.0 END)" for one in STATES]
    days = [
        f"sum(CASE WHEN bucket / {DAY_SECONDS} % {len(DAY_COLUMNS)} = {number}"
        f" THEN {of_users.format('gpu_seconds')} ELSE 0.0 END)"
        for number in range(len(DAY_COLUMNS))
    ]
    for table, key, seconds, more in (
        ("person_days", "person", DAY_SECONDS, states),
        ("gpu_days", "gpu", DAY_SECONDS, []),
        ("person_weeks", "person", WEEK_SECONDS, days),
        ("gpu_weeks", "gpu", WEEK_SECONDS, days),
    ):
        database.execute(
            f"INSERT INTO {table} SELECT bucket / {seconds} * {seconds}, {key},"
            f" {', '.join([*people, *more])} FROM usage_hours GROUP BY 1, 2"
        )


def _write_fleet(database: sqlite3.Connection, nodes: int, start: int) -> None:
    week = 7 * DAY_SECONDS
    presence = [
        (node, float(at), float(min(at + week - 60, END)), True)
        for node in range(1, nodes + 1)
        for at in range(start, END, week)
    ]
    _insert(database, "presence", presence)
    gpus = nodes * GPUS
    counts = {"free": 0.3 * gpus, "busy": 0.6 * gpus, "held": 0.1 * gpus}
    stood = [counts.get(state, 0.0) for state in STATES]
    noted = ((float(at), nodes, nodes - 1, *stood) for at in range(start, END, 60))
    _insert(database, "moments", noted)


def _write_series(database: sqlite3.Connection, grain: int, since: int) -> None:
    chance = np.random.default_rng(grain)
    database.execute("CREATE TEMP TABLE pool (number INTEGER PRIMARY KEY, data BLOB)")
    database.executemany(
        "INSERT INTO pool VALUES (?, ?)", enumerate(pack(_figures(grain, chance), GPUS))
    )
    database.execute(
        "WITH RECURSIVE times(at) AS (SELECT ? UNION ALL SELECT at + ? FROM times WHERE at + ? < ?)"
        " INSERT INTO series SELECT ?, at, key, key, pool.data FROM times CROSS JOIN nodes"
        " CROSS JOIN pool WHERE pool.number = (at / ? * 31 + key * 977) % ?",
        (since, grain, grain, END, grain, grain, _POOL),
    )
    database.execute("DROP TABLE pool")


def _figures(grain: int, chance: np.random.Generator) -> SeriesArrays:
    """Return plausible figures of a node: minimum and maximum around the mean."""
    node = [_TYPICAL[name] for name in NODE_COLUMNS]
    gpu = [_TYPICAL[name] for name in GPU_COLUMNS]
    middles = np.array([*node, *gpu * GPUS])
    mean = middles * chance.uniform(0.6, 1.3, (_POOL, len(middles)))
    least, most = (
        mean * chance.uniform(*around, mean.shape) for around in ((0.7, 1.0), (1.0, 1.2))
    )
    seconds = np.full(_POOL, float(grain))
    return SeriesArrays(seconds, seconds, np.stack((least, mean, most), axis=1))


def _holders(one: SyntheticInterval, began: float) -> bytes:
    command = f"python train.py --config configs/experiment_{one.process % 500}.yaml --lr 3e-4"
    holder = Holder(
        pid=one.process,
        user=f"user{one.user:02d}",
        group=f"group{one.user % 6}",
        name="python",
        command=f"{command} --output /scratch/user{one.user:02d}/runs/{one.process}",
        started_at=began - 3,
        memory_bytes=one.process << 14,
    )
    return encode_holders((holder,))


def _sums(seconds: float) -> Sequence[float]:
    return seconds, seconds, 0.7 * seconds, 0.1 * seconds, 300 * seconds


def _insert(database: sqlite3.Connection, table: str, rows: Iterable[Sequence[Any]]) -> None:
    columns = [column.name for column in schema.metadata.tables[table].columns]
    marks = ", ".join("?" * len(columns))
    database.execute("BEGIN")
    database.executemany(f"INSERT INTO {table} VALUES ({marks})", rows)
    database.execute("COMMIT")
