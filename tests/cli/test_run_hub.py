"""`fleet-smi hub`, `up` and `demo` as programs: start-up output, service, shutdown."""

import json
import os
import re
import shutil
import signal
import socket
import ssl
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing, suppress
from pathlib import Path
from typing import Any
from urllib.request import urlopen

import pytest

from fleet_smi.cli import run_hub, systemd_units
from fleet_smi.client.connection import HubConnection
from fleet_smi.client.hub import HubClient
from fleet_smi.hub.state_folder import ADMIN_TOKEN_FILE
from fleet_smi.server.tls import ensure_self_signed
from sim.scenario import Scenario, SimGpu
from tests.cli.program import assert_error_line, run_fleet_smi
from tests.machines import wait_until
from tests.ports import free_port
from tests.sim.fixtures import Simulated

Started = subprocess.Popen[str]
Start = Callable[..., Started]


@pytest.fixture
def env(tmp_path: Path) -> dict[str, str]:
    return {"HOME": str(tmp_path), "PATH": os.environ["PATH"], "COLUMNS": "100"}


@pytest.fixture
def start() -> Iterator[Start]:
    """Start programs that are killed after the test."""
    started: list[Started] = []

    def run(*arguments: str, env: Mapping[str, str]) -> Started:
        program = [sys.executable, "-m", "fleet_smi", *arguments]
        pipes: dict[str, Any] = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
        pipes["stdin"] = subprocess.DEVNULL  # no terminal, which a hangup would close
        started.append(subprocess.Popen(program, env=env, text=True, **pipes))
        return started[-1]

    yield run
    for each in started:
        each.kill()
        each.communicate()


def read_until(program: Started, until: str) -> str:
    """Return its output up to the line that contains the text."""
    assert program.stdout is not None
    text = ""
    while until not in text:
        line = program.stdout.readline()
        assert line, (text, program.communicate()[1])
        text += line
    return text


def ended(program: Started, number: signal.Signals = signal.SIGTERM) -> tuple[int, float, str]:
    """Return its exit code, the seconds it took, and its stderr."""
    began = time.monotonic()
    program.send_signal(number)
    _, complaints = program.communicate(timeout=60)
    return program.returncode, time.monotonic() - began, complaints


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_hub_prints_its_url_and_stops_on_a_signal(
    tmp_path: Path, env: dict[str, str], start: Start, number: signal.Signals
) -> None:
    state = tmp_path / "state"
    port = free_port()
    hub = start("hub", "--listen", f"127.0.0.1:{port}", "--state", str(state), env=env)
    assert read_until(hub, "hub:") == f"fleet-smi hub: http://127.0.0.1:{port}\n"
    client = HubClient(f"http://127.0.0.1:{port}")
    wait_until(lambda: client.fleet().nodes == ())
    client.close()
    code, seconds, complaints = ended(hub, number)
    assert (code, complaints) == (0, "")
    assert seconds < 5
    assert not (state / ADMIN_TOKEN_FILE).exists()


# A thread that never ends stands for whatever a hub may still have to write or to wait for.
_NEVER_DONE = """
import sys, threading
from fleet_smi.cli import run_hub
from fleet_smi.cli.main import main
run_hub.STOP_SECONDS = 0.5
threading.Thread(target=threading.Event().wait).start()
main(["hub", "--listen", "127.0.0.1:0", "--state", sys.argv[1]])
"""


def test_a_hub_stops_in_time_whatever_is_pending(tmp_path: Path, env: dict[str, str]) -> None:
    arguments = [sys.executable, "-c", _NEVER_DONE, str(tmp_path / "state")]
    pipes: dict[str, Any] = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    with subprocess.Popen(arguments, env=env, text=True, **pipes) as hub:
        try:
            url = read_until(hub, "hub:").split()[-1]
            # Signals are handled from when it answers.
            with closing(HubClient(url)) as client:
                wait_until(lambda: client.fleet().nodes == ())
            code, _, complaints = ended(hub)
        finally:
            hub.kill()
    assert code == 0
    assert "stopped after 0.5 s: what was not written yet is sent again" in complaints


def test_a_hub_takes_less_time_to_stop_than_its_service_gives_it() -> None:
    limit = re.search(r"TimeoutStopSec=(\d+)s", " ".join(systemd_units._LIMITS["hub"]))
    assert limit is not None
    assert int(limit[1]) > run_hub.STOP_SECONDS


