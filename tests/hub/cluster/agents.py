"""Agents for tests of a cluster: the real outlet, buffer and sessions, with made-up GPUs."""

import secrets
import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Self

from fleet_smi.model.snapshot import Gpu, Snapshot
from fleet_smi.node.buffer import ReportBuffer
from fleet_smi.node.credential_file import CredentialFile
from fleet_smi.node.failover_session import FailoverSession
from fleet_smi.node.outlets.push import PushOutlet
from fleet_smi.wire.compact import CompactReport
from fleet_smi.wire.report import Receipt
from tests.builders import gpu, process

INTERVAL_SECONDS = 0.25


class CountingSession(FailoverSession):
    """A session that counts the compact reports that hubs have taken."""

    compact_reports = 0

    def send_compact(self, report: CompactReport, hub: str) -> Receipt:
        """Send a compact report, and count it if it was taken."""
        receipt = super().send_compact(report, hub)
        self.compact_reports += 1
        return receipt


class Agent:
    """Reports one node every `INTERVAL_SECONDS` from a thread, until it is closed."""

    def __init__(
        self,
        folder: Path,
        name: str,
        urls: Sequence[str],
        join_token: str,
        gpus: Callable[[], tuple[Gpu, ...]] | None = None,
    ) -> None:
        self.name = name
        self.node_id = f"id-of-{name}"
        self.sequence = -1
        self._gpus = gpus or (lambda: (gpu(0, processes=(process(),), busy_percent=90.0),))
        self._run_id = secrets.token_hex(4)
        state = folder / f"agent-{name}"
        state.mkdir(parents=True, exist_ok=True)
        credentials = CredentialFile(str(state))
        self.session = CountingSession.connect(",".join(urls), credentials, join_token)
        self._outlet = PushOutlet(self.session, ReportBuffer(None))
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name=f"agent {name}")
        self._thread.start()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Stop reporting."""
        self._stop.set()
        self._thread.join()
        self._outlet.close()

    def pause(self) -> None:
        """Take no more samples; what is buffered is still sent."""
        self._stop.set()
        self._thread.join()

    def _run(self) -> None:
        while not self._stop.is_set():
            self._outlet.publish(self._sample())
            self._stop.wait(INTERVAL_SECONDS)

    def _sample(self) -> Snapshot:
        self.sequence += 1
        return Snapshot(
            node_id=self.node_id,
            name=self.name,
            taken_at=time.time(),
            interval_seconds=1.0,
            sequence=self.sequence,
            run_id=self._run_id,
            boot_id="boot-1",
            gpus=self._gpus(),
        )
