"""The ASGI application: common error shape, validation, and bugs that affect one request only."""

import asyncio
import socket
from collections.abc import Iterator

import pytest

from fleet_smi.server.app import load_endpoints
from tests.machines import wait_until
from tests.server.loopback import send_raw_request
from tests.server.threaded_hub import ThreadedHub, error_code


@pytest.fixture(scope="module")
def hub(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ThreadedHub]:
    with ThreadedHub(tmp_path_factory.mktemp("hub")) as running:
        yield running


def test_changes_always_need_more_than_viewing_rights() -> None:
    for endpoint in load_endpoints():
        changes = endpoint.method != "GET" and endpoint.path not in (
            "/api/v1/join",
            "/api/v1/session",
        )
        assert endpoint.required_action != "view" or not changes, endpoint.path


@pytest.mark.parametrize(
    "method, path, status, code",
    [
        ("GET", "/nothing", 404, "not_found"),
        ("GET", "/api/v1/fleet/", 404, "not_found"),
        ("GET", "/api/v2/fleet", 404, "not_found"),
        ("GET", "/../etc/passwd", 404, "not_found"),
        ("PUT", "/api/v1/fleet", 405, "wrong_method"),
        ("POST", "/", 405, "wrong_method"),
        ("TRACE", "/metrics", 405, "wrong_method"),
        ("OPTIONS", "/api/v1/fleet", 405, "wrong_method"),
    ],
)
def test_not_found_and_wrong_method_have_the_common_error_shape(
    hub: ThreadedHub, method: str, path: str, status: int, code: str
) -> None:
    response = hub.request(method, path)
    assert (response.status, error_code(response)) == (status, code)
    assert ("allow" in response.headers) == (status == 405)
    assert response.headers["x-content-type-options"] == "nosniff"
    assert "access-control-allow-origin" not in response.headers


def test_a_foreign_host_name_is_refused(hub: ThreadedHub) -> None:
    port = int(hub.url.rpartition(":")[2])
    for path in ("/", "/api/v1/reports", "/metrics", "/healthz"):
        response = send_raw_request(port, "Host: evil.example", request=f"GET {path} HTTP/1.1")
        assert response.status == 421
        assert b"unknown_host" in response.body
    assert send_raw_request(port, "Host: 127.0.0.1", "Host: evil.example").status == 400


def test_a_body_must_be_json_and_say_so(hub: ThreadedHub) -> None:
    admin, path = hub.token("admin"), "/api/v1/nodes/x"
    for kind in ("text/plain", "application/x-www-form-urlencoded", ""):
        response = hub.request("PATCH", path, b"{}", token=admin, Content_Type=kind)
        assert (response.status, error_code(response)) == (415, "not_json")
    response = hub.request(
        "PATCH", path, b"x" * 70_000, token=admin, Content_Type="application/json"
    )
    assert (response.status, error_code(response)) == (413, "too_large")


def test_a_bug_is_logged_and_not_shown_to_the_client(
    hub: ThreadedHub, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(_: object) -> None:
        raise ZeroDivisionError("the secret of the house")

    with monkeypatch.context() as patched:
        patched.setattr(hub.server.hub.fleet, "nodes", broken)
        patched.setattr(hub.server.credentials, "identify_token", broken)
        looked = hub.request("GET", "/api/v1/fleet")
        reported = hub.request("POST", "/api/v1/reports", b"x", token="any")
    # A report that finds a bug is not to be sent again.
    for response, status in ((looked, 500), (reported, 422)):
        assert (response.status, error_code(response)) == (status, "bug")
        assert b"secret" not in response.body
    assert caplog.text.count("ZeroDivisionError: the secret of the house") == 2
    assert hub.request("GET", "/api/v1/fleet").status == 200


def test_a_body_that_is_cut_short_is_not_a_bug(
    hub: ThreadedHub, caplog: pytest.LogCaptureFixture
) -> None:
    port = int(hub.url.rpartition(":")[2])
    with socket.create_connection(("127.0.0.1", port), timeout=60) as connection:
        connection.sendall(
            b"POST /api/v1/session HTTP/1.1\r\nHost: 127.0.0.1\r\n"
            b"Content-Type: application/json\r\nContent-Length: 100\r\n\r\n{"
        )
        wait_until(lambda: is_handling_a_request(hub))
    wait_until(lambda: not is_handling_a_request(hub))
    assert "bug" not in caplog.text


def is_handling_a_request(hub: ThreadedHub) -> bool:
    return any("run_asgi" in repr(task) for task in asyncio.all_tasks(hub._loop))


def test_a_head_request_gets_no_body(hub: ThreadedHub) -> None:
    port = int(hub.url.rpartition(":")[2])
    response = send_raw_request(port, "Host: localhost", request="HEAD / HTTP/1.1")
    assert (response.status, response.body) == (200, b"")
    assert int(response.headers["content-length"]) > 0
