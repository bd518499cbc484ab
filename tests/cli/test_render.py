"""`fleet-smi render` as a user runs it: atomic files, dead hosts, an unreachable hub."""

import csv
import json
import os
import re
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from fleet_smi.node.outlets.file import FileOutlet
from sim.scenario import GIB, Scenario, SimGpu, SimProcess
from tests.builders import gpu, process
from tests.cli.program import assert_error_line, run_fleet_smi
from tests.end_to_end.programs import FleetSmiProcess
from tests.machines import UserProcesses, wait_until
from tests.server.routes.snapshots import snapshot_now
from tests.server.threaded_hub import ThreadedHub
from tests.sim.fixtures import Simulated
from tests.sshd import SshNetwork


@pytest.fixture
def env(tmp_path: Path) -> dict[str, str]:
    return {"HOME": str(tmp_path), "PATH": os.environ["PATH"], "TZ": "UTC"}


@pytest.fixture
def site(tmp_path: Path) -> Path:
    return tmp_path / "www" / "gpu"


@pytest.fixture
def reports(tmp_path: Path) -> Path:
    """A folder with one node's report."""
    folder = tmp_path / "reports"
    folder.mkdir()
    outlet = FileOutlet(str(folder))
    outlet.deliver(snapshot_now("gpu01", gpu(0, processes=(process(),)), gpu(1)))
    outlet.close()
    return folder


def page(site: Path) -> str:
    return (site / "index.html").read_text("utf-8")


def test_classic_colours_are_red_for_what_is_in_use(
    site: Path, env: dict[str, str], reports: Path
) -> None:
    where = ("--out", str(site), "--dir", str(reports))
    assert run_fleet_smi("render", *where, env=env).returncode == 0
    usual = page(site)
    assert run_fleet_smi("render", *where, "--colors", "classic", env=env).returncode == 0
    classic = page(site)
    assert "red is in use" in classic
    assert "red is in use" not in usual
    # The same page but for its style, which the content security policy allows by its hash.
    assert classic.count("is-busy") == usual.count("is-busy") + 1
    hashes = [re.findall(r"sha256-[^']*", text) for text in (usual, classic)]
    assert hashes[0] != hashes[1]


class Rendering:
    """`render --every` in the background."""

    def __init__(self, folder: Path, env: dict[str, str]) -> None:
        self._folder, self._env = folder, env
        self.started: list[FleetSmiProcess] = []

    def __call__(self, *arguments: str) -> FleetSmiProcess:
        log = self._folder / "render.log"
        self.started.append(FleetSmiProcess("render", *arguments, env=self._env, log=log))
        return self.started[-1]


@pytest.fixture
def rendering(tmp_path: Path, env: dict[str, str]) -> Iterator[Rendering]:
    running = Rendering(tmp_path, env)
    yield running
    for program in running.started:
        program.kill()


def test_it_writes_a_world_readable_page_and_csv(
    simulated: Simulated, people: UserProcesses, site: Path
) -> None:
    work = SimProcess(pid=people.start("sleep", "60", user="nobody"), memory=59 * GIB, sm=95)
    busy = SimGpu(memory_used=60 * GIB, util_gpu=96, util_memory=3, processes=[work])
    env = simulated(Scenario(gpus=[busy, SimGpu()]))
    old = os.umask(0o077)
    try:
        done = run_fleet_smi("render", "--out", str(site), "--here", env=env)
    finally:
        os.umask(old)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    assert {path.name: path.stat().st_mode & 0o777 for path in site.iterdir()} == {
        "index.html": 0o644,
        "load_data.csv": 0o644,
    }
    assert "60.0 of 79.6 GiB (75 %)" in page(site), "the memory that is used, not how busy it is"
    table = csv.DictReader((site / "load_data.csv").read_text().splitlines())
    assert [(row["load"], row["load_mem"], row["username"]) for row in table] == [
        ("96", "3", "nobody"),
        ("0", "0", ""),
    ]


def test_a_folder_of_reports_needs_no_hub(env: dict[str, str], site: Path, reports: Path) -> None:
    done = run_fleet_smi("render", "--out", str(site), "--dir", str(reports), env=env)
    assert done.returncode == 0, done.stderr
    assert "gpu01" in page(site) and "1 of 1 node</b> reporting" in page(site)


