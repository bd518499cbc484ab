"""`/api/v1/reservations`: booked by people, seen by all, kept from others, read by calendars."""

import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from fleet_smi.client.connection import Response
from fleet_smi.model import booking_rules
from fleet_smi.model.token_bucket import TokenBucket
from tests.builders import HOUR, gpu, process
from tests.server.routes.snapshots import snapshot_now
from tests.server.threaded_hub import ThreadedHub, error_code

PATH = "/api/v1/reservations"


class People:
    """Sends requests as people whom a trusted proxy names."""

    def __init__(self, hub: ThreadedHub) -> None:
        self.hub = hub

    def send(self, person: str | None, method: str, path: str, value: Any = None) -> Response:
        body = None if value is None and method == "GET" else msgspec.json.encode(value or {})
        headers = {"Content_Type": "application/json", "Origin": self.hub.url}
        if person is not None:
            headers["X_User"] = person
        return self.hub.request(method, path, body, **headers)

    def book(self, person: str, **fields: Any) -> Response:
        now = time.time()
        usual = {"node": "gpu01", "gpus": 2, "starts_at": now, "ends_at": now + HOUR}
        return self.send(person, "POST", PATH, usual | fields)

    def offered(self, person: str) -> list[int]:
        found = decode(self.send(person, "GET", "/api/v1/free"))
        return sorted(one["index"] for one in found["offered"])


def decode(response: Response) -> Any:
    assert response.status == 200, response
    return msgspec.json.decode(response.body)


@pytest.fixture
def people(tmp_path: Path) -> Iterator[People]:
    settings: dict[str, Any] = {
        "hub__trusted_proxies": ["127.0.0.1"],
        "hub__user_header": "X-User",
        "hub__admins": ["root"],
    }
    with ThreadedHub(tmp_path / "hub", **settings) as hub:
        lucas = process(8, "lucas", busy_percent=97.0)
        cards = [gpu(0, processes=(lucas,)), *[gpu(index) for index in (1, 2, 3)]]
        hub.join_and_report(snapshot_now("gpu01", *cards, interval_seconds=600.0))
        yield People(hub)


def test_a_booking_keeps_gpus_from_others_and_says_why(people: People) -> None:
    made = decode(people.book("maria", note="paper\nrerun"))
    assert (made["owner"], made["note"], made["state"]) == ("maria", "paper rerun", "active")
    assert people.offered("bob") == [1]
    assert people.offered("maria") == [1, 2, 3]
    unmet = decode(people.send("bob", "GET", "/api/v1/offers?n=2"))["unmet"]
    assert "2 are booked by maria until" in unmet
    assert people.send("maria", "DELETE", f"{PATH}/{made['id']}").status == 204
    assert people.offered("bob") == [1, 2, 3]


def test_who_is_in_the_way_is_told_to_both(people: People) -> None:
    made = decode(people.book("maria", gpus=4))
    assert (made["missing"], made["in_the_way"]) == (1, ["lucas"])
    node = decode(people.send("lucas", "GET", "/api/v1/nodes/id-of-gpu01"))
    notes = [note["words"] for note in node["gpus"][0]["verdict"]["notes"]]
    assert any("maria has booked 4 GPUs here until" in words for words in notes)
    assert node["gpus"][0]["verdict"]["state"] == "busy"


def test_conflicts_are_shown_before_and_refused_unless_forced(people: People) -> None:
    decode(people.book("maria", gpus=3))
    now = time.time()
    wanted = {"node": "gpu01", "gpus": 2, "starts_at": now, "ends_at": now + 2 * HOUR}
    check = decode(people.send("omar", "POST", f"{PATH}/check", wanted))
    assert (check["conflicts"][0]["owners"], check["free_gpus"]) == (["maria"], 1)
    assert check["fits_at"] == pytest.approx(now + HOUR, abs=60)
    refused = people.book("omar")
    body = msgspec.json.decode(refused.body)
    assert (refused.status, body["error"]["code"]) == (409, "conflict")
    assert body["check"]["conflicts"]
    assert people.book("omar", force=True).status == 200
    listed = decode(people.send("omar", "GET", PATH))
    assert [one["owner"] for one in listed["reservations"]] == ["maria", "omar"]
    assert [one["editable"] for one in listed["reservations"]] == [False, True]
    assert listed["overbooked"][0]["booked"] == 5


def test_a_check_says_that_a_node_is_closed(people: People) -> None:
    closing = {"node_id": "id-of-gpu01", "note": "new fan"}
    assert people.send("root", "POST", "/api/v1/closings", closing).status == 200
    now = time.time()
    wanted = {"node": "gpu01", "gpus": 1, "starts_at": now, "ends_at": now + HOUR}
    check = decode(people.send("omar", "POST", f"{PATH}/check", wanted))
    assert check["closed"] == "closed by root: new fan"


