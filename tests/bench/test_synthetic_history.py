"""The past that is made to be asked: it is one that a hub could have written."""

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


def test_every_question_has_an_answer(made: Path) -> None:
    store = open_history(made)
    for label, question in history.queries(DAYS).items():
        if "figures" not in label and "user" not in label:  # of a node that is not there
            assert question(HistoryQueries(store)), label
    store.close()


def test_its_periods_and_sums_come_to_all_the_time_of_its_gpus(made: Path) -> None:
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


def test_figures_are_there_for_every_minute(made: Path) -> None:
    with sqlite3.connect(made) as database:
        grains = dict(database.execute("SELECT grain, count(*) FROM series GROUP BY grain"))
    database.close()
    longer = {grain: NODES * SECONDS // grain for grain in (60, 900, 10800)}
    assert grains == {10: NODES * 6 * 360, **longer}
