"""`GET /api/v1/history/state`, and the history across restarts and removals."""

from pathlib import Path
from typing import Any

from tests.builders import gpu, process
from tests.machines import wait_until
from tests.server.routes.sample_history import error_message, get_json
from tests.server.routes.snapshots import snapshot_now
from tests.server.threaded_hub import ThreadedHub, error_code


def test_a_hub_without_history_says_so(tmp_path: Path) -> None:
    with ThreadedHub(tmp_path, hub__history="off") as hub:
        for path in ("fleet?at=-1h", "history/usage", "history/state"):
            answer = hub.request("GET", f"/api/v1/{path}")
            assert (answer.status, error_code(answer)) == (404, "not_kept")
        assert hub.request("GET", "/api/v1/fleet").status == 200
    assert not (tmp_path / "history.db").exists()


def test_retention_follows_the_settings(tmp_path: Path) -> None:
    stored: dict[str, Any] = {
        "hub__history": str(tmp_path / "elsewhere" / "past.db"),
        "hub__history_keep_10s": "1h",
        "hub__history_keep_1m": "2d",
        "hub__history_keep_15m": "30d",
        "hub__history_keep_ledger": "90d",
        "hub__history_most": "1GiB",
        "hub__energy_price": "0.31",
        "hub__currency": "EUR",
    }
    with ThreadedHub(tmp_path / "hub", **stored) as hub:
        body = get_json(hub, "history/state")
    hour, day = 3600.0, 86400.0
    assert [each["keep_seconds"] for each in body["grains"]] == [hour, 2 * day, 30 * day, 90 * day]
    assert body["ledger_keep_seconds"] == 90 * day
    assert body["most_bytes"] == 1 << 30
    assert (body["energy_price"], body["currency"]) == (0.31, "EUR")
    assert body["used_bytes"] > 0
    assert (tmp_path / "elsewhere" / "past.db").exists()
    assert not (tmp_path / "hub" / "history.db").exists()


def test_the_past_of_a_new_hub_is_refused(tmp_path: Path) -> None:
    with ThreadedHub(tmp_path) as hub:
        response = hub.request("GET", "/api/v1/fleet?at=-1h")
        assert response.status == 400
        assert error_message(response).startswith("the history ")


def test_an_open_period_continues_after_a_restart(tmp_path: Path) -> None:
    with ThreadedHub(tmp_path) as hub:
        hub.join_and_report(snapshot_now("gpu01", gpu(0, processes=(process(),))))
        wait_until(lambda: bool(get_json(hub, "history/periods")["rows"]))
        (before,) = get_json(hub, "history/periods")["rows"]
    with ThreadedHub(tmp_path) as hub:
        (after,) = get_json(hub, "history/periods")["rows"]
    (period,) = after["periods"]
    assert (period["state"], period["end"]) == ("busy", None)
    assert period["start"] == before["periods"][0]["start"]


def test_a_removed_node_stays_in_the_past_before_its_removal(tmp_path: Path) -> None:
    with ThreadedHub(tmp_path) as hub:
        shots = [snapshot_now("gpu01", gpu(0), sequence=each) for each in range(2)]
        earlier = shots[0].taken_at - 600.0
        past = snapshot_now("gpu01", gpu(0), taken_at=earlier, sequence=0)
        token = hub.join("id-of-gpu01", "gpu01")
        hub.report(past, shots[1], token=token)
        wait_until(lambda: bool(get_json(hub, "history/periods")["rows"]))
        admin: dict[str, Any] = {"token": hub.token("admin"), "Content_Type": "application/json"}
        assert hub.request("DELETE", "/api/v1/nodes/id-of-gpu01", **admin).status == 204
        then = f"fleet?at={earlier + 60:.0f}"
        wait_until(lambda: hub.request("GET", f"/api/v1/{then}").status == 200)
        assert [node["name"] for node in get_json(hub, then)["nodes"]] == ["gpu01"]
        assert get_json(hub, "fleet")["nodes"] == []