def test_only_the_owner_and_admins_change_a_booking(people: People) -> None:
    one = f"{PATH}/{decode(people.book('maria'))['id']}"
    for method in ("PATCH", "DELETE"):
        refused = people.send("bob", method, one, {})
        assert (refused.status, error_code(refused)) == (403, "not_yours")
    assert decode(people.send("maria", "PATCH", one, {"gpus": 3}))["gpus"] == 3
    assert decode(people.send("root", "PATCH", one, {"note": "moved"}))["note"] == "moved"
    assert error_code(people.book("bob", owner="maria")) == "forbidden"
    assert decode(people.book("root", owner="omar", gpus=1))["owner"] == "omar"
    gone = people.send("root", "PATCH", f"{PATH}/unknown", {})
    assert (gone.status, error_code(gone)) == (404, "unknown_reservation")


def test_a_token_that_many_may_share_cannot_book(people: People) -> None:
    token = people.hub.token("viewer")
    now = time.time()
    body = {"node": "gpu01", "gpus": 1, "starts_at": now, "ends_at": now + HOUR}
    refused = people.hub.request_json("POST", PATH, body, token=token)
    assert (refused.status, error_code(refused)) == (403, "no_person")
    listed = msgspec.json.decode(people.hub.request("GET", PATH, token=token).body)
    assert (listed["person"], listed["may_book"]) == (None, False)


@pytest.mark.parametrize(
    ("fields", "status"),
    [
        ({"node": "gpu99"}, 404),
        ({"gpus": 9}, 400),
        ({"gpus": 0}, 400),
        ({"ends_at": 5.0}, 400),
        ({"starts_at": 1e300}, 400),
        ({"note": "x" * 2000}, 400),
        ({"whatever": 1}, 400),
    ],
)
def test_nonsense_is_refused(people: People, fields: dict[str, Any], status: int) -> None:
    response = people.book("maria", **fields)
    assert response.status == status
    error_code(response)


def test_a_renamed_node_keeps_its_bookings_and_a_removed_one_is_marked(people: People) -> None:
    decode(people.book("maria"))
    node = "/api/v1/nodes/id-of-gpu01"
    assert people.send("root", "PATCH", node, {"name": "big-one"}).status == 204
    (one,) = decode(people.send("bob", "GET", f"{PATH}?node=big-one"))["reservations"]
    assert (one["node"], one["node_known"]) == ("big-one", True)
    assert people.send("root", "DELETE", node).status == 204
    (one,) = decode(people.send("bob", "GET", PATH))["reservations"]
    assert (one["node"], one["node_known"]) == ("gpu01", False)


def test_the_calendar_address_reads_bookings_and_nothing_else(people: People) -> None:
    decode(people.book("maria", note="rerun"))
    url = decode(people.send("maria", "POST", f"{PATH}/feed"))["url"]
    path = url.removeprefix(people.hub.url)
    response = people.hub.request("GET", path)
    assert response.headers["content-type"].startswith("text/calendar")
    assert b"SUMMARY:gpu01: 2 GPUs\\, maria\r\n" in response.body
    secret = path.partition("token=")[2]
    for other in ("/api/v1/fleet", PATH, "/api/v1/reservations/feed"):
        assert people.hub.request("GET", other, token=secret).status in (401, 404, 405)
        assert people.hub.request("GET", f"{other}?token={secret}").status in (400, 401, 404, 405)
    assert people.hub.request("GET", f"{PATH}.ics").status == 401
    assert people.hub.request("GET", f"{PATH}.ics?token=guess").status == 401
    assert people.send("bob", "GET", f"{PATH}.ics").status == 200
    refused = people.send("bob", "DELETE", f"{PATH}/feed?owner=maria")
    assert (refused.status, error_code(refused)) == (403, "forbidden")
    assert people.send("root", "DELETE", f"{PATH}/feed?owner=maria").status == 204
    assert people.hub.request("GET", path).status == 401


def test_bookings_survive_a_restart_of_the_hub(people: People, tmp_path: Path) -> None:
    made = decode(people.book("maria"))
    people.hub.stop()
    with ThreadedHub(tmp_path / "hub") as again:
        (one,) = msgspec.json.decode(again.request("GET", PATH).body)["reservations"]
        assert (one["id"], one["owner"], one["state"]) == (made["id"], "maria", "active")


def test_a_booking_through_an_agent_counts_for_its_node(
    people: People, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(booking_rules, "MAX_OPEN_PER_NODE", 2)
    token = people.hub.join_and_report(snapshot_now("gpu02", gpu(0)))
    now = time.time()
    body = msgspec.json.encode(
        {"node": "gpu01", "gpus": 1, "starts_at": now, "ends_at": now + HOUR, "force": True}
    )
    headers = {"token": token, "Content_Type": "application/json"}
    found = [
        people.hub.request("POST", PATH, body, X_Fleet_Smi_User=f"invented{number}", **headers)
        for number in range(3)
    ]
    assert [each.status for each in found] == [200, 200, 400]
    assert b"were made from this node" in found[2].body
    assert people.book("maria", force=True).status == 200


def test_who_books_without_end_is_slowed_down_and_nobody_else(people: People) -> None:
    people.hub.server.reservations.pace._people = TokenBucket(burst=3, refill_seconds=3600.0)
    found = [people.book("eve", force=True) for _ in range(4)]
    assert [each.status for each in found] == [200, 200, 200, 429]
    own = f"{PATH}/{decode(found[0])['id']}"
    assert people.send("eve", "PATCH", own, {"note": "x"}).status == 429
    assert people.book("maria", force=True).status == 200
