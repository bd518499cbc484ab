"""Shutdown of hub and agents: fast, clean, and without leftovers."""

import os
import signal
import socket
import tempfile
from collections.abc import Iterator
from pathlib import Path
from urllib.request import urlopen

import pytest

from tests.cli.program import assert_error_line
from tests.end_to_end.programs import Lab, LoopbackHub, LoopbackMachine
from tests.machines import wait_until
from tests.ports import free_port


@pytest.fixture
def temporary(monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """The TMPDIR of the programs, which must be empty after they have ended."""
    with tempfile.TemporaryDirectory(prefix="t-") as folder:
        for name in ("TMPDIR", "XDG_RUNTIME_DIR"):
            monkeypatch.setenv(name, folder)
        yield Path(folder)


def processes_with(text: str) -> list[int]:
    """Return the processes with this text in their command line or environment."""
    found = []
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            details = (folder / "cmdline").read_bytes() + (folder / "environ").read_bytes()
        except OSError:
            continue
        if text.encode() in details and int(folder.name) != os.getpid():
            found.append(int(folder.name))
    return found


def names_in(folder: Path) -> set[str]:
    return {path.name for path in folder.iterdir()} if folder.exists() else set()


def node_id_in(hub: LoopbackHub) -> str:
    return hub.stored_nodes()["node"].node_id


@pytest.mark.parametrize("way", ["push", "pull", "files"])
def test_hub_and_agent_end_within_two_seconds_and_leave_nothing(
    lab: Lab, temporary: Path, way: str
) -> None:
    node, pulled = LoopbackMachine(lab, "node"), f"127.0.0.1:{free_port()}"
    hub = LoopbackHub(lab, "--pull", pulled, "--files", str(node.drop), "--include-self")
    flags = {"pull": ("--serve", pulled), "files": ("--drop", str(node.drop))}
    agent = node.start_agent(*(flags.get(way) or hub.join_flags()))
    wait_until(lambda: hub.latest_sequence("node") > 0)

    for program in (agent, hub.program):
        code, seconds = program.terminate()
        assert (code, seconds < 2) == (0, True), program.output
    wait_until(lambda: not processes_with(str(lab.folder)))
    socket.create_server(("127.0.0.1", hub.port)).close()
    assert list(temporary.iterdir()) == []
    assert names_in(hub.state) == {"hub.db", "history.db", "history.db.lock", "lock"}
    assert names_in(node.drop) <= {f"node.{node_id_in(hub)[:8]}.fsmi"}
    assert names_in(node.state) <= {"credential.json", "spool"}


def test_an_agent_ends_within_two_seconds_while_its_hub_hangs(lab: Lab) -> None:
    hub, node = LoopbackHub(lab), LoopbackMachine(lab, "node")
    agent = node.start_agent(*hub.join_flags())
    wait_until(lambda: hub.latest_sequence("node") > 0)
    os.kill(hub.program.pid, signal.SIGSTOP)
    code, seconds = agent.terminate()
    assert (code, seconds < 2) == (0, True)


def test_a_hub_stops_with_a_stream_subscriber_connected(lab: Lab) -> None:
    hub = LoopbackHub(lab)
    with urlopen(f"{hub.url}/api/v1/stream", timeout=60) as stream:
        assert stream.readline()
        code, seconds = hub.program.terminate()
        assert (code, seconds < 10) == (0, True)


def test_a_second_hub_on_the_same_state_is_refused(lab: Lab) -> None:
    hub = LoopbackHub(lab)
    assert_error_line(hub.command("--listen", "127.0.0.1:0"), 1, "another hub runs on")
    assert hub.fleet().nodes == ()
