"""The figures of a simulated fleet as Prometheus text: `import_load.py URL PATH NODES GPUS`.

Started as a file in fleet-smi's own environment. Every node sends the figures that the hub's
history records, once a second over its own connection, at the pace of `fleet-smi simulate`, and
progress is printed as that prints it.
"""

import asyncio
import gc
import sys
import time

import uvloop

from fleet_smi.cli.commands.simulate import format_counters
from fleet_smi.model.figures import RECORDED_GPU_FIGURES
from fleet_smi.model.snapshot import Snapshot
from fleet_smi.simulation.counters import LoadCounters
from fleet_smi.simulation.http_client import RawConnection, RawResponse
from fleet_smi.simulation.large_fleet import large_fleet
from fleet_smi.simulation.simulated_agent import HubEndpoint

_TICK_SECONDS, _PROGRESS_SECONDS = 0.004, 5.0
# Texts made beforehand for each node: the load should cost less than what it measures.
_VARIANTS, _VARIANT_SECONDS = 3, 7.0


def figures_text(snapshot: Snapshot) -> bytes:
    """Return the recorded figures of a node, one line each."""
    lines = []
    for gpu in snapshot.gpus:
        labels = f'{{node="{snapshot.name}",gpu="{gpu.uuid}"}}'
        for figure in RECORDED_GPU_FIGURES:
            value = getattr(gpu, figure.field)
            if value is not None:
                lines.append(f"gpu_{figure.field}{labels} {float(value):g}\n")
    return "".join(lines).encode()


class ImportingNode:
    """One node: a connection, and the texts that it sends in turn."""

    def __init__(self, head: bytes, texts: list[bytes], counters: LoadCounters) -> None:
        self._requests = [b"%b%d\r\n\r\n%b" % (head, len(text), text) for text in texts]
        self._counters = counters
        self._sent_at: float | None = None
        self._turn = 0
        self._connection: RawConnection | None = None

    async def connect(self, hub: HubEndpoint) -> None:
        """Open the connection."""
        _, self._connection = await asyncio.get_running_loop().create_connection(
            lambda: RawConnection(self._handle_response, sys.exit), hub.host, hub.port
        )

    def send(self) -> None:
        """Send the next text, unless the last one is not answered yet."""
        if self._connection is None or self._sent_at is not None:
            self._counters.late += 1
            return
        self._turn += 1
        self._counters.sent += 1
        self._sent_at = time.perf_counter()
        self._connection.send_request(self._requests[self._turn % len(self._requests)])

    def _handle_response(self, response: RawResponse) -> None:
        sent_at, self._sent_at = self._sent_at, None
        if response.status >= 300 or sent_at is None:
            self._counters.failed += 1
        else:
            self._counters.acknowledge(time.perf_counter() - sent_at)


async def pace(nodes: list[ImportingNode]) -> None:
    """Send one text per node and second, until killed."""
    clock = asyncio.get_running_loop().time
    started, done = clock(), 0
    while True:
        due = int((clock() - started) * len(nodes)) + 1
        for slot in range(done, due):
            nodes[slot % len(nodes)].send()
        done = due
        await asyncio.sleep(max(_TICK_SECONDS, started + done / len(nodes) - clock()))


async def print_progress(counters: LoadCounters) -> None:
    """Print what was sent in each period."""
    while True:
        before = counters.copy()
        await asyncio.sleep(_PROGRESS_SECONDS)
        print(format_counters(counters.since(before)), flush=True)


async def run(url: str, path: str, node_count: int, gpu_count: int) -> None:
    """Connect all nodes and send until killed."""
    hub, counters, start = HubEndpoint.parse(url), LoadCounters(), time.time()
    scenario = large_fleet(node_count, gpu_count, seed=1, start=start)
    head = hub.request_head(path, None, "octet-stream")
    nodes = []
    for index in range(node_count):
        times = [start + variant * _VARIANT_SECONDS for variant in range(_VARIANTS)]
        texts = [figures_text(scenario.snapshot(index, at, 0)) for at in times]
        nodes.append(ImportingNode(head, texts, counters))
    gc.freeze()
    for node in nodes:
        await node.connect(hub)
    await asyncio.gather(pace(nodes), print_progress(counters))


if __name__ == "__main__":
    uvloop.run(run(sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4])))