def test_one_dead_host_does_not_stop_the_others(
    ssh_network: SshNetwork, env: dict[str, str], site: Path
) -> None:
    alive, dead = (
        ssh_network.start_server(env={"PATH": "/usr/bin:/bin"}),
        ssh_network.start_server(),
    )
    dead.stop()
    for name, server in (("alive", alive), ("dead", dead)):
        ssh_network.add_host(name, server)
    env["FLEET_SMI_HUB_SSH_CONFIG"] = str(ssh_network.config)
    done = run_fleet_smi("render", "--out", str(site), "--ssh", "dead,alive", env=env)
    assert done.returncode == 0, done.stderr
    text = page(site)
    assert "1 of 2 nodes</b> reporting" in text
    assert "connection refused" in text and os.uname().nodename in text
    assert done.stderr == "fleet-smi: dead: connection refused: no sshd listens there\n"


def test_if_every_host_is_dead_the_page_says_so_and_it_exits_with_3(
    ssh_network: SshNetwork, env: dict[str, str], site: Path
) -> None:
    dead = ssh_network.start_server()
    dead.stop()
    for name in ("one", "two"):
        ssh_network.add_host(name, dead)
    env["FLEET_SMI_HUB_SSH_CONFIG"] = str(ssh_network.config)
    done = run_fleet_smi("render", "--out", str(site), "--ssh", "one,two", env=env)
    assert done.returncode == 3
    assert done.stderr.splitlines() == [
        "fleet-smi: one: connection refused: no sshd listens there",
        "fleet-smi: two: connection refused: no sshd listens there",
        "fleet-smi: no node answers; the page says so",
    ]
    assert "0 of 2 nodes</b> reporting" in page(site)


def test_a_single_run_keeps_what_an_earlier_one_knew_of_a_dead_host(
    ssh_network: SshNetwork, env: dict[str, str], site: Path, simulated: Simulated
) -> None:
    machine = simulated(Scenario(gpus=[SimGpu(name="NVIDIA A100-SXM4-80GB")]))
    driver = {name: machine[name] for name in ("LD_LIBRARY_PATH", "FLEET_SMI_SIM")}
    path = f"{machine['LD_LIBRARY_PATH']}:/usr/bin:/bin"
    server = ssh_network.start_server(env={**driver, "PATH": path})
    other = ssh_network.start_server(env={"PATH": "/usr/bin:/bin"})
    ssh_network.add_host("gpu01", server)
    ssh_network.add_host("gone", other)
    other.stop()
    env["FLEET_SMI_HUB_SSH_CONFIG"] = str(ssh_network.config)
    render = ("render", "--out", str(site), "--ssh", "gpu01,gone")
    assert run_fleet_smi(*render, env=env).returncode == 0
    assert "A100" in page(site) and "1 of 2 nodes</b> reporting" in page(site)
    server.stop()
    for _ in range(2):  # also the run after the next one knows it
        done = run_fleet_smi(*render, env=env)
        assert done.returncode == 3, done
        text = page(site)
        assert "A100" in text and "silent for" in text and "connection refused" in text
        assert "No GPU is known to be free." in text
        assert "0 of 2 nodes</b> reporting" in text
        (row,) = csv.DictReader((site / "load_data.csv").read_text().splitlines())
        assert (row["gpu_name"], row["username"]) == ("NVIDIA A100-SXM4-80GB", "Zombie")
    assert (site / ".last-known.json").stat().st_mode & 0o777 == 0o600
    # A host that is no longer polled is not on the page.
    run_fleet_smi("render", "--out", str(site), "--ssh", "gone", env=env)
    assert "A100" not in page(site)


def test_a_damaged_file_of_last_known_nodes_is_replaced(
    ssh_network: SshNetwork, env: dict[str, str], site: Path
) -> None:
    ssh_network.add_host("gpu01", ssh_network.start_server(env={"PATH": "/usr/bin:/bin"}))
    env["FLEET_SMI_HUB_SSH_CONFIG"] = str(ssh_network.config)
    site.mkdir(parents=True)
    (site / ".last-known.json").write_text('{"taken_at": 1, "nodes": {"ssh:gpu01"')
    done = run_fleet_smi("render", "--out", str(site), "--ssh", "gpu01", env=env)
    assert (done.returncode, done.stderr) == (0, "")
    assert "ssh:gpu01" in json.loads((site / ".last-known.json").read_text())["nodes"]


