"""Commands that query a hub's history: `--at`, `history` and `report`."""

import csv
import io
import json
import os
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.cli.program import assert_error_line, run_fleet_smi
from tests.server.routes.sample_history import report_history
from tests.server.threaded_hub import ThreadedHub


@pytest.fixture(scope="module")
def hub(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ThreadedHub]:
    """Bob had GPU 0 of gpu01 from 90 to 30 minutes ago; gpu02 is silent since an hour ago."""
    folder = tmp_path_factory.mktemp("hub")
    with ThreadedHub(folder, hub__energy_price="0.5", hub__currency="EUR") as running:
        report_history(running)
        yield running


@pytest.fixture
def env(tmp_path: Path, hub: ThreadedHub) -> dict[str, str]:
    return {
        "HOME": str(tmp_path),
        "PATH": os.environ["PATH"],
        "TZ": "UTC",
        "COLUMNS": "100",
        "FLEET_SMI_CLIENT_HUB": hub.url,
    }


def run(*arguments: str, env: dict[str, str]) -> str:
    done = run_fleet_smi(*arguments, env=env)
    assert (done.returncode, done.stderr) == (0, ""), done
    return done.stdout


def test_the_table_of_an_hour_ago_has_the_users_of_that_time(env: dict[str, str]) -> None:
    first, empty, *rest = run("--at", "-1h", env=env).splitlines()
    assert first.startswith("As of ") and " · 1 h ago · " in first
    assert first.endswith(" nodes were reporting") and empty == ""
    assert any("busy" in line and "bob" in line for line in rest)
    assert "bob" not in run(env=env)


def test_a_time_can_be_written_in_many_ways(env: dict[str, str]) -> None:
    then = time.time() - 3600
    for moment in (
        time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(then)),
        time.strftime("%a %H:%M:%S", time.gmtime(then)),
        f"@{then:.0f}",
    ):
        assert "bob" in run("who", "--at", moment, env=env), moment


def test_the_overview_of_a_past_time_has_a_banner(env: dict[str, str]) -> None:
    assert run("-o", "--at=-1h", env=env).startswith("As of ")


def test_json_of_a_past_time_has_no_banner(env: dict[str, str]) -> None:
    then = json.loads(run("--at", "-1h", "--json", env=env))
    assert then["taken_at"] == pytest.approx(time.time() - 3600, abs=60)
    assert then["summary"]["busy"] == 1


def test_free_offers_what_was_free_at_that_time(env: dict[str, str]) -> None:
    assert "gpu01:0" not in run("free", "--at", "-1h", env=env)
    assert "gpu01:0" in run("free", "--at", "-10min", env=env)
    assert run("free", "-v", "--at", "-1h", env=env).startswith("As of ")


