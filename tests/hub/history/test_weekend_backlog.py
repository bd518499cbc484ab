"""After a weekend without a hub, agents send full spools to one with a slow disk: all is found."""

import logging
import os
import time
from collections.abc import Iterator
from contextlib import ExitStack, closing, suppress
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import event

from fleet_smi.client.connection import HubConnection
from fleet_smi.client.hub import HubClient
from fleet_smi.errors import FleetError
from fleet_smi.hub.history.queries.sql import HistoryQueries
from fleet_smi.hub.history.storage.store import open_history
from fleet_smi.model.history import Occupancy
from fleet_smi.model.snapshot import Snapshot
from fleet_smi.node.buffer import ReportBuffer
from fleet_smi.node.buffered_sample import BufferedSample
from fleet_smi.node.credential_file import CredentialFile
from fleet_smi.node.hub_session import HubSession
from fleet_smi.node.outlets.push import PushOutlet
from fleet_smi.node.spool import Spool
from fleet_smi.wire.report import Receipt, encode_snapshot
from tests.builders import gpu, process, snapshot
from tests.machines import wait_until
from tests.server.threaded_hub import ThreadedHub

LONG = bool(os.environ.get("FLEET_SMI_LONG"))
AGENTS, HOURS = (50, 62) if LONG else (4, 6)
INTERVAL_SECONDS = 60.0
SAMPLES = round(HOURS * 3600 / INTERVAL_SECONDS)
SAMPLES_PER_JOB = 10
GPUS = 4
COMMIT_SECONDS = 1.0 if LONG else 0.4
# So small that the backlog does not fit.
MAX_QUEUED_BYTES = (8 << 20) if LONG else 150_000
TIMEOUT_SECONDS = 3600.0 if LONG else 120.0


class RecordingSession(HubSession):
    """A session that remembers up to which number the hub has called samples durable."""

    durable = -1

    def send_report(self, *args: Any, **kwargs: Any) -> Receipt:
        receipt = super().send_report(*args, **kwargs)
        if receipt.kept is not None:
            self.durable = receipt.kept
        return receipt


class Agent:
    """An agent whose spool is full of the samples of a weekend."""

    def __init__(self, number: int, folder: Path, start: float) -> None:
        self.name = f"node{number:02d}"
        self._folder = folder / self.name
        self._spool = Spool(str(self._folder / "spool"))
        for sequence in range(SAMPLES):
            taken = self._sample(sequence, start + sequence * INTERVAL_SECONDS)
            self._spool.append(BufferedSample("run", sequence, encode_snapshot(taken)))
        self._sequence = SAMPLES
        self._outlet: PushOutlet | None = None
        self._session: RecordingSession | None = None

    def connect(self, url: str, token: str) -> None:
        """Start to send, the oldest first."""
        self._folder.mkdir(exist_ok=True)
        credentials = CredentialFile(str(self._folder))
        self._session = RecordingSession(HubConnection(url), credentials, token)
        self._outlet = PushOutlet(self._session, ReportBuffer(self._spool))

    def report(self) -> None:
        """Take one more sample: receipts, which say what is durable, are for reports only."""
        assert self._outlet is not None
        self._outlet.publish(self._sample(self._sequence, time.time()))
        self._sequence += 1

    @property
    def is_done(self) -> bool:
        """Whether the hub has called all of the weekend durable."""
        return self._session is not None and self._session.durable >= SAMPLES - 1

    def close(self) -> None:
        if self._outlet is not None:
            self._outlet.close()

    def _sample(self, sequence: int, taken_at: float) -> Snapshot:
        # A job on each GPU, and another one after every few samples.
        pid = 1000 + sequence // SAMPLES_PER_JOB
        cards = [
            gpu(
                index,
                uuid=f"GPU-{self.name}-{index}",
                busy_percent=95.0,
                processes=(process(pid, started_at=float(pid)),),
            )
            for index in range(GPUS)
        ]
        return snapshot(
            *cards,
            node=self.name,
            taken_at=taken_at,
            sequence=sequence,
            run_id="run",
            interval_seconds=INTERVAL_SECONDS,
        )


def slow_down(hub: ThreadedHub) -> None:
    """Make every write to the database slow, and the queue before it small."""
    assert hub.server.archive is not None
    writer = hub.server.archive._writer
    writer._max_queued_bytes = MAX_QUEUED_BYTES

    @event.listens_for(hub.server.archive._store._writing_engine, "commit")
    def wait(*_: object) -> None:
        time.sleep(COMMIT_SECONDS)


@pytest.fixture
def agents(tmp_path: Path) -> Iterator[list[Agent]]:
    start = time.time() - (SAMPLES + 2) * INTERVAL_SECONDS
    with ExitStack() as stack:
        made = [Agent(number, tmp_path, start) for number in range(AGENTS)]
        for agent in made:
            stack.callback(agent.close)
        yield made


@pytest.mark.timeout(2 * TIMEOUT_SECONDS)
def test_all_of_a_weekend_is_found_after_a_slow_disk_has_taken_it(
    agents: list[Agent], where: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.WARNING)
    with ThreadedHub(tmp_path / "hub", hub__history=where, hub__history_keep_10s="1h") as hub:
        slow_down(hub)
        token = hub.token("join", max_uses=AGENTS)
        for agent in agents:
            agent.connect(hub.url, token)
        with closing(HubClient(hub.url)) as client:

            def all_done() -> bool:
                for agent in agents:
                    agent.report()
                # Sums that are queried meanwhile are written early, and must not stay.
                with suppress(FleetError):  # nothing is recorded yet, or the hub is very busy
                    client.usages("1h")
                return all(agent.is_done for agent in agents)

            wait_until(all_done, TIMEOUT_SECONDS)
            nodes = client.fleet().nodes
        assert {node.name: node.missing_reports for node in nodes} == {
            agent.name: 0 for agent in agents
        }
    assert "written more slowly than old reports arrive" in caplog.text  # it was too much at once
    check_history(where, agents)


def check_history(where: str, agents: list[Agent]) -> None:
    store = open_history(where)
    queries, now = HistoryQueries(store), time.time()
    start = now - 2 * HOURS * 3600
    assert queries.gaps(0.0, now) == []
    by_gpu: dict[tuple[str, int], dict[int, list[Occupancy]]] = {}
    for row in queries.occupancies(start, now):
        by_pid = by_gpu.setdefault((row.gpu.node, row.gpu.index), {})
        for one in row.occupancies:
            by_pid.setdefault(one.holder.pid, []).append(one)
    jobs = SAMPLES // SAMPLES_PER_JOB
    whole = SAMPLES_PER_JOB * INTERVAL_SECONDS
    for agent in agents:
        for index in range(GPUS):
            found = by_gpu[agent.name, index]
            for pid in range(1000, 1000 + jobs - 1):
                (one,) = found[pid]  # once
                # On a busy machine the time of a report is off by what it waited for the hub.
                assert one.sums.gpu_seconds == pytest.approx(whole, abs=INTERVAL_SECONDS)
    # The current hour is in the checkpoints: it is left out.
    hour = (now - 3600 - INTERVAL_SECONDS) // 3600 * 3600
    first = (start + HOURS * 3600) // 3600 * 3600 + 3600
    sums = queries.usages(first, hour, "gpu")
    assert len(sums.rows) == AGENTS * GPUS
    for usage in sums.rows:
        assert usage.sums.gpu_seconds == pytest.approx(sums.end - sums.start, abs=1.0)
    store.close()