def test_a_hub_whose_state_folder_is_deleted_continues_and_stops_cleanly(
    tmp_path: Path, env: dict[str, str], start: Start
) -> None:
    state, port = tmp_path / "state", free_port()
    hub = start("hub", "--listen", str(port), "--state", str(state), "--insecure-open", env=env)
    read_until(hub, "hub:")
    url = f"http://127.0.0.1:{port}"
    start("simulate", "--nodes", "50", "--gpus", "2", "--to", url, env=env)
    client = HubClient(url)
    with closing(client), urlopen(f"{url}/api/v1/stream", timeout=60) as stream:
        wait_until(lambda: client.fleet().summary.nodes_reporting == 50)
        shutil.rmtree(state)
        before = max(node.sequence for node in client.fleet().nodes)
        wait_until(lambda: min(node.sequence for node in client.fleet().nodes) > before)
        code, seconds, _ = ended(hub)
        assert stream.read().count(b"event: change") > 1
    assert code == 0
    assert seconds < 3


def test_a_hangup_makes_a_hub_read_its_certificate_and_not_end(
    tmp_path: Path, env: dict[str, str], start: Start
) -> None:
    port, pems = free_port(), []
    for name in ("first", "second"):
        pems.append(ensure_self_signed(tmp_path / name, ["localhost"]).path)
    file = tmp_path / "cert.pem"
    file.write_bytes(pems[0].read_bytes())
    flags = ("--tls-cert", str(file), "--tls-key", str(file), "--state", str(tmp_path / "state"))
    hub = start("hub", "--listen", str(port), *flags, env=env)
    read_until(hub, "hub:")

    def shown() -> str:
        return ssl.get_server_certificate(("127.0.0.1", port), timeout=60).strip()

    wait_until(lambda: accepts(port))
    assert shown() in pems[0].read_text()
    file.write_bytes(pems[1].read_bytes())
    hub.send_signal(signal.SIGHUP)
    wait_until(lambda: shown() in pems[1].read_text())
    assert ended(hub)[0] == 0


def test_the_hubs_own_user_needs_no_pin_for_a_certificate_of_the_admins_own(
    tmp_path: Path, env: dict[str, str], start: Start
) -> None:
    file, state = tmp_path / "cert.pem", str(tmp_path / "state")
    first, second = (
        ensure_self_signed(tmp_path / name, ["gpu.example.org"]).path for name in ("one", "two")
    )
    file.write_bytes(first.read_bytes())
    flags = ("--tls-cert", str(file), "--tls-key", str(file), "--state", state)
    hub = start("hub", "--listen", str(free_port()), *flags, "--include-self", env=env)
    read_until(hub, "hub:")

    def command() -> subprocess.CompletedProcess[str]:
        return run_fleet_smi("nodes", env=env | {"FLEET_SMI_HUB_STATE": state})

    done = command()
    assert done.returncode == 0, done.stderr
    pinned = (tmp_path / "state/address").read_text()
    file.write_bytes(second.read_bytes())
    hub.send_signal(signal.SIGHUP)
    wait_until(lambda: (tmp_path / "state/address").read_text() != pinned)
    done = command()
    assert done.returncode == 0, done.stderr


def accepts(port: int) -> bool:
    with suppress(OSError), socket.create_connection(("127.0.0.1", port), timeout=60):
        return True
    return False


def test_a_hub_that_cannot_start_says_why_in_one_line(tmp_path: Path, env: dict[str, str]) -> None:
    state = ("--state", str(tmp_path / "state"))
    for flags, text in (
        (("--listen", "192.0.2.1:7070", "--insecure-open"), "cannot listen on"),
        (("--pull", "gpu01:99999"), "gpu01:99999"),
        (("--listen", "nonsense"), "is not an address"),
    ):
        assert_error_line(run_fleet_smi("hub", *flags, *state, env=env), 2, text)


def test_a_hub_reads_a_folder_and_pulls_from_an_agent(
    tmp_path: Path, env: dict[str, str], start: Start
) -> None:
    gone, port, away = tmp_path / "gone", free_port(), free_port()
    flags = ("--listen", str(port), "--state", str(tmp_path / "state"))
    ways = ("--files", str(gone), "--pull", f"127.0.0.1:{away}")
    read_until(start("hub", *flags, *ways, env=env), "hub:")
    client = HubClient(f"http://127.0.0.1:{port}")

    def troubles() -> list[str]:
        return [node.trouble or "" for node in client.fleet().nodes]

    wait_until(lambda: len(troubles()) == 2 and all(troubles()))
    assert any("the folder cannot be read" in each for each in troubles())
    assert any("nothing answers there" in each for each in troubles())
    client.close()


