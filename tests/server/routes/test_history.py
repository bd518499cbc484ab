"""The history endpoints, over a real hub that has recorded two hours."""

from collections.abc import Iterator

import pytest

from fleet_smi.server.routes import jobs
from tests.builders import HOUR, MINUTE
from tests.machines import wait_until
from tests.server.routes.sample_history import (
    COMMAND,
    STEP,
    error_message,
    get_json,
    report_history,
)
from tests.server.threaded_hub import ThreadedHub, error_code


@pytest.fixture(scope="module")
def hub(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ThreadedHub]:
    with ThreadedHub(tmp_path_factory.mktemp("hub")) as running:
        running.now = report_history(running)  # type: ignore[attr-defined]
        yield running


@pytest.fixture
def now(hub: ThreadedHub) -> float:
    response: float = hub.now  # type: ignore[attr-defined]
    return response


def test_a_past_fleet_has_its_states_users_and_figures(hub: ThreadedHub, now: float) -> None:
    response = get_json(hub, f"fleet?at={now - HOUR - 5 * MINUTE:.0f}")
    taken, free = response["nodes"][0]["gpus"]
    assert (taken["verdict"]["state"], free["verdict"]["state"]) == ("busy", "free")
    assert taken["verdict"]["since"] == pytest.approx(now - 1.5 * HOUR, abs=STEP)
    assert "bob" in taken["verdict"]["reason"]
    (process,) = taken["processes"]
    assert (process["user"], process["pid"], process["name"]) == ("bob", 7, "python")
    assert taken["busy_percent"] == pytest.approx(80.0)
    assert taken["memory_used_bytes"] == pytest.approx(17 * 2**30, rel=0.01)
    assert taken["name"] == "NVIDIA H100 80GB HBM3"
    assert taken["fan_percent"] is None
    assert response["summary"]["nodes_reporting"] == response["summary"]["nodes"] == 2


def test_a_node_that_was_silent_then_offers_no_free_gpu(hub: ThreadedHub, now: float) -> None:
    response = get_json(hub, f"fleet?at={now - 20 * MINUTE:.0f}")
    assert response["summary"]["nodes_reporting"] == 1
    silent = response["nodes"][1]
    assert (silent["name"], silent["silent"]) == ("gpu02", True)
    assert silent["age_seconds"] == pytest.approx(39 * MINUTE, abs=2 * STEP)
    verdict = silent["gpus"][0]["verdict"]
    assert (verdict["state"], verdict["was"]) == ("unknown", "free")
    offered = get_json(hub, f"free?at={now - 20 * MINUTE:.0f}")["offered"]
    assert {each["node"] for each in offered} == {"gpu01"}


def test_free_and_people_answer_for_a_past_moment(hub: ThreadedHub) -> None:
    offered = get_json(hub, "free?at=-65m")["offered"]
    assert {(one["node"], one["index"]) for one in offered} == {("gpu01", 1), ("gpu02", 0)}
    (bob,) = get_json(hub, "people?at=-1h")["people"]
    assert (bob["user"], bob["gpus"]) == ("bob", 1)
    assert get_json(hub, "people?at=-10m")["people"] == []


def test_a_filter_applies_to_the_past_moment(hub: ThreadedHub) -> None:
    then, later = (
        get_json(hub, f"fleet?filter=user:bob&at={at}")["nodes"] for at in ("-1h", "-10m")
    )
    assert [node["name"] for node in then] == ["gpu01"]
    assert later == []


def test_a_strip_has_one_row_per_gpu_and_one_run_per_state(hub: ThreadedHub) -> None:
    response = get_json(hub, "history/strips?since=2h&columns=24")
    runs = {row["gpu"]["uuid"]: row["runs"] for row in response["rows"]}
    looks = [(run["state"], run["user"]) for run in runs["GPU-00000000"]]
    assert looks == [("free", ""), ("busy", "bob"), ("free", "")]
    assert [run["state"] for run in runs["GPU-00000001"]] == ["free"]
    (received,) = runs["GPU-of-2"]
    assert received["end"] < response["end"] - 50 * MINUTE