def test_a_dead_host_is_reported_once(
    env: dict[str, str], site: Path, reports: Path, tmp_path: Path, rendering: Rendering
) -> None:
    (reports / "gpu02.json").write_bytes(b"")
    program = rendering("--out", str(site), "--every", "0.1s", "--dir", str(reports))
    wait_until((site / "index.html").exists)
    seen: set[str] = set()
    while len(seen) < 3:
        seen.add(page(site))
    program.terminate()
    assert program.output.count("gpu02") == 1


def test_without_flags_it_polls_the_nodes_of_the_hub_settings(
    env: dict[str, str], site: Path, reports: Path, tmp_path: Path
) -> None:
    settings = tmp_path / "fleet-smi.toml"
    settings.write_text(f'[hub]\nfiles = ["{reports}", "{tmp_path / "nowhere"}"]\n')
    done = run_fleet_smi("render", "--out", str(site), "--config", str(settings), env=env)
    assert done.returncode == 0, done.stderr
    assert "gpu01" in page(site), "one folder that is not there does not hide the other"
    assert "the folder cannot be read" in page(site)


@pytest.mark.parametrize("folder", ["/dev/null", "/proc/nowhere/page"])
def test_an_unwritable_folder_is_an_error_in_one_line(env: dict[str, str], folder: str) -> None:
    done = run_fleet_smi("render", "--out", folder, "--here", env=env)
    assert_error_line(done, 1, f"cannot write to {folder}")


def test_an_invalid_interval_is_refused_in_one_line(env: dict[str, str], site: Path) -> None:
    for pace in ("often", "0s", "2d"):
        done = run_fleet_smi("render", "--out", str(site), "--every", pace, env=env)
        assert_error_line(done, 2, pace)
    assert not site.exists()


def test_an_unreachable_hub_leaves_the_existing_page(
    env: dict[str, str], site: Path, reports: Path
) -> None:
    assert (
        run_fleet_smi("render", "--out", str(site), "--dir", str(reports), env=env).returncode == 0
    )
    before = page(site)
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{unused.getsockname()[1]}"
        done = run_fleet_smi("render", "--out", str(site), "--hub", url, env=env)
    assert_error_line(done, 3, url)
    assert page(site) == before


def test_a_reader_never_sees_half_a_file(site: Path, reports: Path, rendering: Rendering) -> None:
    program = rendering("--out", str(site), "--every", "0.1s", "--dir", str(reports))
    wait_until((site / "index.html").exists)
    seen: set[str] = set()
    while len(seen) < 4:
        text = page(site)
        assert text.startswith("<!doctype html>") and text.endswith("</html>\n")
        assert (site / "load_data.csv").read_bytes().endswith(b"\n")
        seen.add(text)
    program.terminate()
    assert {path.name for path in site.iterdir()} == {"index.html", "load_data.csv"}


def test_every_survives_an_outage_says_so_and_recovers(
    tmp_path: Path, site: Path, rendering: Rendering
) -> None:
    with ThreadedHub(tmp_path / "hub") as hub:
        hub.join_and_report(snapshot_now("gpu01", gpu(0)))
        rendering("--out", str(site), "--every", "0.1s", "--hub", hub.url)
        wait_until(lambda: (site / "index.html").exists() and "GPU 0" in page(site))
        listen = hub.url.removeprefix("http://")
    wait_until(lambda: "No new data:" in page(site))
    assert "No GPU is known to be free." in page(site) and "silent for" in page(site)
    (row,) = csv.DictReader((site / "load_data.csv").read_text().splitlines())
    assert (row["load"], row["load_mem"], row["username"]) == ("", "", "Zombie")
    with ThreadedHub(tmp_path / "hub", hub__listen=listen):
        wait_until(lambda: "No new data:" not in page(site))
    assert "Traceback" not in rendering.started[0].output


def test_every_waits_for_a_hub_that_is_not_running_yet(
    tmp_path: Path, site: Path, rendering: Rendering
) -> None:
    with ThreadedHub(tmp_path / "hub") as hub:
        listen, url = hub.url.removeprefix("http://"), hub.url
    program = rendering("--out", str(site), "--every", "0.1s", "--hub", url)
    wait_until(lambda: "fleet-smi: " in program.output)
    with ThreadedHub(tmp_path / "hub", hub__listen=listen):
        wait_until((site / "index.html").exists)
