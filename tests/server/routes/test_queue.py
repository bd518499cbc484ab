"""`/api/v1/queue`: requests of people, offers, rights, limits, restarts and faulty records."""

import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest
from sqlalchemy import insert

from fleet_smi.client.connection import Response
from fleet_smi.hub.database import queue as queue_table
from fleet_smi.hub.database import write_transaction
from fleet_smi.model.snapshot import Lease
from fleet_smi.model.token_bucket import TokenBucket
from tests.builders import gpu, process
from tests.machines import wait_until
from tests.server.routes.snapshots import snapshot_now
from tests.server.threaded_hub import ThreadedHub, error_code

QUEUE = "/api/v1/queue"
JSON = {"Content_Type": "application/json"}
PROXIED: dict[str, Any] = {
    "hub__trusted_proxies": "127.0.0.1",
    "hub__user_header": "X-User",
    "hub__admins": "root",
}


@pytest.fixture
def hub(tmp_path: Path) -> Iterator[ThreadedHub]:
    """A hub with a node of two GPUs, of which alice has one."""
    with ThreadedHub(tmp_path / "hub", **PROXIED) as running:
        running.node_token = report(running)  # type: ignore[attr-defined]
        yield running


def report(hub: ThreadedHub, *, free: int = 1, sequence: int = 0, **fields: Any) -> str:
    """Report the node; return its token."""
    busy = [gpu(each, uuid=f"GPU-{each}", processes=(process(),)) for each in range(free, 2)]
    idle = [gpu(each, uuid=f"GPU-{each}", **fields) for each in range(free)]
    snapshot = snapshot_now("gpu01", *idle, *busy, sequence=sequence)
    token: str | None = getattr(hub, "node_token", None)
    if token is None:
        return hub.join_and_report(snapshot)
    assert hub.report(snapshot, token=token).status == 200
    return token


def send(hub: ThreadedHub, person: str, method: str, path: str = "", **body: Any) -> Response:
    """Send a request of a person, whom the proxy has logged in."""
    data = msgspec.json.encode(body) if method in ("POST", "PATCH") else None
    return hub.request(
        method,
        f"{QUEUE}{path}",
        data,
        X_User=person,
        Origin=f"http://{hub.url.removeprefix('http://')}",
        Content_Type="application/json",
        Host=hub.url.removeprefix("http://"),
    )


def join(hub: ThreadedHub, person: str, **ask: Any) -> dict[str, Any]:
    response = send(hub, person, "POST", **ask)
    assert response.status == 200, response.body
    row: dict[str, Any] = msgspec.json.decode(response.body)
    return row


def rows(hub: ThreadedHub, person: str = "viewer") -> list[dict[str, Any]]:
    response = send(hub, person, "GET")
    assert response.status == 200
    found: list[dict[str, Any]] = msgspec.json.decode(response.body)["rows"]
    return found


def free(hub: ThreadedHub, person: str) -> dict[str, Any]:
    path = "/api/v1/free?n=1"
    found: dict[str, Any] = msgspec.json.decode(hub.request("GET", path, X_User=person).body)
    return found


def advance(hub: ThreadedHub, seconds: float) -> None:
    """Let time pass for the timers of the queue."""
    hub.server.queue._timers._clock = lambda: time.monotonic() + seconds
    hub.server.queue._unused._clock = lambda: time.monotonic() + seconds


def test_a_free_gpu_is_offered_at_once_and_to_nobody_else(hub: ThreadedHub) -> None:
    assert rows(hub) == []
    first = join(hub, "bob")
    assert first["offer"]["uuids"] == ["GPU-0"]
    assert first["offer"]["labels"] == ["gpu01:0"]
    assert first["why"].startswith("offered gpu01:0: ")
    second = join(hub, "carol")
    assert (second["place"], second["offer"]) == (1, None)
    assert second["why"] == "1 offered to others on gpu01"
    assert free(hub, "bob")["offered"][0]["uuid"] == "GPU-0"
    for_others = free(hub, "carol")
    assert for_others["offered"] == []
    (reason,) = [each["words"] for each in for_others["refused"] if each["uuid"] == "GPU-0"]
    assert reason.startswith("leased: offered to bob for ")
    assert for_others["expected"]["by"] is None
    assert [row["own"] for row in rows(hub, "carol")] == [False, True]


