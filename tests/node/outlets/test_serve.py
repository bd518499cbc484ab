"""The serve outlet over real sockets: access, host names, connection limits, responses."""

import os
import socket
from collections.abc import Iterator
from contextlib import ExitStack
from http.client import HTTPConnection
from pathlib import Path

import msgspec
import pytest
from msgspec.structs import replace

from fleet_smi.errors import UsageError
from fleet_smi.node import connection_limits
from fleet_smi.node.http_server import own_names
from fleet_smi.node.outlets.serve import ServeOutlet
from fleet_smi.wire.report import decode_report
from tests.builders import gpu, snapshot
from tests.machines import wait_until

TAKEN = snapshot(gpu(), sequence=7)
PATH = "/api/v1/report"


@pytest.fixture
def serving() -> Iterator[ServeOutlet]:
    outlet = ServeOutlet("127.0.0.1", 0)
    yield outlet
    outlet.close()


@pytest.fixture
def guarded() -> Iterator[ServeOutlet]:
    outlet = ServeOutlet("0.0.0.0", 0, token="the-agents-token")
    outlet.publish(TAKEN)
    yield outlet
    outlet.close()


def ask(outlet: ServeOutlet, path: str = PATH, **headers: str) -> tuple[int, str, bytes]:
    connection = HTTPConnection("127.0.0.1", outlet.port, timeout=60)
    try:
        connection.request("GET", path, headers=headers)
        answer = connection.getresponse()
        return answer.status, answer.headers["Content-Type"], answer.read()
    finally:
        connection.close()


def test_the_latest_report_is_served(serving: ServeOutlet) -> None:
    serving.publish(TAKEN)
    serving.publish(replace(TAKEN, sequence=8))
    status, kind, body = ask(serving)
    assert (status, kind) == (200, "application/msgpack")
    assert decode_report(body).snapshots == (replace(TAKEN, sequence=8),)


def test_the_report_is_json_when_json_is_accepted(serving: ServeOutlet) -> None:
    serving.publish(TAKEN)
    _, kind, body = ask(serving, Accept="application/json")
    assert kind == "application/json"
    assert decode_report(body, json=True).snapshots == (TAKEN,)


def test_before_the_first_sample_the_response_is_an_error(serving: ServeOutlet) -> None:
    status, _, body = ask(serving)
    assert status == 503
    assert msgspec.json.decode(body)["error"]["message"] == "no sample was taken yet"


def test_the_health_check_needs_no_token(guarded: ServeOutlet) -> None:
    assert ask(guarded, "/healthz")[0] == 200


@pytest.mark.parametrize("shown", ["", "Bearer wrong", "the-agents-token", "Bearer ü"])
def test_without_the_token_nothing_is_served(guarded: ServeOutlet, shown: str) -> None:
    status, _, body = ask(guarded, Authorization=shown)
    assert status == 401
    assert b"gpu01" not in body


def test_with_the_token_the_report_is_served(guarded: ServeOutlet) -> None:
    assert ask(guarded, Authorization="Bearer the-agents-token")[0] == 200


@pytest.mark.parametrize(
    ("host", "status"),
    [
        ("127.0.0.1:7071", 200),
        ("localhost", 200),
        ("[::1]:7071", 200),
        ("evil.example", 421),
        ("localhost.evil.example:7071", 421),
        ("", 421),
    ],
)
def test_a_name_that_is_not_this_machines_is_refused(
    serving: ServeOutlet, host: str, status: int
) -> None:
    serving.publish(TAKEN)
    assert ask(serving, Host=host)[0] == status


def test_an_unknown_path_is_not_found(serving: ServeOutlet) -> None:
    assert ask(serving, "/etc/passwd")[0] == 404


@pytest.mark.parametrize("host", ["", "0.0.0.0", "::", "192.0.2.1"])
def test_an_address_that_others_can_reach_needs_a_token(host: str) -> None:
    with pytest.raises(UsageError, match="--serve-token-file"):
        ServeOutlet(host, 0)


def test_an_open_server_needs_an_explicit_flag() -> None:
    outlet = ServeOutlet("0.0.0.0", 0, open_to_all=True)
    outlet.publish(TAKEN)
    assert ask(outlet)[0] == 200
    outlet.close()


def test_a_port_in_use_is_a_clear_error(serving: ServeOutlet) -> None:
    with pytest.raises(UsageError, match="Address already in use"):
        ServeOutlet("127.0.0.1", serving.port)


def test_idle_connections_do_not_block_others_for_ever(
    serving: ServeOutlet,
) -> None:
    serving.publish(TAKEN)
    with ExitStack() as stack:
        for _ in range(16):
            stack.enter_context(socket.create_connection(("127.0.0.1", serving.port)))
        with pytest.raises(OSError):
            while True:
                ask(serving)
    wait_until(lambda: answers(serving))