def test_up_runs_a_hub_with_this_machine_in_it(
    tmp_path: Path, simulated: Simulated, start: Start
) -> None:
    env = simulated(Scenario(gpus=[SimGpu(), SimGpu()]))
    port = free_port()
    up = start("up", "--listen", str(port), "--state", str(tmp_path / "s"), env=env)
    text = read_until(up, "Ctrl-C")
    assert f"open  http://127.0.0.1:{port}  or run" in text
    assert "for this machine only" in text
    client = HubClient(f"http://127.0.0.1:{port}")
    wait_until(lambda: client.fleet().summary.free == 2)
    (node,) = client.fleet().nodes
    assert (node.via, node.silent) == ("self", False)
    client.close()
    code, seconds, complaints = ended(up)
    assert (code, complaints) == (0, "")
    assert seconds < 5


def test_up_for_others_prints_a_login_a_token_and_the_join_command(
    tmp_path: Path, simulated: Simulated, start: Start
) -> None:
    env = simulated(Scenario(gpus=[SimGpu()]))
    port, state = free_port(), str(tmp_path / "s")
    flags = ("up", "--listen", f"0.0.0.0:{port}", "--state", state, "--tls", "self-signed")
    text = read_until(start(*flags, env=env), "Ctrl-C")
    token = re.search(r"for commands, shown only once: (\S+)", text)
    login = re.search(r"on the page, shown only once: (\S+) / (\S+)", text)
    assert token is not None
    assert login is not None
    assert "valid for 24 hours and 100 machines" in text
    join = re.search(r"echo (\S+) \| sh -c .* https://\S+ --fingerprint (sha256:\w+)", text)
    assert join is not None, text
    url = f"https://127.0.0.1:{port}"
    client = HubClient(url, token=token[1], fingerprint=join[2])
    wait_until(lambda: client.fleet().summary.gpus == 1)
    client.close()
    with closing(HubConnection(url, fingerprint=join[2])) as browser:
        body = json.dumps({"name": login[1], "password": login[2]}).encode()
        headers = {"Origin": url, "Content-Type": "application/json"}
        assert browser.request("POST", "/api/v1/session", body, headers).status == 204
    line = ("--to", url, "--join", join[1], "--fingerprint", join[2])
    joined = run_fleet_smi("agent", *line, "--once", "--state", str(tmp_path / "agent"), env=env)
    assert joined.returncode == 0, joined.stderr
    assert f'joined="{url}"' in joined.stderr


def test_demo_once_prints_its_fleet(env: dict[str, str]) -> None:
    done = run_fleet_smi(
        "demo", "--once", "--listen", str(free_port()), env=env, timeout_seconds=60
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert "of 12 nodes" in done.stdout
    for state in ("free", "busy", "held", "ghost", "broken"):
        assert state in done.stdout


def test_demo_json_has_twelve_nodes(env: dict[str, str]) -> None:
    done = run_fleet_smi(
        "demo", "--json", "--listen", str(free_port()), env=env, timeout_seconds=60
    )
    view = json.loads(done.stdout)
    assert view["summary"]["nodes"] == 12
    assert {node["via"] for node in view["nodes"]} == {"push"}
    assert len({gpu["name"] for node in view["nodes"] for gpu in node["gpus"]}) >= 4


def test_the_demo_runs_until_it_is_interrupted(env: dict[str, str], start: Start) -> None:
    port = free_port()
    demo = start("demo", "--listen", str(port), env=env)
    assert f"--hub http://127.0.0.1:{port}" in read_until(demo, "Press Ctrl-C to stop.")
    table = run_fleet_smi("free", "--hub", f"http://127.0.0.1:{port}", env=env)
    assert table.returncode == 0
    code, seconds, complaints = ended(demo, signal.SIGINT)
    assert (code, complaints) == (0, "")
    assert seconds < 5


def test_demo_unless_gpus_runs_up_if_there_are_gpus(
    env: dict[str, str], start: Start, simulated: Simulated, tmp_path: Path
) -> None:
    port = free_port()
    own = {"FLEET_SMI_HUB_LISTEN": str(port), "FLEET_SMI_HUB_STATE": str(tmp_path / "own")}
    machine = simulated(Scenario(gpus=[SimGpu(name="NVIDIA T4")]))
    running = start("demo", "--unless-gpus", env=env | machine | own)
    assert f"http://127.0.0.1:{port}" in read_until(running, "press Ctrl-C to stop")
    client = HubClient(f"http://127.0.0.1:{port}")
    wait_until(lambda: [gpu.name for gpu in client.fleet().nodes[0].gpus] == ["NVIDIA T4"])
    client.close()


def test_a_demo_on_a_used_port_is_refused(env: dict[str, str]) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
        done = run_fleet_smi("demo", "--once", "--listen", str(port), env=env)
    assert_error_line(done, 2, "cannot listen on")
