"""Durability of history: a killed hub, a full disk, a damaged database file."""

import errno
import os
import random
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from fleet_smi.client.hub import HubClient
from fleet_smi.errors import FleetError
from fleet_smi.hub.history.storage.store import HISTORY_FILE
from fleet_smi.model.history import Gap, Period
from tests.machines import small_disk, wait_until

NODES, GPUS = 3, 2
# A node's figures are written every 10 s, with all that is open; batches every 2 s.
MAX_LOST_SECONDS = 13.0


class Cluster:
    """A hub on one state folder, and a simulated fleet that reports to it every second."""

    def __init__(self, state: Path, home: Path) -> None:
        self.state = state
        self._env = {"HOME": str(home), "PATH": os.environ["PATH"]}
        self._log = home / "log"
        with socket.create_server(("127.0.0.1", 0)) as listener:
            self._port = listener.getsockname()[1]
        self.url = f"http://127.0.0.1:{self._port}"
        self.hub = self._start_hub()
        size = ("--nodes", str(NODES), "--gpus", str(GPUS))
        self._fleet = self._start("simulate", *size, "--to", self.url)

    def restart_hub(self) -> None:
        self.hub = self._start_hub()

    def kill(self) -> float:
        """Kill the hub and return the time."""
        self.hub.kill()
        self.hub.wait()
        return time.time()

    def stop(self) -> None:
        self.hub.send_signal(signal.SIGTERM)
        self.hub.wait()

    def end(self) -> None:
        for program in (self._fleet, self.hub):
            program.kill()
            program.wait()

    def log_text(self) -> str:
        return self._log.read_text()

    def all_sequences(self) -> list[int]:
        """Return the latest sequence number of each node, also of silent ones."""
        with closing(HubClient(self.url)) as client:
            return [node.sequence for node in client.fleet().nodes]

    def latest_time(self) -> float:
        """Return a time up to which the live view shows a report of every node."""
        with closing(HubClient(self.url)) as client:
            return min(node.taken_at or 0.0 for node in client.fleet().nodes)

    def sequences(self) -> list[int]:
        """Return the latest sequence number of each reporting node."""
        with closing(HubClient(self.url)) as client:
            return [node.sequence for node in client.fleet().nodes if not node.silent]

    def wait_for_reports(self) -> None:
        """Wait until the live view shows a new report of every node."""
        wait_until(self._all_report)
        before = max(self.all_sequences())
        # Some may be silent for a moment, until their sender tries again.
        wait_until(lambda: self._all_report() and min(self.all_sequences()) > before)

    def gaps(self) -> tuple[Gap, ...]:
        with closing(HubClient(self.url)) as client:
            return client.storage_status().gaps

    def periods(self, since: float) -> list[tuple[Period, ...]]:
        with closing(HubClient(self.url)) as client:
            return [row.periods for row in client.periods(since).rows]

    def _all_report(self) -> bool:
        try:
            return len(self.sequences()) == NODES
        except FleetError:
            return False

    def _start_hub(self) -> subprocess.Popen[bytes]:
        flags = ("--listen", f"127.0.0.1:{self._port}", "--state", str(self.state))
        hub = self._start("hub", *flags, "--insecure-open")
        wait_until(self._answers)
        return hub

    def _answers(self) -> bool:
        try:
            self.sequences()
        except FleetError:
            return False
        return True

    def _start(self, *arguments: str) -> subprocess.Popen[bytes]:
        program = [sys.executable, "-m", "fleet_smi", *arguments]
        with self._log.open("ab") as log:
            return subprocess.Popen(program, env=self._env, stdout=log, stderr=log)


@pytest.fixture
def state(tmp_path: Path) -> Path:
    return tmp_path / "state"


@pytest.fixture
def cluster(state: Path, tmp_path: Path) -> Iterator[Cluster]:
    started = Cluster(state, tmp_path)
    try:
        started.wait_for_reports()
        yield started
    finally:
        started.end()


def lost_before(periods: tuple[Period, ...], at: float) -> float:
    """Return how many seconds before a time the recorded data ends."""
    ends = [at if each.end is None else min(each.end, at) for each in periods if each.start < at]
    return at - max(ends, default=0.0)


def test_a_killed_hub_loses_only_a_few_seconds(cluster: Cluster) -> None:
    began, chance = time.time(), random.Random(6)
    killed: list[float] = []
    for least_seconds in (11.0, 3.0):
        time.sleep(least_seconds + chance.uniform(0.0, 3.0))  # any moment
        killed.append(cluster.kill())
        cluster.restart_hub()
        cluster.wait_for_reports()

    def lost() -> float:
        rows = cluster.periods(began)
        assert len(rows) == NODES * GPUS
        assert all(periods[-1].end is None for periods in rows)
        return max(lost_before(periods, at) for periods in rows for at in killed)

    wait_until(lambda: lost() < MAX_LOST_SECONDS)
    assert cluster.gaps() == ()


def test_a_damaged_file_is_set_aside_and_reported(cluster: Cluster) -> None:
    wait_until(lambda: (cluster.state / HISTORY_FILE).stat().st_size > 0)
    cluster.stop()
    with (cluster.state / HISTORY_FILE).open("r+b") as damaged:
        damaged.write(b"no longer a database " * 100)
    cluster.restart_hub()
    cluster.wait_for_reports()
    assert list(cluster.state.glob(f"{HISTORY_FILE}.damaged-*"))
    wait_until(lambda: len(cluster.gaps()) == 1)
    assert "was damaged and is set aside" in cluster.gaps()[0].why
    assert "was damaged and is set aside" in cluster.log_text()
    wait_until(lambda: len(cluster.periods(time.time() - 5)) == NODES * GPUS)


class TestSmallDisk:
    @pytest.fixture
    def state(self, tmp_path: Path) -> Iterator[Path]:
        """A file system of 8 MiB, mounted as the state folder."""
        with small_disk(tmp_path / "small", mebibytes=8) as folder:
            yield folder

    def test_with_a_full_disk_live_data_is_shown_and_written_later(self, cluster: Cluster) -> None:
        began, ballast = time.time(), cluster.state / "ballast"
        fill(ballast)
        wait_until(lambda: any("full" in gap.why for gap in cluster.gaps()))
        (gap,) = cluster.gaps()
        assert gap.end is None
        cluster.wait_for_reports()
        shown_at = cluster.latest_time()
        ballast.unlink()
        wait_until(lambda: cluster.gaps() == (), 60.0)  # all of it could wait
        assert "history is written again" in cluster.log_text()
        cluster.stop()
        cluster.restart_hub()
        cluster.wait_for_reports()

        def lost() -> float:
            rows = cluster.periods(began)
            return max(lost_before(periods, shown_at) for periods in rows)

        wait_until(lambda: lost() == 0.0)


def fill(ballast: Path) -> None:
    """Fill a file system until nothing fits, whatever else is written to it meanwhile."""
    block = bytes(4096)
    with ballast.open("wb", buffering=0) as file, pytest.raises(OSError) as failure:
        while True:
            file.write(block)
    assert failure.value.errno == errno.ENOSPC