def test_an_address_at_its_connection_limit_blocks_no_other_address(
    serving: ServeOutlet,
) -> None:
    serving.publish(TAKEN)
    with ExitStack() as stack:
        for _ in range(16):
            stack.enter_context(stalled(serving, "127.0.0.2"))
        assert ask(serving)[0] == 200


def test_a_request_sent_byte_by_byte_is_cut_off(
    serving: ServeOutlet, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connection_limits, "_REQUEST_SECONDS", 0.3)
    with stalled(serving, "127.0.0.1") as guest:
        wait_until(lambda: is_cut_off_while_talking(guest))


@pytest.mark.parametrize(
    "start, repeated",
    [(b"GET /", b"a" * 4096), (b"GET / HTTP/1.1\r\n", b"a: " + b"a" * 4091 + b"\r\n")],
    ids=["URL", "headers"],
)
def test_a_head_over_64_kib_is_refused(guarded: ServeOutlet, start: bytes, repeated: bytes) -> None:
    with socket.create_connection(("127.0.0.1", guarded.port), 60) as guest:
        guest.sendall(start + repeated * 15)
        # Up to the limit exactly: what is sent but not read would reset the connection.
        guest.sendall(repeated[: (64 << 10) - len(start) - 15 * len(repeated)])
        response = b"".join(iter(lambda: guest.recv(4096), b""))
    assert response.startswith(b"HTTP/1.1 431")
    assert ask(guarded, "/healthz")[0] == 200


def test_keep_alive_is_longer_than_the_request_timeout(
    serving: ServeOutlet, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connection_limits, "_REQUEST_SECONDS", 0.2)
    connection = HTTPConnection("127.0.0.1", serving.port, timeout=60)
    try:
        for _ in range(2):
            connection.request("GET", "/healthz")
            first = connection.sock
            assert connection.getresponse().read() == b"ok\n"
            with pytest.raises(TimeoutError):  # stays connected and sends nothing more
                quiet(first)
    finally:
        connection.close()


def stalled(serving: ServeOutlet, address: str) -> socket.socket:
    """A client that starts a request and never finishes it."""
    guest = socket.create_connection(("127.0.0.1", serving.port), 5, source_address=(address, 0))
    guest.sendall(b"POST /get-status HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 4000\r\n\r\n")
    return guest


def is_cut_off_while_talking(guest: socket.socket) -> bool:
    guest.settimeout(0.05)
    try:
        guest.sendall(b"x")
        return guest.recv(1) == b""
    except TimeoutError:
        return False
    except OSError:
        return True


def quiet(connection: socket.socket) -> None:
    connection.settimeout(0.5)
    connection.recv(1)


def test_the_machines_own_name_under_a_strange_domain_is_refused() -> None:
    outlet = ServeOutlet("", 0, open_to_all=True)
    own = os.uname().nodename.lower()
    try:
        outlet.publish(TAKEN)
        assert ask(outlet, Host=f"{own}:7071")[0] == 200
        assert ask(outlet, Host=f"{own.partition('.')[0]}.evil.example:7071")[0] == 421
        # On every address of the machine, of IPv6 too.
        with socket.create_connection(("::1", outlet.port), timeout=60) as client:
            client.sendall(b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n")
            assert client.recv(1 << 16).startswith(b"HTTP/1.1 200")
    finally:
        outlet.close()


def test_the_names_of_a_machine_come_from_its_own_files(tmp_path: Path) -> None:
    node = os.uname().nodename.lower()
    short = node.partition(".")[0]
    assert own_names(str(tmp_path)) == {node, short}
    (tmp_path / "etc").mkdir()
    (tmp_path / "etc/resolv.conf").write_text("search lab.example.org. cs.example.org # x\n")
    (tmp_path / "etc/hosts").write_text(
        f"127.0.0.1 localhost\n127.0.1.1\t{short}.INTRA.example {short} login\n10.0.0.2 other\n"
    )
    domains = ("lab.example.org", "cs.example.org", "intra.example")
    expected = {node, short, "login", *(f"{short}.{domain}" for domain in domains)}
    assert own_names(str(tmp_path)) == expected


def test_a_dns_name_is_accepted_if_configured() -> None:
    outlet = ServeOutlet("127.0.0.1", 0, hosts=("gpu-a.example.org",))
    try:
        outlet.publish(TAKEN)
        assert ask(outlet, Host="GPU-A.example.org:7071")[0] == 200
        status, _, body = ask(outlet, Host="gpu-b.example.org")
        assert (status, b"agent.hosts" in body) == (421, True)
        assert ask(outlet, Host="gpu-a.example.org.evil.example")[0] == 421
    finally:
        outlet.close()


def answers(serving: ServeOutlet) -> bool:
    try:
        return ask(serving)[0] == 200
    except OSError:
        return False
