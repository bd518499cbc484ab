"""The hub below a path of a proxy, with the configurations of the docs in real proxies."""

import re
import shlex
import shutil
import subprocess
from base64 import b64encode
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import NamedTuple

import msgspec
import pytest

from fleet_smi.client.connection import HubConnection, Response
from fleet_smi.client.hub import HubClient
from fleet_smi.errors import DeliveryError
from fleet_smi.node.credential_file import CredentialFile
from fleet_smi.node.hub_session import HubSession
from fleet_smi.server.page_files import page_files
from fleet_smi.server.tls import ensure_self_signed
from fleet_smi.wire.report import encode_snapshot
from tests.builders import gpu
from tests.machines import require_program, wait_until
from tests.ports import free_port
from tests.server.routes.snapshots import snapshot_now
from tests.server.threaded_hub import ThreadedHub

DOCS = Path(__file__).parents[2] / "docs/security.md"
PASSWORD = "correct horse battery"
# Of the password, with the least cost: that of `caddy hash-password` takes seconds per request.
QUICK_BCRYPT = "$2b$04$xzJIeXVV1yYgYtgbXmBSjOg2cc8dQqriDa4HlLzPF01H3VMnEdRxi"
BASIC = {"Authorization": f"Basic {b64encode(f'alice:{PASSWORD}'.encode()).decode()}"}


class ProxySetup(NamedTuple):
    """Where a proxy listens; with a certificate it does TLS and asks for a login."""

    folder: Path
    port: int
    hub: ThreadedHub
    certificate: Path | None = None

    def documented(self, language: str) -> list[str]:
        """The blocks of the docs in this language, for a hub at another port."""
        blocks = re.findall(rf"```{language}\n(.*?)```", DOCS.read_text(), re.DOTALL)
        hub_address = self.hub.url.removeprefix("http://")
        return [block.replace("127.0.0.1:7070", hub_address) for block in blocks]


def nginx(setup: ProxySetup) -> list[str]:
    """Write a configuration of nginx around the documented blocks; return the command."""
    folder, certificate = setup.folder, setup.certificate
    plain, login_map, login = setup.documented("nginx")
    names = ("client_body", "proxy", "fastcgi", "uwsgi", "scgi")
    outer = "".join(f"{name}_temp_path {folder}/{name};\n" for name in names)
    inner = f"listen 127.0.0.1:{setup.port}{' ssl' if certificate else ''};\n"
    if certificate is None:
        inner += plain
    else:
        (folder / "htpasswd").write_text(f"alice:{{PLAIN}}{PASSWORD}\n")
        outer += login_map
        inner += f"ssl_certificate {certificate}; ssl_certificate_key {certificate};\n"
        lines_above = plain.split("\n", 1)[1].rpartition("}")[0]
        inner += login.replace("# and the lines from above", lines_above).replace(
            "/etc/nginx/gpus.htpasswd", f"{folder}/htpasswd"
        )
    (folder / "nginx.conf").write_text(
        f"daemon off; master_process off; pid {folder}/pid; error_log {folder}/log;\n"
        f"events {{}}\nhttp {{ access_log off; {outer}\nserver {{ {inner} }} }}\n"
    )
    return [shutil.which("nginx") or "nginx", "-p", str(folder), "-c", "nginx.conf"]


def caddy(setup: ProxySetup) -> list[str]:
    """Write a configuration of Caddy around the documented blocks; return the command."""
    plain, login = setup.documented("caddy")
    if setup.certificate is None:
        site = f"http://127.0.0.1:{setup.port} {{\n{plain}}}\n"
    else:
        tls = f"tls {setup.certificate} {setup.certificate}\n"
        site = f"https://127.0.0.1:{setup.port} {{\n{tls}{with_caddy_login(login)}}}\n"
    file = setup.folder / "Caddyfile"
    file.write_text("{\nadmin off\nauto_https off\n}\n" + site)
    return ["caddy", "run", "--adapter", "caddyfile", "--config", str(file)]


def with_caddy_login(block: str) -> str:
    done = subprocess.run(["caddy", "version"], capture_output=True, text=True, check=True)
    version = re.search(r"(\d+)\.(\d+)", done.stdout)
    assert version is not None
    is_old = tuple(map(int, version.groups())) < (2, 8)
    block = block.replace("HASH", QUICK_BCRYPT)
    return block.replace("basic_auth", "basicauth") if is_old else block


Configure = Callable[[ProxySetup], list[str]]


@contextmanager
def running(command: list[str], folder: Path, url: str, pin: str | None = None) -> Iterator[None]:
    with (folder / "output").open("wb") as output:
        proxy = subprocess.Popen(
            command, env={"HOME": str(folder), "PATH": "/usr/bin"}, stdout=output, stderr=output
        )
    try:
        wait_until(lambda: proxy.poll() is not None or answers(url, pin))
        assert proxy.poll() is None, (folder / "output").read_text()
        yield
    finally:
        proxy.terminate()
        proxy.wait(60)


