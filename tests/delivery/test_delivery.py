"""What every way promises, whichever it is. A new one is one more case."""

import os
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Literal

import msgspec
import pytest
from msgspec.structs import replace

from fleet_smi.errors import DeliveryError, Refused, Undecodable, Unreachable, UnsupportedVersion
from fleet_smi.hub.sources import SOURCES
from fleet_smi.model.snapshot import Snapshot
from tests.builders import gpu, process, snapshot
from tests.compat.transports import COMPAT_TRANSPORTS
from tests.delivery.source_runner import RecordedDeliveries, run_source
from tests.delivery.transports import (
    DeliveryTransport,
    FilesTransport,
    PullTransport,
    PushTransport,
    SelfTransport,
    SshTransport,
)
from tests.machines import wait_until
from tests.sshd import SshNetwork

ID = "0123456789abcdef0123456789abcdef"
WAYS = ("push", "pull", "files", "ssh", "self")
WITH_A_KEY = ("push", "pull", "files", "ssh")


def sent(sequence: int) -> Snapshot:
    """The snapshot of this number: two GPUs, somebody on the first, a second after the last."""
    crowded = gpu(0, processes=(process(4711, "alice", command="python train.py"),))
    return snapshot(
        crowded,
        gpu(1),
        taken_at=1_750_000_000.0 + sequence,
        sequence=sequence,
        node_id=ID,
        run_id="0123456789abcdef",
        labels={"rack": "a"},
    )


@pytest.fixture
def runtime(monkeypatch: pytest.MonkeyPatch, tmp_path_factory: pytest.TempPathFactory) -> None:
    """A short path for the sockets of ssh."""
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path_factory.mktemp("r")))


Opened = Callable[[str], DeliveryTransport]


@pytest.fixture
def opened(tmp_path: Path, request: pytest.FixtureRequest, runtime: None) -> Iterator[Opened]:
    """Opens a way by its name, both ends of it."""
    with ExitStack() as stack:

        def make(name: str) -> DeliveryTransport:
            way = _made(name, tmp_path, request)
            stack.callback(way.close)
            return way

        yield make


def _made(name: str, folder: Path, request: pytest.FixtureRequest) -> DeliveryTransport:
    if name == "ssh":
        network: SshNetwork = request.getfixturevalue("ssh_network")
        return SshTransport(network, folder)
    if name == "pull":
        return PullTransport()
    if name == "self":
        return SelfTransport()
    return FilesTransport(folder) if name == "files" else PushTransport(folder)


def failure_after(way: DeliveryTransport, happens: Callable[[], None]) -> DeliveryError:
    """What is told once this has happened, by the end that is told of it."""
    if not isinstance(way, PushTransport):
        way.send(sent(1))
        happens()
    with run_source(way.source) as heard:
        if not isinstance(way, PushTransport):
            error = heard.wait_for_error()
            way.close()
            return error
        wait_for_first(way, heard)
        happens()
        told = way.resend_error()
    assert told is not None
    return told


def test_every_source_passes_this_suite_or_one_of_the_ancestors() -> None:
    assert {*WAYS, *COMPAT_TRANSPORTS, "cluster-smi"} == set(SOURCES)


@pytest.mark.parametrize("name", WAYS)
def test_a_snapshot_arrives_as_it_was_sent(name: str, opened: Opened) -> None:
    way = opened(name)
    if name != "push":
        way.send(sent(1))
    with run_source(way.source) as heard:
        if name == "push":
            way.send(sent(1))
        got = heard.wait_for_sequence(1)
        # By ssh the node has no pace of its own: it is asked at the hub's.
        assert (replace(got, interval_seconds=1.0) if name == "ssh" else got) == sent(1)
        assert heard.deliveries[0].target == way.target
        assert heard.deliveries[0].source == name


@pytest.mark.parametrize("name", WAYS)
def test_late_doubled_and_reordered_reports_are_harmless(name: str, opened: Opened) -> None:
    way = opened(name)
    way.send(sent(1)) if name != "push" else None
    with run_source(way.source) as heard:
        for number, times in ((1, 1), (3, 1), (2, 1), (3, 2), (4, 1)):
            way.send(sent(number))
            heard.wait_for_sequence(number, times)
        fleet = heard.fleet()
    (node,) = fleet.view(sent(4).taken_at).nodes
    assert (node.sequence, node.missing_reports, node.silent) == (4, 0, False)
    assert [each.verdict.state for each in node.gpus] == ["busy", "free"]


@pytest.mark.parametrize("name", WITH_A_KEY)
def test_a_refused_key_is_told_as_such(name: str, opened: Opened) -> None:
    way = opened(name)
    assert not isinstance(way, SelfTransport)
    error = failure_after(way, way.block_access)
    assert isinstance(error, Refused)
    assert is_about(error, way)


@pytest.mark.parametrize("name", WAYS)
def test_a_dead_node_is_told_as_such(name: str, opened: Opened) -> None:
    way = opened(name)
    error = failure_after(way, way.disconnect)
    assert isinstance(error, Unreachable)
    assert is_about(error, way)


@pytest.mark.parametrize("name", WITH_A_KEY)
@pytest.mark.parametrize(
    "kind, garbage",
    [
        (Undecodable, b"{ this is no report"),
        (Undecodable, {}),
        (UnsupportedVersion, {"version": 2, "snapshots": []}),
    ],
    ids=["garbage", "nothing", "wrong version"],
)
def test_what_is_no_report_of_ours_is_told_as_such(
    name: str, kind: type[DeliveryError], garbage: object, opened: Opened
) -> None:
    way = opened(name)
    with run_source(way.source) as heard:
        wait_for_first(way, heard)
        assert not isinstance(way, SelfTransport)
        way.send_raw(garbage if isinstance(garbage, bytes) else encoded(garbage, name))
        error = heard.wait_for_error()
    assert type(error) is kind
    assert error.node == way.target
    assert way.target in str(error)


@pytest.mark.parametrize("name", WAYS)
def test_closing_leaves_no_task_thread_process_or_descriptor(name: str, opened: Opened) -> None:
    way = opened(name)
    with run_source(way.source) as heard:
        wait_for_first(way, heard)
    before = held()
    with run_source(way.source) as heard:
        if name != "files":  # which has nothing new to tell
            wait_for_first(way, heard)
    # Less is fine: the other end may still have been closing when the first count was made.
    wait_until(lambda: all(count <= before[kind] for kind, count in held().items()))


def encoded(value: object, name: str) -> bytes:
    return msgspec.json.encode(value) if name == "ssh" else msgspec.msgpack.encode(value)


def wait_for_first(way: DeliveryTransport, heard: RecordedDeliveries) -> None:
    way.send(sent(1))
    heard.wait_for_sequence(1)


def is_about(error: DeliveryError, way: DeliveryTransport) -> bool:
    """Whether it names the other end: the node, or the hub where it is the node that is told."""
    return "hub http" in str(error) if isinstance(way, PushTransport) else error.node == way.target


Kept = Literal["threads", "descriptors", "children"]


def held() -> dict[Kept, int]:
    """What this process holds."""
    children = Path(f"/proc/self/task/{os.getpid()}/children").read_text().split()
    return {
        "threads": threading.active_count(),
        "descriptors": len(list(Path("/proc/self/fd").iterdir())),
        "children": len(children),
    }
