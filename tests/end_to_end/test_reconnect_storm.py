"""A reconnect storm: when the hub is back, agents reconnect spread over time."""

import asyncio
import contextlib
import threading
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from fleet_smi.client.connection import HubConnection
from fleet_smi.node.buffer import ReportBuffer
from fleet_smi.node.credential_file import CredentialFile
from fleet_smi.node.hub_session import HubSession
from fleet_smi.node.outlets.push import PushOutlet
from fleet_smi.wire.report import Receipt, decode_report, encode_receipt
from tests.builders import gpu, snapshot
from tests.machines import wait_until

AGENTS = 300
SPREAD_SECONDS = 0.5


class Door:
    """A hub's address that closes every connection until it is opened."""

    def __init__(self) -> None:
        self.knocks: list[float] = []
        self.reports: Counter[str] = Counter()
        self.is_open = False
        self._loop = asyncio.new_event_loop()
        self._server = self._loop.run_until_complete(
            asyncio.start_server(self._answer, "127.0.0.1", 0, backlog=AGENTS)
        )
        self.port = self._server.sockets[0].getsockname()[1]
        self._thread = threading.Thread(target=self._loop.run_forever)
        self._thread.start()

    def close(self) -> None:
        """Close all sockets."""
        asyncio.run_coroutine_threadsafe(self._end(), self._loop).result()
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    async def _answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.knocks.append(time.monotonic())
        with contextlib.closing(writer), contextlib.suppress(EOFError, ConnectionError):
            while self.is_open:
                head = await reader.readuntil(b"\r\n\r\n")
                length = int(head.lower().partition(b"content-length: ")[2].split()[0])
                report = decode_report(await reader.readexactly(length))
                self.reports[report.snapshots[-1].name] += 1
                body = encode_receipt(Receipt(hub="life"))
                writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % len(body) + body)

    async def _end(self) -> None:
        self._server.close()
        others = asyncio.all_tasks() - {asyncio.current_task()}
        for task in others:
            task.cancel()
        await asyncio.gather(*others, return_exceptions=True)


@pytest.fixture
def door() -> Iterator[Door]:
    made = Door()
    yield made
    made.close()


def agents(door: Door, folder: Path, stack: ExitStack) -> None:
    """The agents, each with one report to send."""
    for number in range(AGENTS):
        connection = HubConnection(f"http://127.0.0.1:{door.port}")
        outlet = PushOutlet(HubSession(connection, CredentialFile(str(folder))), ReportBuffer(None))
        stack.callback(outlet.close)
        outlet.publish(snapshot(gpu(), node=f"node{number}", sequence=1, run_id="life"))


def test_reconnecting_agents_are_spread_over_time(door: Door, tmp_path: Path) -> None:
    with ExitStack() as stack:
        agents(door, tmp_path, stack)
        wait_until(lambda: len(door.knocks) > 1.5 * AGENTS)
        door.is_open = True
        wait_until(lambda: len(door.reports) == AGENTS)
    knocks = door.knocks[AGENTS:]  # at first they cannot know better
    # Most of them, over their back-off of up to two seconds. A busy machine can only prolong that.
    assert knocks[len(knocks) * 9 // 10] - knocks[len(knocks) // 10] > SPREAD_SECONDS
    assert len(door.knocks) < 4 * AGENTS
    assert set(door.reports.values()) == {1}
