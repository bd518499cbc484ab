"""Simulated nodes that report through the real outlet of an agent, and know what they reported.

    python -m tests.hub.cluster.simulated_nodes FOLDER COUNT PREFIX JOIN_TOKEN URL,URL,… INTERVAL

The line "stop" on its input ends all processes. The nodes report on until a receipt says that the
end of their processes is durable; then what was reported is printed as JSON.
"""

import secrets
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path

import msgspec
from msgspec import Struct

from fleet_smi.model.snapshot import Snapshot
from fleet_smi.node.buffer import ReportBuffer
from fleet_smi.node.credential_file import CredentialFile
from fleet_smi.node.failover_session import FailoverSession
from fleet_smi.node.hub_session import HubSession
from fleet_smi.node.outlets.push import PushOutlet
from fleet_smi.wire.report import Receipt
from tests.builders import gpu, process
from tests.machines import wait_until

_PROCESS_INTERVALS = 4
"""How many reports of a node have the same process."""
_REPORTS_AFTER_END = 3
FINISH_SECONDS = 300.0
"""How long all reports may take to become durable, after everything has healed."""


class ReportedNode(Struct):
    """What a node reported: from when on, up to which number, which process from when to when."""

    node_id: str
    run_id: str
    begun: float = 0.0
    ended: float = 0.0
    last_sequence: int = -1
    processes: dict[int, tuple[float, float]] = {}


class ReceiptSession(FailoverSession):
    """A session that knows the last receipt."""

    kept: int | None = None

    def _send(self, send: Callable[[HubSession], Receipt]) -> Receipt:
        receipt = super()._send(send)
        self.kept = receipt.kept
        return receipt


class _Node:
    def __init__(self, folder: Path, name: str, urls: list[str], join_token: str) -> None:
        self.name = name
        self.reported = ReportedNode(f"id-of-{name}", secrets.token_hex(4))
        state = folder / name
        state.mkdir(parents=True)
        self._session = ReceiptSession.connect(
            ",".join(urls), CredentialFile(str(state)), join_token
        )
        self.outlet = PushOutlet(self._session, ReportBuffer(None))

    def sample(self, interval: float, pid: int | None) -> None:
        reported, now = self.reported, time.time()
        reported.last_sequence += 1
        reported.begun, reported.ended = reported.begun or now, now
        if pid is not None:
            first, _ = reported.processes.get(pid, (now, now))
            reported.processes[pid] = first, now
        running = () if pid is None else (process(pid, started_at=None),)
        self.outlet.publish(
            Snapshot(
                node_id=reported.node_id,
                name=self.name,
                taken_at=now,
                interval_seconds=interval,
                sequence=reported.last_sequence,
                run_id=reported.run_id,
                boot_id="boot-1",
                gpus=(gpu(0, processes=running, busy_percent=90.0 if running else 0.0),),
            )
        )

    def is_durable(self, sequence: int) -> bool:
        """Whether the last receipt says that everything up to this number is durable."""
        return self._session.kept is not None and self._session.kept >= sequence


class SimulatedNodes:
    """Nodes that report every `interval` seconds from one thread; each sends from its own."""

    def __init__(
        self, folder: Path, names: list[str], urls: list[str], token: str, interval: float
    ) -> None:
        self._nodes = [_Node(folder, name, urls, token) for name in names]
        self._interval = interval
        self._is_ending = False
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="nodes")
        self._thread.start()

    def finish(self) -> list[ReportedNode]:
        """End all processes, wait until receipts say that this is durable, and return it."""
        self._is_ending = True
        ending = [(node, node.reported.last_sequence + _REPORTS_AFTER_END) for node in self._nodes]
        wait_until(
            lambda: all(node.is_durable(sequence) for node, sequence in ending), FINISH_SECONDS
        )
        self.close()
        for node, sequence in ending:
            node.reported.last_sequence = sequence
        return [node.reported for node in self._nodes]

    def close(self) -> None:
        """Stop reporting."""
        self._stop.set()
        self._thread.join()
        for node in self._nodes:
            node.outlet.close()

    def _run(self) -> None:
        started = time.monotonic()
        count, done = len(self._nodes), 0
        while not self._stop.is_set():
            due = int((time.monotonic() - started) * count / self._interval) + 1
            for slot in range(done, due):
                number = slot % count
                # Processes of different nodes end at different times.
                lifetime = slot // count + number % (2 * _PROCESS_INTERVALS)
                pid = None if self._is_ending else 1000 + lifetime // _PROCESS_INTERVALS
                self._nodes[number].sample(self._interval, pid)
            done = due
            self._stop.wait(0.01)


def main() -> None:
    """Run nodes until the line `stop`."""
    folder, count, prefix, token, urls = sys.argv[1:6]
    names = [f"{prefix}{number:04}" for number in range(int(count))]
    nodes = SimulatedNodes(Path(folder), names, urls.split(","), token, float(sys.argv[6]))
    sys.stdin.readline()
    sys.stdout.buffer.write(msgspec.json.encode(nodes.finish()) + b"\n")


if __name__ == "__main__":
    main()
