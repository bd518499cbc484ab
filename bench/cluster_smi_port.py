"""Runs in fleet-smi's own environment: a port for nodes of cluster-smi, and what a report costs.

Started as a file, so it imports nothing of this project but what is installed. A child of it
pushes reports of 8 GPUs from 50 connections, as fast as they are taken. Each line on stdin
names how much is done with a report: `receive`, `translate` or `deliver`. It is answered with
the CPU seconds that one cost this process, all its threads included.
"""

import asyncio
import gc
import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from functools import partial
from typing import Any

import uvloop

from fleet_smi.compat.cluster_smi import sockets as zeromq
from fleet_smi.compat.cluster_smi.codec import encode_node
from fleet_smi.compat.cluster_smi.source import ClusterSmiSource
from fleet_smi.fleet.delivery import Delivery
from fleet_smi.fleet.fleet import FleetState, Via
from fleet_smi.model.snapshot import Gpu, Process, Snapshot

NODES, SECONDS = 50, 1.0
_WARM_UP_SECONDS = 0.5
_GIB = 1 << 30
_SELDOM = (50_000, 20, 100)  # same thresholds as the hub


def make_report(number: int) -> bytes:
    """Return a node of 8 GPUs with a process on each of the first six."""
    processes = [
        (Process(pid=4711 + at, kind="compute", user="alice", name="python", **_TRAINING),)
        if at < 6
        else ()
        for at in range(8)
    ]
    gpus = [Gpu(uuid="", index=at, processes=processes[at], **_CARD) for at in range(8)]
    now = time.time()
    return encode_node(Snapshot(node_id="x", name=f"node{number}", taken_at=now, gpus=tuple(gpus)))


_TRAINING: Any = {
    "gpu_memory_bytes": 61 * _GIB,
    "command": "python train.py --epochs 90 --lr 0.1",
    "started_at": time.time() - 7200,
}
_CARD: Any = {
    "vendor": "nvidia",
    "name": "NVIDIA A100-SXM4-80GB",
    "memory_used_bytes": 61 * _GIB,
    "memory_total_bytes": 80 * _GIB,
    "busy_percent": 87,
    "temperature_celsius": 64,
    "fan_percent": 40,
    "power_watts": 312,
}


def push_reports(endpoint: str) -> None:
    """Push reports until the parent process exits."""
    threading.Thread(target=lambda: (sys.stdin.read(), os._exit(0)), daemon=True).start()
    zmq = zeromq.import_zmq()
    context = zmq.Context()
    sockets = [context.socket(zmq.PUSH) for _ in range(NODES)]
    for socket in sockets:
        socket.connect(endpoint)
    reports = [make_report(number) for number in range(NODES)]
    while True:
        for socket, report in zip(sockets, reports, strict=True):
            socket.send(report)


class MessageCounter:
    """Counts received reports; `deliver` also applies them to a fleet."""

    def __init__(self) -> None:
        self.count = 0
        self._fleet = FleetState()

    def receive(self, socket: "zeromq.Socket") -> None:
        zeromq.receive_single_frame(socket)
        self.count += 1

    def translate(self, _: Delivery) -> None:
        self.count += 1

    def deliver(self, delivery: Delivery) -> None:
        assert isinstance(delivery.result, Snapshot)
        self._fleet.apply(delivery.result, time.time(), Via(delivery.source, delivery.target))
        self.count += 1


async def measure_cost(endpoint: str, stage: str) -> float:
    """Return the CPU seconds per report over a window of a few seconds."""
    tally = MessageCounter()
    running: Callable[[], Any]
    if stage == "receive":
        running = partial(zeromq.BoundSocket("PULL", endpoint, 1 << 20).run, tally.receive)
    else:
        running = partial(ClusterSmiSource(listen_endpoint=endpoint).run, getattr(tally, stage))
    task = asyncio.ensure_future(running())
    await asyncio.sleep(_WARM_UP_SECONDS)
    before, began = tally.count, time.process_time()
    await asyncio.sleep(SECONDS)
    seconds = (time.process_time() - began) / max(1, tally.count - before)
    task.cancel()
    await asyncio.wait([task])
    return seconds


def main() -> None:
    """Answer each line of standard input."""
    gc.freeze()
    gc.set_threshold(*_SELDOM)
    endpoint = zeromq.resolve_bind_endpoint("127.0.0.1", 0, open_to_all=False)
    # It reads our pipe, so it ends when this process does, however that happens.
    child = [sys.executable, "-I", __file__, endpoint]
    with subprocess.Popen(child, stdin=subprocess.PIPE, stdout=subprocess.DEVNULL):
        for line in sys.stdin:
            with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
                print(runner.run(measure_cost(endpoint, line.strip())), flush=True)


if __name__ == "__main__":
    push_reports(sys.argv[1]) if len(sys.argv) > 1 else main()
