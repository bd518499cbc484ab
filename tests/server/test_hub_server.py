"""The hub as a server: what it needs to start, what it leaves behind, what survives."""

import os
import socket
import threading
from contextlib import closing
from pathlib import Path

import msgspec
import pytest

from fleet_smi.client.connection import HubConnection
from fleet_smi.errors import StateError, UsageError
from fleet_smi.hub.state_folder import ADMIN_TOKEN_FILE, read_local_admin_token
from tests.builders import gpu
from tests.machines import wait_until
from tests.server.routes.snapshots import snapshot_now
from tests.server.threaded_hub import ThreadedHub


def held() -> tuple[int, int]:
    return threading.active_count(), len(list(Path("/proc/self/fd").iterdir()))


def test_the_end_leaves_no_thread_descriptor_or_admin_token(tmp_path: Path) -> None:
    def life() -> None:
        with ThreadedHub(tmp_path) as hub:
            hub.request("GET", "/")
            assert (tmp_path / ADMIN_TOKEN_FILE).stat().st_mode & 0o777 == 0o600
        assert not (tmp_path / ADMIN_TOKEN_FILE).exists()

    life()
    before = held()
    life()
    wait_until(lambda: held() == before)


def test_a_restart_remembers_nodes_credentials_and_names(tmp_path: Path) -> None:
    with ThreadedHub(tmp_path) as hub:
        token, admin = hub.join_and_report(snapshot_now("gpu01", gpu(0))), hub.token("admin")
        hub.request_json("PATCH", "/api/v1/nodes/id-of-gpu01", {"name": "big-one"}, token=admin)
        first = hub.server.hub.instance_id
    with ThreadedHub(tmp_path) as again:
        assert [node.name for node in again.fleet().nodes] == ["big-one"]
        assert again.server.hub.instance_id != first
        assert again.report(snapshot_now("gpu01", gpu(0), sequence=1), token=token).status == 200
        assert again.fleet().nodes[0].sequence == 1


def test_two_hubs_cannot_share_a_state_folder(tmp_path: Path) -> None:
    with ThreadedHub(tmp_path) as hub:
        with pytest.raises(StateError, match="another hub runs"):
            ThreadedHub(tmp_path)
        assert read_local_admin_token(tmp_path) is not None
        assert hub.request("GET", "/healthz").status == 200


def test_a_port_in_use_is_an_error_and_leaves_nothing_behind(tmp_path: Path) -> None:
    # Not the port of another hub: that would start threads of its own meanwhile.
    with socket.create_server(("127.0.0.1", 0)) as taken:
        threads, (_, descriptors) = set(threading.enumerate()), held()
        with pytest.raises(UsageError, match=r"cannot listen on .* in use"):
            ThreadedHub(tmp_path, hub__listen=f"127.0.0.1:{taken.getsockname()[1]}")
        wait_until(lambda: set(threading.enumerate()) <= threads)
        wait_until(lambda: held()[1] <= descriptors)
        assert not (tmp_path / ADMIN_TOKEN_FILE).exists()


def test_a_hub_that_nobody_may_view_runs_and_says_what_to_do(tmp_path: Path) -> None:
    with ThreadedHub(tmp_path, hub__listen="0.0.0.0:0") as hub:
        assert "nobody has access to this hub yet" in (hub.server.warning or "")
        for path in ("/", "/api/v1/fleet", "/metrics", "/api/v1/stream"):
            refused = hub.request("GET", path)
            assert refused.status == 401
            error = msgspec.json.decode(refused.body)["error"]
            assert error["code"] == "no_viewers"
            assert "`fleet-smi hub token add --role viewer`" in error["message"]
        page = hub.request("GET", "/", Accept="text/html")
        assert (page.status, page.headers["content-type"][:9]) == (401, "text/html")
        assert b"fleet-smi hub user add NAME" in page.body
        assert hub.request("GET", "/healthz").status == 200
        # As another process does: the hub opens without a restart.
        token = hub.server.credentials.tokens.add("viewer").secret
        wait_until(lambda: hub.request("GET", "/api/v1/fleet", token=token).status == 200)
        assert b"unauthenticated" in hub.request("GET", "/api/v1/fleet").body
        assert b"nobody has access" not in hub.request("GET", "/", Accept="text/html").body


def test_a_join_token_lets_nobody_view(tmp_path: Path) -> None:
    with ThreadedHub(tmp_path, hub__listen="0.0.0.0:0") as hub:
        hub.server.credentials.issue_token("join")
        assert b"no_viewers" in hub.request("GET", "/api/v1/fleet").body


def test_an_open_hub_needs_no_credential(tmp_path: Path) -> None:
    with ThreadedHub(tmp_path, hub__listen="0.0.0.0:0", hub__insecure_open=True) as hub:
        assert hub.server.warning is None
        assert hub.request("GET", "/api/v1/fleet").status == 200
    assert not (tmp_path / ADMIN_TOKEN_FILE).exists()


def test_a_token_created_by_another_process_is_valid_within_moments(tmp_path: Path) -> None:
    with ThreadedHub(tmp_path) as hub:
        known, path = hub.server.credentials, "/api/v1/session"
        issued = known.tokens.add("viewer")  # as another process does
        wait_until(lambda: known.identify_token(issued.secret) is not None)
        assert hub.request("GET", path, token=issued.secret).status == 200
        known.tokens.revoke(issued.id)
        wait_until(lambda: known.identify_token(issued.secret) is None)
        assert hub.request("GET", path, token=issued.secret).status == 401


def test_reading_the_state_folder_makes_a_local_admin(tmp_path: Path) -> None:
    with ThreadedHub(tmp_path) as hub:
        token = read_local_admin_token(tmp_path)
        assert hub.request("DELETE", "/api/v1/nodes/nobody", token=token).status == 404
    with ThreadedHub(tmp_path) as again:
        assert again.request("GET", "/api/v1/session", token=token).status == 401


def test_a_self_signed_certificate_survives_a_restart(tmp_path: Path) -> None:
    prints = set()
    for _ in range(2):
        with ThreadedHub(tmp_path, hub__tls="self-signed") as hub:
            prints.add(hub.server.fingerprint)
            assert hub.url.startswith("https://")
            connection = HubConnection(hub.url, fingerprint=hub.server.fingerprint)
            with closing(connection):
                response = connection.request("GET", "/healthz")
            assert (response.status, "strict-transport-security" in response.headers) == (200, True)
    assert len(prints) == 1


def test_the_state_folder_is_private(tmp_path: Path) -> None:
    with ThreadedHub(tmp_path / "state"):
        assert (tmp_path / "state").stat().st_mode & 0o077 == 0
        for path in (tmp_path / "state").iterdir():
            assert path.stat().st_mode & 0o077 == 0, path
    open_to_all = tmp_path / "open"
    open_to_all.mkdir()
    os.chmod(open_to_all, 0o777)  # noqa: PTH101
    with pytest.raises(StateError, match="others may write"):
        ThreadedHub(open_to_all)
