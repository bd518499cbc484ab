"""The connection to a hub: keep-alive, retries, and one message for each failure."""

import gzip
import socket

import pytest

from fleet_smi.client import connection
from fleet_smi.client.connection import HubConnection, parse_hub_url
from fleet_smi.errors import DeliveryError, Undecodable, Unreachable, UsageError
from tests.client.scripted_server import ScriptedServer, http_response
from tests.ports import free_port


def error_of(url: str, **options: object) -> DeliveryError:
    failing = HubConnection(url, **options)  # type: ignore[arg-type]
    with pytest.raises(DeliveryError) as caught:
        failing.request("GET", "/")
    assert str(caught.value).startswith(f"hub {failing.url}")
    assert "\n" not in str(caught.value)
    return caught.value


def test_a_refused_connection_has_a_remedy() -> None:
    error = error_of(f"http://127.0.0.1:{free_port()}")
    assert isinstance(error, Unreachable)
    assert "connection refused; is `fleet-smi hub` running?" in str(error)


def test_a_port_that_the_url_does_not_name_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connection, "DEFAULT_PORT", port := free_port())
    error = error_of("http://127.0.0.1/gpus")
    assert f"hub http://127.0.0.1/gpus, port {port}: connection refused" in str(error)


@pytest.mark.parametrize("host", ["no-such-machine.invalid", f"{'a' * 70}.com", "a..b"])
def test_an_unresolvable_name_is_an_error(host: str) -> None:
    error = error_of(f"http://{host}:7070")
    assert isinstance(error, Unreachable)
    assert "the host name cannot be resolved" in str(error)


def test_a_silent_server_times_out() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        error = error_of(f"http://127.0.0.1:{listener.getsockname()[1]}", timeout_seconds=0.1)
    assert isinstance(error, Unreachable)
    assert "did not answer in 0.1 s" in str(error)


def test_a_request_that_was_given_up_is_not_sent_later() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        hub = HubConnection(f"http://127.0.0.1:{listener.getsockname()[1]}", timeout_seconds=1.0)
        with pytest.raises(Unreachable):
            hub.request("POST", "/", b"x" * (16 << 20))
        # Not the end of the connection, before which all of the request would arrive.
        accepted, _ = listener.accept()
        with accepted, pytest.raises(ConnectionResetError):
            while accepted.recv(1 << 20):
                pass


def test_another_protocol_is_an_error() -> None:
    with ScriptedServer([b"SSH-2.0-OpenSSH_9.2p1\r\n\r\n"]) as peer:
        error = error_of(peer.url)
    assert isinstance(error, Undecodable)
    assert "(the response is not HTTP): check the port and http/https" in str(error)


def test_a_truncated_response_is_an_error() -> None:
    with ScriptedServer([b"HTTP/1.1 200 OK\r\nContent-Length: 99\r\n\r\nhalf"]) as peer:
        assert isinstance(error_of(peer.url), Unreachable)


@pytest.mark.parametrize(
    "body",
    [b"not gzip", gzip.compress(b"hello")[:-9], b""],
    ids=["not gzip", "cut short", "nothing"],
)
def test_invalid_gzip_is_an_error(body: bytes) -> None:
    with ScriptedServer([http_response(body, "200 OK", "Content-Encoding: gzip")]) as peer:
        assert isinstance(error_of(peer.url), Undecodable)


@pytest.mark.parametrize(
    "response",
    [
        http_response(bytes(1001)),
        http_response(gzip.compress(bytes(1001)), "200 OK", "Content-Encoding: gzip"),
    ],
    ids=["plain", "packed"],
)
def test_an_oversized_response_is_an_error(response: bytes) -> None:
    with (
        ScriptedServer([response]) as peer,
        pytest.raises(Undecodable, match="the response is too large"),
    ):
        HubConnection(peer.url).request("GET", "/", max_bytes=1000)


def test_a_gzipped_response_is_decompressed() -> None:
    packed = gzip.compress(b"hello")
    with ScriptedServer([http_response(packed, "200 OK", "Content-Encoding: gzip")]) as peer:
        connection = HubConnection(peer.url)
        assert connection.request("GET", "/").body == b"hello"
        connection.close()


def test_one_connection_serves_many_requests() -> None:
    with ScriptedServer([http_response(), http_response()]) as peer:
        connection = HubConnection(f"{peer.url}/base/", token="secret")
        assert [connection.request("GET", "/x").status for _ in range(2)] == [200, 200]
        connection.close()
    assert len(peer.requests) == 2
    assert peer.requests[0].startswith(b"GET /base/x HTTP/1.1\r\n")
    assert b"Authorization: Bearer secret\r\n" in peer.requests[0]


def test_a_stale_connection_is_reopened() -> None:
    with ScriptedServer([http_response()], [http_response(b"again")]) as peer:
        connection = HubConnection(peer.url)
        connection.request("GET", "/")
        assert connection.request("GET", "/").body == b"again"
        connection.close()


def test_a_new_connection_that_breaks_is_not_retried() -> None:
    with ScriptedServer([b""], [b""]) as peer:
        error_of(peer.url)
        assert len(peer.requests) == 1


def test_redirects_are_not_followed() -> None:
    with (
        ScriptedServer([http_response()]) as elsewhere,
        ScriptedServer([http_response(b"", "302 Found", f"Location: {elsewhere.url}/")]) as peer,
    ):
        connection = HubConnection(peer.url, token="secret")
        assert connection.request("GET", "/").status == 302
        connection.close()
    assert elsewhere.requests == []


@pytest.mark.parametrize(
    "url, address",
    [
        ("http://hub", ("http", "hub", 7070, "")),
        ("hub:80", ("http", "hub", 80, "")),
        ("https://hub:443/fleet/", ("https", "hub", 443, "/fleet")),
        ("http://[::1]:7070", ("http", "::1", 7070, "")),
    ],
)
def test_hub_urls_are_parsed(url: str, address: tuple[str, str, int, str]) -> None:
    assert parse_hub_url(url) == address


@pytest.mark.parametrize(
    "url", ["", "http://", "ftp://hub", "http://a:b@hub", "http://hub?x=1", "http://[::1", "h:x"]
)
def test_an_invalid_hub_url_is_refused(url: str) -> None:
    with pytest.raises(UsageError, match="is not the URL of a hub"):
        HubConnection(url)
