"""The synthetic history of the query benchmark is one that a hub could have written."""

import sqlite3
from pathlib import Path

import pytest

from bench import history, synthetic_history
from fleet_smi.hub.history.queries.sql import HistoryQueries
from fleet_smi.hub.history.storage.store import open_history

NODES, DAYS = 2, 7
SECONDS = DAYS * 86400


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("past") / "history.db"
    synthetic_history.build_database(path, NODES, DAYS)
    return path


def test_every_benchmark_query_returns_rows(made: Path) -> None:
    store = open_history(made)
    for label, query in history.queries(DAYS).items():
        if (
            "figures" not in label and "user" not in label
        ):  # these name a node and a user that it lacks
            assert query(HistoryQueries(store)), label
    store.close()


def test_periods_and_sums_cover_all_gpu_time(made: Path) -> None:
    store = open_history(made)
    asking, start = HistoryQueries(store), float(synthetic_history.END - SECONDS)
    gpus = NODES * synthetic_history.GPUS
    found = asking.periods(None, start, synthetic_history.END)
    assert len(found) == gpus
    for each in found:
        ends = [one.end for one in each.periods]
        assert [one.start for one in each.periods] == [start, *ends[:-1]]
        assert ends[-1] == synthetic_history.END
    for by in ("user", "gpu"):
        sums = asking.usages(start, synthetic_history.END, by)
        assert sum(sums.by_state.values()) == pytest.approx(gpus * SECONDS)
    store.close()


def test_there_are_figures_for_every_minute(made: Path) -> None:
    with sqlite3.connect(made) as database:
        grains = dict(database.execute("SELECT grain, count(*) FROM series GROUP BY grain"))
    database.close()
    longer = {grain: NODES * SECONDS // grain for grain in (60, 900, 10800)}
    assert grains == {10: NODES * 6 * 360, **longer}