def test_strips_are_selected_by_filter_or_node(hub: ThreadedHub) -> None:
    rows = get_json(hub, "history/strips?since=2h&filter=node:gpu02")["rows"]
    assert [row["gpu"]["uuid"] for row in rows] == ["GPU-of-2"]
    rows = get_json(hub, "history/strips?since=2h&node=gpu01")["rows"]
    assert [row["gpu"]["node"] for row in rows] == ["gpu01", "gpu01"]


def test_an_open_period_has_no_end(hub: ThreadedHub) -> None:
    first, second = get_json(hub, "history/periods?node=gpu01&since=3h")["rows"]
    assert [one["state"] for one in first["periods"]] == ["free", "busy", "free"]
    assert [one["end"] is None for one in first["periods"]] == [False, False, True]
    assert len(second["periods"]) == 1
    (row,) = get_json(hub, "history/periods?gpu=GPU-of-2")["rows"]
    (period,) = row["periods"]
    assert not period["certain"]
    (row,) = get_json(hub, "history/periods?user=bob")["rows"]
    assert [one["state"] for one in row["periods"]] == ["busy"]


def test_an_occupancy_has_its_utilisation(hub: ThreadedHub) -> None:
    (row,) = get_json(hub, "history/occupancies")["rows"]
    (bob,) = row["occupancies"]
    assert bob["sums"]["gpu_seconds"] == pytest.approx(HOUR, abs=1.0)
    assert bob["sums"]["busy_seconds"] == pytest.approx(0.8 * HOUR, abs=1.0)
    assert bob["sums"]["energy_joules"] == pytest.approx(500 * HOUR, rel=0.01)
    assert get_json(hub, "history/occupancies?user=alice")["rows"] == []


def test_series_have_at_most_the_requested_points(hub: ThreadedHub) -> None:
    response = get_json(hub, "history/series/id-of-gpu01?since=2h&points=10")
    busy = response["gpus"]["GPU-00000000"]["busy_percent"]
    assert response["grain_seconds"] == 900
    assert len(busy["mean"]) <= 10
    assert {*filter(None, busy["maximum"])} == {80.0}
    assert busy["mean"][0] == 0.0
    assert get_json(hub, "history/series/gpu01?since=2h&points=10") == response
    assert error_code(hub.request("GET", "/api/v1/history/series/gpu03")) == "unknown_node"


@pytest.mark.parametrize("by, name", [("user", "bob"), ("node", "gpu01"), ("gpu", "GPU-00000000")])
def test_usage_totals_are_equal_for_every_grouping(hub: ThreadedHub, by: str, name: str) -> None:
    response = get_json(hub, f"history/usage?since=3h&by={by}&daily=true")
    (row,) = response["rows"]
    assert row["name"] == name
    assert row["sums"]["gpu_seconds"] == pytest.approx(HOUR, abs=1.0)
    assert sum(row["daily"]) == pytest.approx(row["sums"]["gpu_seconds"])
    assert response["total"] == row["sums"]
    received = 2 * 2 * HOUR + HOUR  # two GPUs for two hours, one for one
    assert sum(response["by_state"].values()) == pytest.approx(received, abs=4 * STEP)


def test_a_job_has_its_parts_and_advice(hub: ThreadedHub) -> None:
    (row,) = get_json(hub, "history/jobs?node=gpu01&user=bob")["rows"]
    assert (row["user"], row["gpus"], row["parts"]) == ("bob", 1, [])
    whole = get_json(hub, f"history/jobs/{row['id']}")
    assert [part["gpu"]["uuid"] for part in whole["parts"]] == ["GPU-00000000"]
    assert get_json(hub, "history/jobs?node=gpu02")["rows"] == []
    for unknown in ("6afa8b27-7a50521f", "nonsense", "f" * 40):
        response = hub.request("GET", f"/api/v1/history/jobs/{unknown}")
        assert (response.status, error_code(response)) == (404, "unknown_job")


