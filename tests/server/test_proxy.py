"""The hub below a path of a proxy, with the configurations of the docs in real proxies."""

import re
import shutil
import socket
import subprocess
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import msgspec
import pytest

from fleet_smi.client.connection import HubConnection
from fleet_smi.client.hub import HubClient
from fleet_smi.errors import DeliveryError
from fleet_smi.node.credential_file import CredentialFile
from fleet_smi.node.hub_session import HubSession
from fleet_smi.server.page_files import page_files
from fleet_smi.wire.report import encode_snapshot
from tests.builders import gpu
from tests.machines import require_program, wait_until
from tests.server.routes.snapshots import snapshot_now
from tests.server.threaded_hub import ThreadedHub

DOCS = Path(__file__).parents[2] / "docs/security.md"
PASSWORD = "correct horse battery"


def documented(language: str, hub: ThreadedHub) -> str:
    """The block of the docs in this language, for a hub at another port."""
    (block,) = re.findall(rf"```{language}\n(.*?)```", DOCS.read_text(), re.DOTALL)
    return str(block).replace("127.0.0.1:7070", hub.url.removeprefix("http://"))


def nginx(folder: Path, port: int, hub: ThreadedHub) -> list[str]:
    """Write a configuration of nginx around the documented block; return the command."""
    names = ("client_body", "proxy", "fastcgi", "uwsgi", "scgi")
    paths = "".join(f"{name}_temp_path {folder}/{name};\n" for name in names)
    (folder / "nginx.conf").write_text(
        f"daemon off; master_process off; pid {folder}/pid; error_log {folder}/log;\n"
        f"events {{}}\nhttp {{ access_log off; {paths}\n"
        f"server {{ listen 127.0.0.1:{port};\n{documented('nginx', hub)} }} }}\n"
    )
    return [shutil.which("nginx") or "nginx", "-p", str(folder), "-c", "nginx.conf"]


def caddy(folder: Path, port: int, hub: ThreadedHub) -> list[str]:
    """Write a configuration of Caddy around the documented block; return the command."""
    file = folder / "Caddyfile"
    file.write_text(
        "{\nadmin off\nauto_https off\n}\n"
        f"http://127.0.0.1:{port} {{\n{documented('caddy', hub)}}}\n"
    )
    return ["caddy", "run", "--adapter", "caddyfile", "--config", str(file)]


@contextmanager
def running(command: list[str], folder: Path, url: str) -> Iterator[None]:
    with (folder / "output").open("wb") as output:
        proxy = subprocess.Popen(
            command, env={"HOME": str(folder), "PATH": "/usr/bin"}, stdout=output, stderr=output
        )
    try:
        wait_until(lambda: proxy.poll() is not None or answers(url))
        assert proxy.poll() is None, (folder / "output").read_text()
        yield
    finally:
        proxy.terminate()
        proxy.wait(60)


def answers(url: str) -> bool:
    with closing(HubConnection(url)) as connection:
        try:
            return connection.request("GET", "/healthz").status == 200
        except DeliveryError:
            return False


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port: int = listener.getsockname()[1]
        return port


@pytest.mark.parametrize("configure", [nginx, caddy])
def test_page_api_and_agents_work_below_a_path_of_a_proxy(
    tmp_path: Path, configure: Callable[[Path, int, ThreadedHub], list[str]]
) -> None:
    require_program(configure.__name__)
    port = free_port()
    origin = f"http://127.0.0.1:{port}"
    trusted = "127.0.0.1/32"
    with ThreadedHub(tmp_path / "hub", hub__base_path="/gpus", hub__trusted_proxies=trusted) as hub:
        hub.server.credentials.users.add("alice", PASSWORD, "admin")
        hub.server.credentials.refresh()
        with running(configure(tmp_path, port, hub), tmp_path, f"{origin}/gpus"):
            check_page(origin)
            check_login_and_join_line(hub, origin, tmp_path)
            viewer = HubClient(f"{origin}/gpus", token=hub.token("viewer"))
            with closing(viewer):
                assert [node.name for node in viewer.fleet().nodes] == ["gpu01"]


def check_page(origin: str) -> None:
    """Check that the page and what it names is below the path, also without the last slash."""
    with closing(HubConnection(origin)) as browser:
        html = {"Accept": "text/html"}
        moved = browser.request("GET", "/gpus", headers=html)
        assert moved.status in (301, 302, 308)
        assert moved.headers["location"].endswith("/gpus/")
        page = browser.request("GET", "/gpus/", headers=html)
        assert page.status == (200 if page_files() else 401)
        for path in re.findall(r'(?:src|href)="(\./[^"?]+)"', page.body.decode()):
            assert browser.request("GET", f"/gpus/{path[2:]}").status == 200, path


def check_login_and_join_line(hub: ThreadedHub, origin: str, folder: Path) -> None:
    """Log in as a browser does, get the join line, and report as an agent that was given it."""
    headers = {"Origin": origin, "Content-Type": "application/json"}
    with closing(HubConnection(origin)) as browser:
        login = msgspec.json.encode({"name": "alice", "password": PASSWORD})
        done = browser.request("POST", "/gpus/api/v1/session", login, headers)
        assert (done.status, "Path=/gpus/;" in done.headers["set-cookie"]) == (204, True)
        headers["Cookie"] = done.headers["set-cookie"].partition(";")[0]
        made = browser.request("POST", "/gpus/api/v1/join-command", b"{}", headers)
        words = msgspec.json.decode(made.body)["line"].split()
    assert words[6] == f"{origin}/gpus"
    taken = snapshot_now("gpu01", gpu(0))
    with closing(HubConnection(words[6])) as connection:
        session = HubSession(connection, CredentialFile(str(folder / "agent")), words[1])
        session.send_report([encode_snapshot(taken)], taken.node_id, taken.name)
    assert hub.server.credentials.has_node_credential(taken.node_id)


def test_a_proxy_may_remove_the_path(tmp_path: Path) -> None:
    with ThreadedHub(tmp_path, hub__base_path="/gpus") as hub:
        for path in ("/api/v1/fleet", "/gpus/api/v1/fleet"):
            assert hub.request("GET", path).status == 200
        assert hub.request("GET", "/gpusapi/v1/fleet").status == 404
        token = hub.token("admin")
        line = hub.request_json("POST", "/api/v1/join-command", {}, token=token)
        assert f"--to {hub.url}/gpus ".encode() in line.body