def test_an_offer_that_is_not_taken_up_goes_on_to_the_next(hub: ThreadedHub) -> None:
    first, second = join(hub, "bob"), join(hub, "carol")
    advance(hub, 31)
    wait_until(lambda: any(row["id"] == second["id"] and row["offer"] for row in rows(hub)))
    (waiting,) = [row for row in rows(hub) if row["id"] == first["id"]]
    assert "offered once and not taken up" in waiting["why"]


def test_what_was_taken_up_is_not_offered_before_the_node_has_reported_it(
    hub: ThreadedHub,
) -> None:
    first, second = join(hub, "bob", kind="run"), join(hub, "carol")
    assert send(hub, "bob", "PATCH", f"/{first['id']}", taken=True).status == 200
    assert [row["offer"] for row in rows(hub) if row["id"] == second["id"]] == [None]
    report(hub, sequence=1, lease=Lease(holder="bob", taken_at=time.time()))
    wait_until(lambda: [row["id"] for row in rows(hub)] == [second["id"]])
    report(hub, sequence=2)
    wait_until(lambda: rows(hub)[0]["offer"] is not None)


def test_a_request_whose_asker_was_killed_lapses(hub: ThreadedHub) -> None:
    join(hub, "bob")
    kept = join(hub, "carol")
    advance(hub, 50)
    assert send(hub, "carol", "PATCH", f"/{kept['id']}").status == 200
    advance(hub, 61)
    wait_until(lambda: [row["person"] for row in rows(hub)] == ["carol"])
    advance(hub, 111)
    wait_until(lambda: rows(hub) == [])
    gone = send(hub, "carol", "PATCH", f"/{kept['id']}")
    assert (gone.status, error_code(gone)) == (404, "unknown_request")


def test_a_declined_offer_goes_to_the_next(hub: ThreadedHub) -> None:
    first, second = join(hub, "bob"), join(hub, "carol")
    assert send(hub, "bob", "PATCH", f"/{first['id']}", declined=True).status == 200
    assert [row["person"] for row in rows(hub) if row["offer"]] == ["carol"]
    assert second["id"] in [row["id"] for row in rows(hub)]


def test_an_offer_of_a_node_that_vanishes_is_withdrawn_and_made_elsewhere(
    tmp_path: Path,
) -> None:
    with ThreadedHub(tmp_path / "hub", **PROXIED) as hub:
        hub.join_and_report(snapshot_now("gpu01", gpu(0, uuid="GPU-0"), interval_seconds=1.0))
        row = join(hub, "bob")
        assert row["offer"]["node"] == "gpu01"
        # It reports no more. One that could take its place is busy at first.
        busy = gpu(0, uuid="GPU-1", processes=(process(),))
        token = hub.join_and_report(snapshot_now("gpu02", busy))
        wait_until(lambda: rows(hub)[0]["offer"] is None)
        assert rows(hub)[0]["place"] == 1
        free_again = snapshot_now("gpu02", gpu(0, uuid="GPU-1"), sequence=1)
        assert hub.report(free_again, token=token).status == 200
        wait_until(lambda: rows(hub)[0]["offer"] is not None)
        assert rows(hub)[0]["id"] == row["id"]
        assert rows(hub)[0]["offer"]["node"] == "gpu02"


def test_the_queue_survives_a_restart_with_an_offer_open(tmp_path: Path) -> None:
    with ThreadedHub(tmp_path / "hub", **PROXIED) as before:
        report(before)
        first, second = join(before, "bob"), join(before, "carol", note="paper\x1b[2J")
    with ThreadedHub(tmp_path / "hub", **PROXIED) as after:
        found = rows(after)
        assert [row["id"] for row in found] == [first["id"], second["id"]]
        assert found[0]["offer"]["uuids"] == ["GPU-0"]
        assert found[1]["request"]["note"] == "paper [2J"
        assert send(after, "carol", "DELETE", f"/{second['id']}").status == 204


