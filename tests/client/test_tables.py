"""Tables of the history as data frames, with each library that is installed."""

import sys
from typing import Any

import polars
import pytest

from fleet_smi.client import dataframes
from fleet_smi.client.dataframes import LIBRARIES, DataFrameLibrary
from fleet_smi.client.tables import JobTable, PeriodTable, SeriesTable, UsageTable
from fleet_smi.errors import UsageError
from fleet_smi.model.history import Figure, GpuOfNode, GpuPeriods, Holder, Job, Period, Sums, Usage

GPU = GpuOfNode(uuid="GPU-1", node_id="one", node="gpu01", index=1, model="H100")
SUMS = Sums(gpu_seconds=3600.0, busy_seconds=1800.0)


@pytest.fixture(params=LIBRARIES)
def library(request: pytest.FixtureRequest) -> DataFrameLibrary:
    name: DataFrameLibrary = request.param
    return name


def rows_of(frame: Any) -> list[dict[str, Any]]:
    """The rows of a frame of either library, with nothing for what is missing."""
    if isinstance(frame, polars.DataFrame):
        return frame.to_dicts()
    rows: list[dict[str, Any]] = frame.astype(object).where(frame.notna(), None).to_dict("records")
    return rows


def kinds(frame: Any, *columns: str) -> set[str]:
    return {str(frame[column].dtype).lower() for column in columns}


def test_a_period_is_one_row(library: DataFrameLibrary) -> None:
    held = (Holder(pid=1, user="bob"), Holder(pid=2, user="bob"), Holder(pid=3, user="eve"))
    busy = Period(start=1.0, end=2.0, state="busy", reason="at work", holders=held)
    free = Period(start=2.0, end=None, state="free", reason="nobody", certain=False)
    table = PeriodTable(start=0.0, end=9.0, rows=(GpuPeriods(gpu=GPU, periods=(busy, free)),))
    rows = rows_of(table.frame(library))
    assert [row["users"] for row in rows] == ["bob, eve", ""]
    assert [row["end"] for row in rows] == [2.0, None]
    assert {row["node"] for row in rows} == {"gpu01"}
    assert rows[1] | {"state": "free", "certain": False, "uuid": "GPU-1"} == rows[1]


def test_a_usage_total_is_one_row(library: DataFrameLibrary) -> None:
    row = Usage(name="bob", sums=SUMS)
    table = UsageTable(start=0.0, end=9.0, by="user", rows=(row,), total=SUMS, by_state={})
    (sent,) = rows_of(table.frame(library))
    assert (sent["name"], sent["gpu_seconds"], sent["busy_seconds"]) == ("bob", 3600.0, 1800.0)


def test_a_job_is_one_row(library: DataFrameLibrary) -> None:
    job = Job(
        id="1-a", user="bob", command=None, start=1.0, end=None, gpus=4, sums=SUMS,
        places=("gpu01:0", "gpu01:1"), advice=("held 4 GPUs, used 1", "idle"),
    )  # fmt: skip
    (row,) = rows_of(JobTable(start=0.0, end=9.0, rows=(job,)).frame(library))
    assert (row["gpus"], row["gpu_seconds"], row["command"]) == (4, 3600.0, None)
    assert row["advice"] == "held 4 GPUs, used 1; idle"
    assert row["places"] == "gpu01:0, gpu01:1"


def test_series_have_one_row_per_gpu_and_step(library: DataFrameLibrary) -> None:
    busy = Figure(minimum=[0.0, None], mean=[5.0, None], maximum=[9.0, None])
    gpus = {"GPU-1": {"busy_percent": busy}, "GPU-2": {"busy_percent": busy}}
    table = SeriesTable(start=100.0, grain_seconds=10, node={}, gpus=gpus)
    frame = table.frame(library)
    expected = ["at", "uuid", "busy_percent", "busy_percent_min", "busy_percent_max"]
    assert list(frame.columns) == expected
    assert [row["at"] for row in rows_of(frame)] == [100.0, 110.0, 100.0, 110.0]
    assert [row["busy_percent_max"] for row in rows_of(frame)] == [9.0, None, 9.0, None]


def test_a_metric_of_one_gpu_is_missing_for_the_others(library: DataFrameLibrary) -> None:
    known = Figure(minimum=[0.0], mean=[5.0], maximum=[9.0])
    gpus = {
        "GPU-1": {"busy_percent": known},
        "GPU-2": {"busy_percent": known, "power_watts": known},
    }
    table = SeriesTable(start=100.0, grain_seconds=10, node={}, gpus=gpus)
    assert [row["power_watts"] for row in rows_of(table.frame(library))] == [None, 5.0]


def test_numeric_columns_stay_numeric_without_values(library: DataFrameLibrary) -> None:
    free = Period(start=2.0, end=None, state="free", reason="nobody")
    table = PeriodTable(start=0.0, end=9.0, rows=(GpuPeriods(gpu=GPU, periods=(free,)),))
    assert kinds(table.frame(library), "start", "end", "busy_percent") == {"float64"}
    unknown = Figure(minimum=[None], mean=[None], maximum=[None])
    gpus = {"GPU-1": {"busy_percent": unknown}}
    series = SeriesTable(start=100.0, grain_seconds=10, node={}, gpus=gpus)
    assert kinds(series.frame(library), "at", "busy_percent", "busy_percent_max") == {"float64"}


def test_an_empty_table_is_a_frame_without_rows(library: DataFrameLibrary) -> None:
    frame = PeriodTable(start=0.0, end=9.0, rows=()).frame(library)
    assert (len(frame), "state" in frame.columns) == (0, True)
    assert kinds(frame, "start", "end") == {"float64"}
    assert "float64" not in kinds(frame, "state", "users")


def test_the_first_installed_library_is_used(monkeypatch: pytest.MonkeyPatch) -> None:
    table = JobTable(start=0.0, end=9.0, rows=())
    assert type(table.frame()).__module__.startswith("pandas")
    monkeypatch.setattr(sys, "path", [])
    monkeypatch.delitem(sys.modules, "pandas", raising=False)
    assert isinstance(table.frame(), polars.DataFrame)


def test_a_missing_library_is_an_error_with_a_remedy(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(sys, "path", [])
    monkeypatch.delitem(sys.modules, "pandas", raising=False)
    with pytest.raises(UsageError, match="needs pandas: pip install pandas"):
        JobTable(start=0.0, end=9.0, rows=()).frame("pandas")


def test_without_any_library_the_error_names_both(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dataframes, "LIBRARIES", ("no_such_library", "nor_this"))
    with pytest.raises(UsageError, match="needs no_such_library or nor_this: pip install"):
        JobTable(start=0.0, end=9.0, rows=()).frame()