def answers(url: str, pin: str | None) -> bool:
    with closing(HubConnection(url, fingerprint=pin)) as connection:
        try:
            return connection.request("GET", "/healthz").status in (200, 401)
        except DeliveryError:
            return False


@pytest.mark.parametrize("configure", [nginx, caddy])
def test_page_api_and_agents_work_below_a_path_of_a_proxy(
    tmp_path: Path, configure: Configure
) -> None:
    require_program(configure.__name__)
    port = free_port()
    origin = f"http://127.0.0.1:{port}"
    trusted = "127.0.0.1/32"
    with ThreadedHub(tmp_path / "hub", hub__base_path="/gpus", hub__trusted_proxies=trusted) as hub:
        hub.server.credentials.users.add("alice", PASSWORD, "admin")
        hub.server.credentials.refresh()
        setup = ProxySetup(tmp_path, port, hub)
        with running(configure(setup), tmp_path, f"{origin}/gpus"):
            check_page(origin)
            check_login_and_join_line(hub, origin, tmp_path)
            viewer = HubClient(f"{origin}/gpus", token=hub.token("viewer"))
            with closing(viewer):
                assert [node.name for node in viewer.fleet().nodes] == ["gpu01"]


class LoginProxy(NamedTuple):
    """A hub, and the proxy in front of it."""

    hub: ThreadedHub
    url: str
    pin: str

    def get(self, path: str, headers: dict[str, str]) -> Response:
        """Send one request through the proxy."""
        with closing(HubConnection(self.url, fingerprint=self.pin)) as connection:
            return connection.request("GET", path, headers=headers)

    def post(self, path: str, body: bytes, headers: dict[str, str]) -> Response:
        """Send one request with a JSON body through the proxy."""
        headers = {"Content-Type": "application/json", **headers}
        with closing(HubConnection(self.url, fingerprint=self.pin)) as connection:
            return connection.request("POST", path, body, headers)


@pytest.fixture(params=[nginx, caddy])
def login_proxy(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[LoginProxy]:
    """A hub behind a proxy with TLS that asks for a login."""
    require_program(request.param.__name__)
    port, own = free_port(), ensure_self_signed(tmp_path / "proxy", ["127.0.0.1"])
    with ThreadedHub(
        tmp_path / "hub",
        hub__base_path="/gpus",
        hub__trusted_proxies="127.0.0.1/32",
        hub__user_header="X-Remote-User",
        hub__admins="alice",
    ) as hub:
        url = f"https://127.0.0.1:{port}/gpus"
        command = request.param(ProxySetup(tmp_path, port, hub, own.path))
        with running(command, tmp_path, url, own.fingerprint):
            yield LoginProxy(hub, url, own.fingerprint)


def test_who_logs_in_at_the_proxy_is_that_user_of_the_hub(login_proxy: LoginProxy) -> None:
    origin = login_proxy.url.removesuffix("/gpus")
    assert login_proxy.get("/api/v1/fleet", BASIC).status == 200
    session = msgspec.json.decode(login_proxy.get("/api/v1/session", BASIC).body)
    assert (session["name"], session["role"]) == ("alice", "admin")
    browser = {**BASIC, "Origin": origin}
    assert login_proxy.post("/api/v1/join-command", b"{}", browser).status == 200


def test_without_the_login_at_the_proxy_nobody_is_a_user(login_proxy: LoginProxy) -> None:
    wrong = b64encode(b"alice:guess").decode()
    no_headers: dict[str, str] = {}
    for headers in (
        no_headers,
        {"X-Remote-User": "alice"},
        {"Authorization": f"Basic {wrong}"},
        {"Authorization": "Bearer nonsense", "X-Remote-User": "alice"},
    ):
        assert login_proxy.get("/api/v1/fleet", headers).status == 401


def test_tokens_and_agents_get_past_the_login_at_the_proxy(
    login_proxy: LoginProxy, tmp_path: Path
) -> None:
    hub = login_proxy.hub
    admin = {"Authorization": f"Bearer {hub.token('admin')}"}
    made = login_proxy.post("/api/v1/join-command", b"{}", admin)
    words = shlex.split(msgspec.json.decode(made.body)["line"])
    # As the client used it, and without the fingerprint of a certificate that nodes do not see.
    assert words[3:] == ["fleet-smi", "agent", "--to", login_proxy.url, "--join-file", "-"]
    taken = snapshot_now("gpu01", gpu(0))
    with closing(HubConnection(login_proxy.url, fingerprint=login_proxy.pin)) as connection:
        session = HubSession(connection, CredentialFile(str(tmp_path / "agent")), words[1])
        session.send_report([encode_snapshot(taken)], taken.node_id, taken.name)
    proof = msgspec.json.encode({"node_id": taken.node_id, "nonce": "0" * 32})
    assert login_proxy.post("/api/v1/identity", proof, {}).status == 200


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
