"""Files in gpustat's format between an agent and the hub: what every way promises, and this too.

They carry no number and no id of their node, so they are not one of the ways of the suite.
"""

from pathlib import Path

import pytest
from msgspec.structs import replace

from fleet_smi.errors import Refused, TruncatedReport, Unreachable
from fleet_smi.hub.sources.files import FilesSource
from fleet_smi.node.outlets.file import FileOutlet
from tests.builders import gpu, process, snapshot
from tests.delivery.source_runner import run_source
from tests.delivery.test_delivery import held
from tests.machines import wait_until

CARD = gpu(0, processes=(process(4711, "alice", command="python train.py"),))
SENT = snapshot(CARD, gpu(1), node="cml10")


@pytest.fixture
def source(tmp_path: Path) -> FilesSource:
    return FilesSource(str(tmp_path), interval_seconds=0.02, grace_seconds=0.0)


def send(folder: Path) -> Path:
    FileOutlet(str(folder), file_format="gpustat").deliver(SENT)
    return folder / "cml10.json"


def test_what_gpustat_can_tell_arrives_as_it_was_sent(tmp_path: Path, source: FilesSource) -> None:
    send(tmp_path)
    with run_source(source) as heard:
        got = heard.wait_for_sequence(0)
    assert heard.deliveries[0].target == "cml10"
    assert (got.node_id, got.name) == ("gpustat-cml10", "cml10")
    kept = {"memory_busy_percent": None, "compute_mode": None, "mig_mode": None}
    crowd = tuple(replace(one, started_at=None) for one in CARD.processes or ())
    assert got.gpus[0] == replace(CARD, processes=crowd, **kept)


def test_each_failure_is_told_as_what_it_is(tmp_path: Path) -> None:
    folder = tmp_path / "shared"
    folder.mkdir()
    path = send(folder)
    source = FilesSource(str(folder), interval_seconds=0.02, grace_seconds=0.0)
    with run_source(source) as heard:
        heard.wait_for_sequence(0)
        path.write_bytes(path.read_bytes()[:200])
        wait_until(lambda: isinstance(heard.deliveries[-1].result, TruncatedReport))
        path.unlink()
        path.symlink_to("/etc/hostname")
        wait_until(lambda: isinstance(heard.deliveries[-1].result, Refused))
        assert heard.wait_for_error().node == "cml10"
        folder.rename(tmp_path / "gone")
        wait_until(lambda: isinstance(heard.deliveries[-1].result, Unreachable))
        assert heard.wait_for_error().node == str(folder)


def test_closing_leaves_nothing(tmp_path: Path, source: FilesSource) -> None:
    send(tmp_path)
    with run_source(source) as heard:
        heard.wait_for_sequence(0)
    before = held()
    with run_source(source):
        pass
    wait_until(lambda: all(count <= before[kind] for kind, count in held().items()))
