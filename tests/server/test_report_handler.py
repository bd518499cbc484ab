"""`POST /api/v1/reports` over a real socket: what is refused, what is cleaned, and that the hub
goes on whatever it was sent."""

import contextlib
import socket
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Literal

import msgspec
import pytest

from fleet_smi.model.snapshot import Snapshot
from fleet_smi.wire.fleet_csv import fleet_csv
from fleet_smi.wire.report import Report, decode_receipt, encode_report_json
from tests.builders import gpu, process, snapshot
from tests.machines import wait_until
from tests.server.threaded_hub import REPORTS_PATH, ThreadedHub, error_code

ID = "id-of-gpu01"
HOSTILE = "<script>alert(1)</script>\x1b[31mred\x1b[0m\r\n\u202e=cmd|' /C calc'!A0\"\\"
FACES = ("/", "/?why=true&processes=true", "/?overview=true", "/metrics", "/api/v1/fleet")


@pytest.fixture
def hub(tmp_path: Path) -> Iterator[ThreadedHub]:
    with ThreadedHub(tmp_path / "state") as running:
        yield running


@pytest.fixture
def token(hub: ThreadedHub) -> str:
    return hub.join_and_report(now())


def now(*gpus: Any, sequence: int = 0, **fields: Any) -> Snapshot:
    """A report of this moment."""
    known: dict[str, Any] = {"taken_at": time.time(), "interval_seconds": 60.0, "run_id": "run-1"}
    return snapshot(*(gpus or (gpu(0),)), sequence=sequence, **(known | fields))


def plain(**changes: Any) -> dict[str, Any]:
    """A report as any program would write it, with other values in its one GPU."""
    report: dict[str, Any] = msgspec.json.decode(encode_report_json([now(sequence=1)], time.time()))
    report["snapshots"][0]["gpus"][0].update(changes)
    return report


def send(hub: ThreadedHub, token: str, body: bytes, kind: str = "application/json") -> Any:
    return hub.request("POST", REPORTS_PATH, body, token=token, Content_Type=kind)


def assert_goes_on(hub: ThreadedHub, token: str) -> None:
    response = hub.report(now(sequence=99), token=token)
    assert response.status == 200, response
    assert hub.fleet().nodes[0].sequence == 99


def test_the_receipt_names_the_hub_and_the_durable_sequence(hub: ThreadedHub, token: str) -> None:
    def receipt(sequence: int) -> Any:
        response = hub.report(now(sequence=sequence), token=token)
        assert response.headers["content-type"] == "application/json"
        return decode_receipt(response.body)

    first = receipt(1)
    assert first.hub == hub.server.hub.instance_id
    sequences = iter(range(2, 10_000))
    wait_until(lambda: (receipt(next(sequences)).kept or 0) >= 1)


def test_a_report_that_continues_what_the_hub_lacks_is_refused_as_a_whole(
    hub: ThreadedHub, token: str
) -> None:
    receipt = decode_receipt(hub.report(now(sequence=1), token=token).body)
    assert hub.report(now(sequence=2), token=token, continued=receipt.hub).status == 200
    refused = hub.report(now(sequence=3), token=token, continued="an-earlier-run")
    assert (refused.status, error_code(refused)) == (409, "out_of_order")
    assert hub.fleet().nodes[0].sequence == 2
    assert hub.report(now(sequence=3), token=token).status == 200


def test_a_large_report_is_refused_when_the_history_stops_being_full_half_way(
    hub: ThreadedHub, token: str
) -> None:
    running = hub.server.hub
    deliver = hub.server._push.receive

    def receive(report: Report, address: str = "") -> None:
        deliver(report, address)
        running.receipt_id = "another"

    hub.server._push.receive = receive  # type: ignore[method-assign]
    cards = [gpu(index) for index in range(16)]
    many = [now(*cards, sequence=number) for number in range(1, 101)]
    refused = hub.report(*many, token=token)
    assert (refused.status, error_code(refused)) == (409, "out_of_order")
    assert 1 < hub.fleet().nodes[0].sequence < 100


def test_msgpack_and_json_are_equivalent(hub: ThreadedHub, token: str) -> None:
    body = msgspec.msgpack.encode(plain())
    assert send(hub, token, body, "application/msgpack").status == 200
    assert hub.fleet().nodes[0].sequence == 1


@pytest.mark.parametrize("with_length", [True, False], ids=["with a length", "chunked"])
def test_oversized_reports_are_refused(hub: ThreadedHub, token: str, with_length: bool) -> None:
    if with_length:
        response = send(hub, token, b" " * 10_000_000)
        assert (response.status, error_code(response)) == (413, "too_large")
    else:
        assert b"413" in in_pieces(hub, token, 10_000_000)
    assert_goes_on(hub, token)