@pytest.mark.parametrize(
    "arguments, message",
    [
        (("--at", "soon"), "'soon' is not a point in time: write it like 'yesterday 03:12'"),
        (("who", "--at", "2099-01-01"), "'2099-01-01' is in the future"),
        (("--at", "-2h", "-i", "2"), "the past does not change"),
        (("--at", "-2h", "--here"), "--at: only a hub keeps history"),
        (("free", "--at", "-2h", "--ssh", "gpu01"), "--at: only a hub keeps history"),
        (("--at", "-300d"), "the history begins at"),
        (("history", "--since", "-1h", "--until", "-2h"), "since must be before until"),
        (("history", "--since", "soon"), "is not a point in time"),
        (("history", "--node", ""), "give node names"),
        (("history", "--filter", "modle:A100"), "did you mean 'model'?"),
        (("report", "--price", "cheap"), "like 0.31EUR"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, tuple) else "",
)
def test_invalid_times_and_filters_are_refused_in_one_line(
    env: dict[str, str], arguments: tuple[str, ...], message: str
) -> None:
    assert_error_line(run_fleet_smi(*arguments, env=env), 2, message)


@pytest.mark.parametrize("arguments", [("--at", "-1h"), ("history",), ("report",)])
def test_without_a_hub_it_says_how_to_give_one(
    env: dict[str, str], arguments: tuple[str, ...]
) -> None:
    del env["FLEET_SMI_CLIENT_HUB"]
    assert_error_line(run_fleet_smi(*arguments, env=env), 2, "no hub given: use --hub URL")


def test_a_hub_without_history_says_so(tmp_path: Path, env: dict[str, str]) -> None:
    with ThreadedHub(tmp_path / "other", hub__history="off") as other:
        done = run_fleet_smi("history", "--hub", other.url, env=env)
    assert_error_line(done, 2, "has no history")


def test_the_strip_shows_users_and_silence(env: dict[str, str]) -> None:
    lines = run("history", "--since", "2h", env=env).splitlines()
    assert lines[0].startswith("gpu01, last 2 h") and lines[0].endswith("now")
    bob, free = lines[1], lines[2]
    assert "│bob 80 █" in bob and "█│·" in bob and " free " in bob
    assert "bob" not in free
    assert lines[3].startswith("gpu02") and " silent " in lines[4]
    assert all(len(line) <= 100 for line in lines)


def test_node_and_filter_select_the_rows_of_the_strip(env: dict[str, str]) -> None:
    assert "gpu02" not in run("history", "--node", "gpu01", env=env)
    both = run("history", "--node", "gpu0*,nothing", env=env)
    assert "gpu01" in both and "gpu02" in both
    assert run("history", "--filter", "gpu:1", env=env).count(" free") >= 1
    nothing = run("history", "--node", "nobody", env=env)
    assert nothing == "No history for that time, or no GPU matches.\n"


def test_history_as_json_and_csv(env: dict[str, str]) -> None:
    strips = json.loads(run("history", "--since", "2h", "--json", env=env))
    assert {run["user"] for row in strips["rows"] for run in row["runs"]} == {"bob", ""}
    rows = csv_rows(run("history", "--since", "2h", "--format", "csv", env=env))
    (bob,) = [row for row in rows if row["user"] == "bob"]
    lasted = float(bob["end_epoch_seconds"]) - float(bob["start_epoch_seconds"])
    assert lasted == pytest.approx(3600, abs=120)


def csv_rows(text: str) -> list[dict[str, Any]]:
    return list(csv.DictReader(io.StringIO(text)))


def test_a_report_counts_the_hour_of_a_user(env: dict[str, str]) -> None:
    text = run("report", "--since", "3h", env=env)
    (bob,) = [line for line in text.splitlines() if line.startswith("bob ")]
    assert "1.0" in bob and "80%" in bob and "EUR" in bob
    assert "LEAST USED GPUS" in text


def test_a_report_has_the_same_figures_in_every_format(env: dict[str, str]) -> None:
    report = json.loads(run("report", "--since", "3h", "--format", "json", env=env))
    (row,) = report["usages"]["rows"]
    (written,) = csv_rows(run("report", "--since", "3h", "--format", "csv", env=env))
    assert written["user"] == row["name"] == "bob"
    assert float(written["gpu_seconds"]) == row["sums"]["gpu_seconds"]
    assert row["sums"]["gpu_seconds"] == pytest.approx(3600, abs=120)
    assert 0 < report["heard"] < 1


@pytest.mark.parametrize("by, name", [("node", "gpu01"), ("model", "H100"), ("group", "")])
def test_a_report_can_be_grouped(env: dict[str, str], by: str, name: str) -> None:
    report = json.loads(run("report", "--since", "3h", "--by", by, "--format", "json", env=env))
    assert name in report["usages"]["rows"][0]["name"]


def test_price_overrides_the_price_of_the_hub(env: dict[str, str]) -> None:
    rows = csv_rows(run("report", "--since", "3h", "--price", "2 USD", "--format=csv", env=env))
    hub_rows = csv_rows(run("report", "--since", "3h", "--format=csv", env=env))
    assert float(rows[0]["cost"]) == pytest.approx(4 * float(hub_rows[0]["cost"]))


def test_an_html_report_is_complete_and_world_readable(env: dict[str, str], tmp_path: Path) -> None:
    file = tmp_path / "reports" / "week.html"
    assert run("report", "--format", "html", "--out", str(file), env=env) == ""
    text = file.read_text("utf-8")
    assert text.startswith("<!doctype html>") and text.endswith("</html>\n")
    assert "bob" in text and "<script" not in text
    assert file.stat().st_mode & 0o777 == 0o644


def test_a_report_in_a_file_has_no_colour(env: dict[str, str], tmp_path: Path) -> None:
    run("report", "--out", str(tmp_path / "week.txt"), "--color", env=env)
    assert "\x1b" not in (tmp_path / "week.txt").read_text("utf-8")
