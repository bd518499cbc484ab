"""Simulated nodes that report through the real outlet of an agent, and know what they reported.

    python -m tests.hub.cluster.simulated_nodes FOLDER COUNT PREFIX JOIN_TOKEN URL,URL,…

The line "stop" on its input ends all processes, waits until everything is sent, and prints what was
reported as JSON.
"""

import secrets
import sys
import threading
import time
from pathlib import Path

import msgspec
from msgspec import Struct

from fleet_smi.model.snapshot import Snapshot
from fleet_smi.node.buffer import ReportBuffer
from fleet_smi.node.credential_file import CredentialFile
from fleet_smi.node.failover_session import FailoverSession
from fleet_smi.node.outlets.push import PushOutlet
from tests.builders import gpu, process
from tests.machines import wait_until

_PROCESS_SECONDS = 6.0


class ReportedNode(Struct):
    """What a node reported: up to which number, and which process from when to when."""

    node_id: str
    run_id: str
    last_sequence: int = -1
    processes: dict[int, tuple[float, float]] = {}


class _Node:
    def __init__(self, folder: Path, name: str, urls: list[str], join_token: str) -> None:
        self.name = name
        self.reported = ReportedNode(f"id-of-{name}", secrets.token_hex(4))
        state = folder / name
        state.mkdir(parents=True)
        session = FailoverSession.connect(",".join(urls), CredentialFile(str(state)), join_token)
        self._buffer = ReportBuffer(None)
        self.outlet = PushOutlet(session, self._buffer)

    def sample(self, interval: float, pid: int | None) -> None:
        reported, now = self.reported, time.time()
        reported.last_sequence += 1
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

    @property
    def is_sent(self) -> bool:
        """Whether a hub has received everything."""
        return not self._buffer._waiting and self._buffer._in_flight is None


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
        """End all processes, wait until a hub has all that was reported, and return it."""
        self._is_ending = True
        ending = [node.reported.last_sequence + 3 for node in self._nodes]
        wait_until(
            lambda: all(
                node.reported.last_sequence >= last
                for node, last in zip(self._nodes, ending, strict=True)
            )
        )
        self._stop.set()
        self._thread.join()
        wait_until(lambda: all(node.is_sent for node in self._nodes))
        self.close()
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
                age = time.monotonic() - started + number % 7
                pid = None if self._is_ending else 1000 + int(age / _PROCESS_SECONDS)
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
