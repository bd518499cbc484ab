"""Security middleware: the check of the Host header, and the security headers."""

from collections.abc import Iterator

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fleet_smi.server.middleware import (
    AllowedHosts,
    Message,
    Receive,
    SecurityMiddleware,
    Send,
    security_headers,
)
from tests.server.loopback import send_raw_request, serve_app


async def hello(scope: Message, receive: Receive, send: Send) -> None:
    """An app that answers everything."""
    headers = [(b"x-own", b"1"), (b"content-length", b"5")]
    await send({"type": "http.response.start", "status": 200, "headers": headers})
    await send({"type": "http.response.body", "body": b"hello"})


@pytest.fixture(scope="module")
def port() -> Iterator[int]:
    hosts = AllowedHosts("127.0.0.1", ["Hub.Lab.Example", "gpus.example"])
    with serve_app(SecurityMiddleware(hello, hosts, tls=False)) as number:
        yield number


@pytest.mark.parametrize(
    "host",
    [
        "localhost",
        "LOCALHOST:7070",
        "localhost.",
        "127.0.0.1",
        "127.0.0.1:80",
        "127.8.8.8",
        "[::1]",
        "[::1]:7070",
        "hub.lab.example:7070",
        "HUB",
        "gpus.example",
    ],
)
def test_the_hub_answers_to_its_own_names(port: int, host: str) -> None:
    assert send_raw_request(port, f"Host: {host}").body == b"hello"


@pytest.mark.parametrize(
    "host",
    [
        "evil.example",
        "localhost.evil.example",
        "127.0.0.1.evil.example",
        "hub.lab.example.evil.example",
        "evil.example:7070",
        "192.168.1.5",
        "0.0.0.0",
        "[fe80::1]",
        "localhost:7070:7070",
        "localhost@evil.example",
        "",
        "x" * 5000,
    ],
)
def test_other_host_names_are_refused(port: int, host: str) -> None:
    response = send_raw_request(port, f"Host: {host}")
    assert response.status == 421
    error = msgspec.json.decode(response.body)["error"]
    assert error["code"] == "unknown_host"
    assert "hub.hosts" in error["message"]
    assert "evil" not in error["message"]


def test_a_request_must_have_one_host_header(port: int) -> None:
    for headers in ((), ("Host: localhost", "Host: localhost")):
        response = send_raw_request(port, *headers)
        assert response.status == 400
        assert b"hello" not in response.body


def test_any_ip_address_is_accepted_by_a_wildcard_listener() -> None:
    for bind in ("", "0.0.0.0", "::"):
        hosts = AllowedHosts(bind, ["hub"])
        assert hosts.check([(b"host", b"192.168.1.5:7070")]) is None
        assert hosts.check([(b"host", b"[2001:db8::5]:7070")]) is None
        assert hosts.check([(b"host", b"evil.example")]) is not None


def test_the_listening_address_is_accepted() -> None:
    hosts = AllowedHosts("10.1.2.3")
    assert hosts.check([(b"host", b"10.1.2.3:7070")]) is None
    assert hosts.check([(b"host", b"10.1.2.4:7070")]) is not None
    assert hosts.check([(b"host", b"10:7070")]) is not None


@given(st.binary(max_size=80))
def test_arbitrary_host_headers_are_refused(host: bytes) -> None:
    hosts = AllowedHosts("10.1.2.3", ["hub.lab.example"])
    if hosts.check([(b"host", host)]) is None:
        name = host.decode("latin-1").lower()
        assert name.startswith(("localhost", "127.", "10.1.2.3", "hub", "[", "::1", " ", "\t"))


def test_the_cache_of_accepted_hosts_is_bounded() -> None:
    hosts = AllowedHosts("127.0.0.1")
    for number in range(10_000):
        assert hosts.check([(b"host", f"localhost:{number}".encode())]) is None
    assert len(hosts._accepted) == 64


@pytest.mark.parametrize("host", ["localhost", "evil.example"])
def test_every_response_has_the_security_headers(port: int, host: str) -> None:
    headers = send_raw_request(port, f"Host: {host}", "Origin: https://evil.example").headers
    policy = headers["content-security-policy"]
    assert "default-src 'none'" in policy
    assert "frame-ancestors 'none'" in policy
    assert "unsafe" not in policy
    assert "*" not in policy
    assert headers["x-content-type-options"] == "nosniff"
    assert headers["referrer-policy"] == "no-referrer"
    assert headers["cross-origin-opener-policy"] == "same-origin"
    assert headers["cross-origin-resource-policy"] == "same-origin"
    assert "strict-transport-security" not in headers


def test_headers_of_the_app_are_preserved(port: int) -> None:
    assert send_raw_request(port, "Host: localhost").headers["x-own"] == "1"


def test_only_tls_responses_have_hsts() -> None:
    names = {name for name, _ in security_headers(tls=True)}
    assert names - {name for name, _ in security_headers(tls=False)} == {
        b"strict-transport-security"
    }