def test_ones_own_requests_alone_can_be_changed_and_an_admin_changes_all(
    hub: ThreadedHub,
) -> None:
    first, second = join(hub, "bob"), join(hub, "carol")
    path = f"/{second['id']}"
    for method in ("PATCH", "DELETE"):
        refused = send(hub, "bob", method, path)
        assert (refused.status, error_code(refused)) == (403, "not_yours")
    assert send(hub, "carol", "PATCH", path, band="high").status == 403
    assert send(hub, "carol", "PATCH", path, note="for the paper").status == 200
    assert send(hub, "root", "PATCH", path, band="high").status == 200
    (row,) = [row for row in rows(hub) if row["id"] == second["id"]]
    assert (row["band"], row["request"]["note"]) == ("high", "for the paper")
    assert send(hub, "root", "DELETE", f"/{first['id']}").status == 204
    wait_until(lambda: rows(hub)[0]["offer"] is not None)
    token = hub.token("viewer")
    shared = hub.request_json("POST", QUEUE, {"n": 1}, token=token)
    assert (shared.status, error_code(shared)) == (403, "no_person")


def test_requests_that_make_no_sense_or_are_too_many_are_refused(tmp_path: Path) -> None:
    limits: dict[str, Any] = {"hub__queue_per_person": 2, "hub__queue_most": 3}
    with ThreadedHub(tmp_path / "hub", **PROXIED, **limits) as hub:
        report(hub)
        for ask in ({"n": 3}, {"model": "H200"}, {"where": "node:none"}, {"uuids": ["GPU-x"]}):
            refused = send(hub, "bob", "POST", **ask)
            assert (refused.status, error_code(refused)) == (409, "impossible"), ask
        for ask in ({"n": 0}, {"where": "moon"}, {"max_hours": -1}, {"min_free": "40"}, {"x": 1}):
            assert send(hub, "bob", "POST", **ask).status == 400, ask
        path_like = "../../etc/passwd"
        assert join(hub, path_like)["person"] == path_like
        join(hub, path_like)
        assert send(hub, path_like, "POST").status == 409
        join(hub, "carol")
        assert b"queue is full" in send(hub, "dave", "POST").body


def test_who_sends_requests_without_end_is_slowed_down_and_nobody_else(hub: ThreadedHub) -> None:
    hub.server.queue._pace._people = TokenBucket(burst=5, refill_seconds=3600.0)
    statuses = []
    for _ in range(6):
        response = send(hub, "eve", "POST")
        statuses.append(response.status)
        if response.status == 200:
            row = msgspec.json.decode(response.body)
            assert send(hub, "eve", "DELETE", f"/{row['id']}").status == 204
    assert statuses == [200] * 5 + [409]
    assert error_code(send(hub, "eve", "POST")) == "too_many"
    assert join(hub, "bob")["offer"] is not None


def test_who_declines_without_end_is_slowed_down(tmp_path: Path) -> None:
    with ThreadedHub(tmp_path / "hub", **PROXIED) as hub:
        for number in range(8):
            hub.join_and_report(snapshot_now(f"gpu{number}", gpu(0, uuid=f"GPU-{number}")))
        row = join(hub, "eve")
        hub.server.queue._pace._people = TokenBucket(burst=3, refill_seconds=3600.0)
        path = f"/{row['id']}"
        found = [send(hub, "eve", "PATCH", path, declined=True).status for _ in range(5)]
        assert found == [200, 200, 200, 503, 503]


def test_an_agent_that_makes_people_up_cannot_fill_the_queue(tmp_path: Path) -> None:
    limits: dict[str, Any] = {"hub__queue_per_person": 2, "hub__queue_most": 16}
    with ThreadedHub(tmp_path / "hub", **PROXIED, **limits) as hub:
        token = report(hub)

        def vouch(user: str) -> Response:
            return hub.request("POST", QUEUE, b"{}", token=token, X_Fleet_Smi_User=user, **JSON)

        found = [vouch(f"invented{number}") for number in range(6)]
        assert [each.status for each in found] == [200] * 4 + [409] * 2
        assert b"4 requests from this node wait already" in found[-1].body
        assert join(hub, "carol")["place"] is not None
    # It is remembered by a hub that is restarted.
    with ThreadedHub(tmp_path / "hub", **PROXIED, **limits) as hub:
        assert vouch("invented6").status == 409