def in_pieces(hub: ThreadedHub, token: str, size: int) -> bytes:
    """Send so much in chunks, without telling how much it will be; the first line that comes."""
    port = int(hub.url.rpartition(":")[2])
    head = (
        f"POST {REPORTS_PATH} HTTP/1.1\r\nHost: 127.0.0.1\r\nAuthorization: Bearer {token}\r\n"
        "Content-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n"
    )
    piece = b"10000\r\n" + b" " * 0x10000 + b"\r\n"
    with socket.create_connection(("127.0.0.1", port), timeout=60) as connection:
        connection.sendall(head.encode())
        with contextlib.suppress(ConnectionError):  # the server has closed the connection
            for _ in range(size // 0x10000):
                connection.sendall(piece)
        return connection.recv(64)


def test_nan_is_an_error_in_json_and_unknown_in_msgpack(hub: ThreadedHub, token: str) -> None:
    response = send(hub, token, msgspec.json.encode(plain()).replace(b":71.0", b":NaN"))
    assert (response.status, error_code(response)) == (400, "undecodable")
    packed = msgspec.msgpack.encode(plain(power_watts=float("nan")))
    assert send(hub, token, packed, "application/msgpack").status == 200
    (card,) = hub.fleet().nodes[0].gpus
    assert card.power_watts is None
    assert card.temperature_celsius == 33.0
    assert_goes_on(hub, token)


def test_negative_memory_becomes_unknown_and_never_free(hub: ThreadedHub) -> None:
    token = hub.join(ID, "gpu01")
    assert send(hub, token, msgspec.json.encode(plain(memory_used_bytes=-1))).status == 200
    (card,) = hub.fleet().nodes[0].gpus
    assert card.memory_used_bytes is None
    assert "memory_used_bytes" in card.unread
    assert card.verdict.state != "free"


def test_a_list_of_five_thousand_processes_is_truncated(hub: ThreadedHub, token: str) -> None:
    crowd = tuple(process(pid) for pid in range(1, 5_001))
    assert hub.report(now(gpu(0, processes=crowd), gpu(1), sequence=1), token=token).status == 200
    first, second = hub.fleet().nodes[0].gpus
    assert len(first.processes or ()) <= 1_000
    assert (first.verdict.state, second.verdict.state) == ("busy", "free")


def test_markup_and_terminal_codes_in_names_are_sanitised(hub: ThreadedHub, token: str) -> None:
    hostile = gpu(
        0, name=HOSTILE, processes=(process(user=HOSTILE, name=HOSTILE, command=HOSTILE),)
    )
    assert hub.report(now(hostile, sequence=1, name=HOSTILE), token=token).status == 200
    for path in FACES:
        body = hub.request("GET", path).body.decode()
        assert not set(body) & {"\x1b", "\r", "\u202e"}, path
    page = hub.request("GET", "/gpustat.html").body.decode()
    assert "<script" not in page
    assert "&lt;script" in page
    assert "\nalert" not in hub.request("GET", "/metrics").body.decode()
    for line in fleet_csv(hub.fleet()).splitlines():
        assert not line.startswith(("=", "+", "-", "@"))
        assert ',"=' not in line
        assert ",=" not in line


def test_a_name_of_invisible_characters_is_replaced_by_the_id(hub: ThreadedHub, token: str) -> None:
    for sequence, name in enumerate(("\u3164", "\u2800\ufe0f", "  "), 1):
        sent = now(gpu(0), sequence=sequence, name=name, labels={"rack": "r\U000e00411"})
        assert hub.report(sent, token=token).status == 200
        (node,) = hub.fleet().nodes
        assert (node.name, node.labels) == (ID, {"rack": "r 1"})


def test_a_wrong_token_is_refused_and_counted(hub: ThreadedHub, token: str) -> None:
    responses = [hub.report(now(sequence=1), token="fsmi_node_" + "x" * 43) for _ in range(12)]
    assert {each.status for each in responses} == {401, 429}
    assert error_code(responses[0]) == "bad_token"
    assert responses[0].headers["www-authenticate"] == "Bearer"
    assert int(responses[-1].headers["retry-after"]) > 0
    assert_goes_on(hub, token)  # an agent with a valid token is not delayed


def test_a_report_without_a_token_is_refused(hub: ThreadedHub, token: str) -> None:
    body = encode_report_json([now(sequence=5)], time.time())
    response = hub.request("POST", REPORTS_PATH, body, Content_Type="application/json")
    assert (response.status, error_code(response)) == (401, "unauthenticated")
    assert hub.fleet().nodes[0].sequence == 0


def test_a_node_cannot_report_for_another(hub: ThreadedHub, token: str) -> None:
    hub.join_and_report(now(node="gpu02"))
    response = hub.report(now(node="gpu02", sequence=7), token=token)
    assert (response.status, error_code(response)) == (403, "not_that_node")
    for someone in (hub.token("viewer"), hub.token("admin")):
        other = hub.report(now(sequence=7), token=someone)
        assert (other.status, error_code(other)) == (403, "forbidden")
    assert {node.sequence for node in hub.fleet().nodes} == {0}
    assert_goes_on(hub, token)


@pytest.mark.parametrize("role", ["viewer", "admin"])
def test_the_body_of_an_unauthorized_report_is_not_read(
    hub: ThreadedHub, role: Literal["viewer", "admin"]
) -> None:
    response = send(hub, hub.token(role), b"no report at all")
    assert (response.status, error_code(response)) == (403, "forbidden")
    assert b"only a node may do this" in response.body
    port = int(hub.url.rpartition(":")[2])
    head = (
        f"POST {REPORTS_PATH} HTTP/1.1\r\nHost: 127.0.0.1\r\n"
        f"Authorization: Bearer {hub.token(role)}\r\nContent-Length: 1000\r\n\r\n"
    )
    with socket.create_connection(("127.0.0.1", port), timeout=60) as connection:
        connection.sendall(head.encode())
        assert connection.recv(12) == b"HTTP/1.1 403"  # and not a byte of the report was sent


def test_a_batch_with_another_node_in_it_is_refused_whole(hub: ThreadedHub, token: str) -> None:
    response = hub.report(now(node="gpu02", sequence=6), now(sequence=7), token=token)
    assert (response.status, error_code(response)) == (400, "undecodable")
    assert [node.sequence for node in hub.fleet().nodes] == [0]


def test_a_batch_is_delivered_oldest_first(hub: ThreadedHub, token: str) -> None:
    batch = [now(sequence=number, taken_at=1000.0 + number) for number in range(1, 101)]
    assert hub.report(*batch, token=token).status == 200
    (node,) = hub.fleet().nodes
    assert (node.sequence, node.missing_reports) == (100, 0)
    assert node.age_seconds is not None
    assert node.age_seconds < 30  # by when it was sent, whatever the node's clock says


@pytest.mark.parametrize(
    "body, code",
    [
        (b"", "undecodable"),
        (b"{", "undecodable"),
        (b"[1,2,3]", "undecodable"),
        (b'{"version":1,"snapshots":[]}', "undecodable"),
        (b"[" * 100_000, "undecodable"),
        (b'{"version":99,"snapshots":[]}', "wrong_version"),
    ],
    ids=["nothing", "half", "another", "empty", "deep", "newer"],
)
def test_an_undecodable_report_is_refused_and_recorded_as_the_nodes_failure(
    hub: ThreadedHub, token: str, body: bytes, code: str
) -> None:
    response = send(hub, token, body)
    assert (response.status, error_code(response)) == (400, code)
    assert hub.fleet().nodes[0].trouble is not None
    assert_goes_on(hub, token)
    assert hub.fleet().nodes[0].trouble is None


def test_unsupported_methods_and_media_types_are_refused(hub: ThreadedHub, token: str) -> None:
    response = send(hub, token, b"x", "text/plain")
    assert (response.status, error_code(response)) == (415, "wrong_kind")
    response = hub.request("POST", REPORTS_PATH, b"x", token=token, Content_Encoding="gzip")
    assert (response.status, error_code(response)) == (415, "wrong_kind")
    response = hub.request("GET", REPORTS_PATH, token=token)
    assert (response.status, error_code(response)) == (405, "wrong_method")
    assert response.headers["allow"] == "POST"


def test_an_interrupted_report_is_not_a_failure_of_its_node(hub: ThreadedHub, token: str) -> None:
    port = int(hub.url.rpartition(":")[2])
    head = (
        f"POST {REPORTS_PATH} HTTP/1.1\r\nHost: 127.0.0.1\r\nAuthorization: Bearer {token}\r\n"
        "Content-Length: 1000\r\n\r\nhalf"
    )
    with socket.create_connection(("127.0.0.1", port), timeout=60) as connection:
        connection.sendall(head.encode())
    assert_goes_on(hub, token)
    assert hub.fleet().nodes[0].trouble is None
