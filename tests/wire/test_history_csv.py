"""CSV encoding of history."""

import csv
import io
import re

import pytest

from fleet_smi.model.usage_report import Price
from fleet_smi.wire.history_csv import strips_csv, usage_report_csv
from tests.terminal.history_samples import USER_SUMS, lab_hour, lab_week
from tests.terminal.samples import HOUR, NOW


def read(text: str) -> list[dict[str, str]]:
    return list(csv.DictReader(io.StringIO(text)))


def test_a_strip_has_one_row_per_run() -> None:
    strips = lab_hour(60)
    rows = read(strips_csv(strips))
    assert len(rows) == sum(len(row.runs) for row in strips.rows)
    first, second = rows[0], rows[1]
    assert (first["node"], first["index"], first["state"], first["user"]) == (
        "gpu01",
        "0",
        "busy",
        "alice",
    )
    assert float(first["start_epoch_seconds"]) == NOW - HOUR
    assert float(first["busy_percent"]) == 96.6
    assert (second["state"], second["user"]) == ("free", "")


def test_a_report_has_one_row_per_group_and_a_cost_where_it_has_a_price() -> None:
    rows = read(usage_report_csv(lab_week(Price(per_kwh=0.5, currency="EUR"))))
    assert [row["user"].removeprefix("'") for row in rows] == list(USER_SUMS)
    assert float(rows[0]["gpu_seconds"]) == 2425 * HOUR
    assert float(rows[0]["cost"]) == pytest.approx(485.0)
    assert rows[0]["currency"] == "EUR"
    assert float(rows[0]["gpu_hours"]) == 2425
    assert float(rows[0]["energy_kwh"]) == pytest.approx(970.0)
    assert rows[0]["from"] < rows[0]["until"]
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\dZ", rows[0]["until"])
    assert "cost" not in read(usage_report_csv(lab_week()))[0]


def test_no_name_is_a_formula() -> None:
    assert "'=HYPERLINK(1)," in usage_report_csv(lab_week())