def test_who_keeps_gpus_without_using_them_again_and_again_lets_others_go_first(
    hub: ThreadedHub,
) -> None:
    passed = 0.0
    for _ in range(5):
        # Each in a request of its own, and given back in time.
        row = join(hub, "eve", kind="run")
        assert row["offer"] is not None
        assert send(hub, "eve", "PATCH", f"/{row['id']}", taken=True).status == 200
        advance(hub, passed := passed + 29)
        assert send(hub, "eve", "DELETE", f"/{row['id']}").status == 204
    report(hub, free=0, sequence=1)
    first, second = join(hub, "eve"), join(hub, "bob")
    wait_until(lambda: [row["person"] for row in rows(hub)] == ["bob", "eve"])
    assert "behind bob: GPUs offered to eve were not seen in use" in rows(hub)[1]["why"]
    report(hub, free=1, sequence=2)
    wait_until(lambda: any(row["offer"] for row in rows(hub)))
    assert [row["id"] for row in rows(hub) if row["offer"]] == [second["id"]]
    # Where nobody else waits, they are offered GPUs as before.
    assert send(hub, "bob", "DELETE", f"/{second['id']}").status == 204
    wait_until(lambda: rows(hub)[0]["offer"] is not None)
    assert rows(hub)[0]["id"] == first["id"]


def test_who_uses_what_was_offered_keeps_their_turn(hub: ThreadedHub) -> None:
    passed = 0.0
    for number in range(1, 11, 2):
        row = join(hub, "bob", kind="run")
        assert send(hub, "bob", "PATCH", f"/{row['id']}", taken=True).status == 200
        advance(hub, passed := passed + 29)
        report(hub, sequence=number, lease=Lease(holder="bob", taken_at=time.time()))
        wait_until(lambda: rows(hub) == [])
        report(hub, sequence=number + 1)
    report(hub, free=0, sequence=11)
    join(hub, "bob")
    join(hub, "carol")
    assert [row["person"] for row in rows(hub)] == ["bob", "carol"]


def test_a_record_that_cannot_be_read_or_planned_stops_nobody(
    hub: ThreadedHub, tmp_path: Path
) -> None:
    good = {"person": "x", "arrived_at": 1.0, "seen_at": time.time(), "state": "{}"}
    bad = [
        {"id": "broken", "request": "not JSON", **good},
        {"id": "odd", "request": '{"count": "many"}', **good},
        {"id": "faulty", "request": '{"min_free_bytes": 1, "count": -5}', **good},
    ]
    hub.stop()
    with (
        ThreadedHub(tmp_path / "hub", **PROXIED) as again,
        write_transaction(again.server._engine) as connection,
    ):
        connection.execute(insert(queue_table), bad)
    with ThreadedHub(tmp_path / "hub", **PROXIED) as again:
        again.node_token = hub.node_token  # type: ignore[attr-defined]
        report(again, sequence=1)
        assert join(again, "bob")["offer"] is not None
        assert {row["id"] for row in rows(again)} >= set()


def test_a_job_gets_what_was_offered_to_its_person_who_waited(hub: ThreadedHub) -> None:
    waited = join(hub, "bob", kind="wait")
    assert send(hub, "bob", "PATCH", f"/{waited['id']}", taken=True).status == 200
    assert join(hub, "carol", kind="run", uuids=["GPU-0"])["offer"] is None
    runs = join(hub, "bob", kind="run", uuids=["GPU-0"])
    assert runs["offer"]["uuids"] == ["GPU-0"]
    assert waited["id"] not in [row["id"] for row in rows(hub)]


def test_an_offer_of_a_booked_gpu_is_not_given_to_others(tmp_path: Path) -> None:
    with ThreadedHub(tmp_path / "hub") as hub:
        hub.join_and_report(snapshot_now("gpu01", gpu(0)))
        alice, mallory = [hub.token("viewer", person=each) for each in ("alice", "mallory")]
        now = time.time()

        def post(token: str, path: str, body: dict[str, Any]) -> dict[str, Any]:
            data = msgspec.json.encode(body)
            found = hub.request("POST", path, data, token=token, **JSON)
            assert found.status == 200
            decoded: dict[str, Any] = msgspec.json.decode(found.body)
            return decoded

        booking = {"node": "gpu01", "gpus": 1, "starts_at": now, "ends_at": now + 3600}
        post(alice, "/api/v1/reservations", booking)
        own = post(alice, QUEUE, {"kind": "run"})
        assert own["offer"] is not None
        for token, wish in ((mallory, {"ignore_bookings": True}), (alice, {"kind": "run"})):
            assert post(token, QUEUE, wish)["offer"] is None
        kept = hub.request("PATCH", f"{QUEUE}/{own['id']}", b"{}", token=alice, **JSON)
        assert kept.status == 200