def test_the_idlest_jobs_are_chosen_by_the_hub(
    hub: ThreadedHub, monkeypatch: pytest.MonkeyPatch
) -> None:
    (job,) = get_json(hub, "history/jobs?since=3h")["rows"]
    monkeypatch.setattr(jobs, "_MAX_JOBS", 0)
    assert hub.request("GET", "/api/v1/history/jobs?since=3h").status == 400
    monkeypatch.setattr(jobs, "_MAX_JOBS", 1)  # as many as it chooses, of any number
    assert get_json(hub, "history/jobs?since=3h&idlest=1")["rows"] == [job]
    assert hub.request("GET", "/api/v1/history/jobs?since=3h&idlest=0").status == 400


def test_a_relative_moment_has_another_etag_in_another_second(hub: ThreadedHub) -> None:
    for path in ("fleet", "people", "free"):
        first = hub.request("GET", f"/api/v1/{path}?at=-65m")
        tag = first.headers.get("etag", "")

        def has_changed(path: str = path, tag: str = tag) -> bool:
            again = hub.request("GET", f"/api/v1/{path}?at=-65m", If_None_Match=tag)
            return again.status == 200 and again.headers.get("etag") != tag

        if tag:
            wait_until(has_changed)
    past = "/api/v1/fleet?at=1000000000"
    assert hub.request("GET", past).status == 400  # before the history


@pytest.mark.parametrize(
    "path", ["history/periods", "history/occupancies", "history/jobs", "fleet?at=-1h"]
)
def test_past_command_lines_are_shown_to_admins_only(hub: ThreadedHub, path: str) -> None:
    viewer, admin = (
        hub.request("GET", f"/api/v1/{path}", token=hub.token(role)).body.decode()
        for role in ("viewer", "admin")
    )
    assert COMMAND not in viewer
    assert '"python"' in viewer
    assert COMMAND in admin


def test_a_moment_before_the_history_is_refused_with_its_beginning(hub: ThreadedHub) -> None:
    for path in ("fleet?at=-3d", "people?at=-3d", "history/usage?since=9d&until=-3d"):
        response = hub.request("GET", f"/api/v1/{path}")
        assert response.status == 400
        assert error_message(response).startswith("the history begins at 20")


@pytest.mark.parametrize(
    "path, message",
    [
        ("fleet?at=soon", "'soon' is not a point in time"),
        ("fleet?at=9999999999", "is in the future"),
        ("history/periods?since=1h&until=-2h", "since must be before until"),
        ("history/periods?since=4000d", "by 400 days at most"),
        ("history/strips?columns=0", "columns"),
        ("history/strips?filter=mem", None),
        ("history/strips?filter=mem:x", "mem is a number"),
        ("history/usage?by=luck", "by"),
        ("history/ribbon?columns=1000000", "columns"),
        ("history/jobs?when=now", "when is not known"),
    ],
)
def test_invalid_queries_are_explained_in_one_line(
    hub: ThreadedHub, path: str, message: str | None
) -> None:
    response = hub.request("GET", f"/api/v1/{path}")
    if message is None:
        assert response.status == 200
    else:
        assert (response.status, message in error_message(response)) == (400, True), response


def test_large_responses_are_gzipped_for_clients_that_accept_it(hub: ThreadedHub) -> None:
    path = "/api/v1/history/series/gpu01?since=2h"
    plain = hub.request("GET", path, Accept_Encoding="identity")
    assert "content-encoding" not in plain.headers
    assert hub.request("GET", path).headers["content-encoding"] == "gzip"


def test_the_report_is_a_file_of_hours_energy_and_dates(hub: ThreadedHub) -> None:
    page = hub.request("GET", "/api/v1/history/report?since=3h")
    assert page.status == 200
    text = page.body.decode()
    assert text.startswith("<!doctype html>")
    assert "kWh" in text and "bob" in text
    table = hub.request("GET", "/api/v1/history/report?since=3h&format=csv&by=user").body.decode()
    assert any(line.startswith("bob,") for line in table.splitlines())
