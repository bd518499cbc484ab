"""Reader process: when the child exits, and results larger than a pipe."""

import os
from pathlib import Path

from fleet_smi.node.reader import Reader
from fleet_smi.node.reader_process import spawn_worker
from fleet_smi.node.reader_types import ReadTimeouts
from tests.machines import wait_until


def test_the_worker_exits_when_its_parent_is_gone() -> None:
    child = spawn_worker()
    os.close(child.requests_fd)
    wait_until(child.has_exited)
    os.close(child.results_fd)
    os.close(child.progress_fd)


def test_the_worker_exits_on_a_truncated_request() -> None:
    child = spawn_worker()
    os.write(child.requests_fd, b"\0\0\0\x40half")
    os.close(child.requests_fd)
    wait_until(child.has_exited)
    os.close(child.results_fd)
    os.close(child.progress_fd)


def test_large_results_arrive_complete(tmp_path: Path) -> None:
    # Larger than a pipe buffer: the child must keep writing while we read.
    (tmp_path / "etc").mkdir()
    (tmp_path / "etc/machine-id").write_text("x" * 65_536)
    (tmp_path / "proc/sys/kernel/random").mkdir(parents=True)
    (tmp_path / "proc/sys/kernel/random/boot_id").write_text("y" * 65_536)
    (tmp_path / "proc/stat").write_text("cpu 1 1 1 1 1 1 1 1\n")
    reader = Reader(spawn_worker)
    (result,) = reader.read([("host", {"root": str(tmp_path)})], ReadTimeouts(10.0, 10.0))
    raw = result.value
    assert (len(raw["machine_id"]), len(raw["boot_id"])) == (65_536, 65_536)
    reader.close()
