"""Reports of all versions over a connection that loses, doubles and reorders them, with restarts
of either side: nothing is missing, and what the hub shows is what the agent has read."""

import time
from collections import Counter
from contextlib import suppress
from pathlib import Path
from random import Random

import pytest

from fleet_smi.client.connection import HubConnection, Response
from fleet_smi.errors import DeliveryError, Unreachable
from fleet_smi.model.snapshot import Snapshot
from fleet_smi.node import compact_base
from fleet_smi.node.buffer import ReportBuffer
from fleet_smi.node.credential_file import CredentialFile
from fleet_smi.node.hub_session import HubSession
from fleet_smi.node.outlets.push import PushOutlet
from fleet_smi.node.spool import Spool
from fleet_smi.wire.compact import CompactReport
from fleet_smi.wire.compact_codec import encode_compact, is_compact
from fleet_smi.wire.packed import is_packed
from tests.builders import gpu, process, snapshot
from tests.delivery.transports import NoCompactReports
from tests.ports import free_port
from tests.server.threaded_hub import ThreadedHub

SAMPLES = 240
NODE_ID = "0123456789abcdef0123456789abcdef"


class UnreliableConnection(HubConnection):
    """Loses requests and answers, sends some twice and some again much later."""

    def __init__(self, url: str, random: Random) -> None:
        super().__init__(url)
        self._random = random
        self._earlier: list[bytes] = []
        self.is_reliable = False
        self.accepted, self.refused = Counter[int](), Counter[int]()

    def request(
        self,
        method: str,
        path: str,
        body: bytes | None = None,
        headers: dict[str, str] | None = None,
        max_bytes: int = 1 << 20,
    ) -> Response:
        """Send a request, unless something happens to it."""
        if self.is_reliable or path != "/api/v1/reports":
            return super().request(method, path, body, headers, max_bytes)
        chance = self._random.random()
        if chance < 0.05:
            raise Unreachable("the request was lost")
        if chance < 0.1 and self._earlier:
            late = self._random.choice(self._earlier)
            super().request(method, path, late, headers, max_bytes)
        if chance < 0.15:
            super().request(method, path, body, headers, max_bytes)
        response = super().request(method, path, body, headers, max_bytes)
        if body is not None:
            self._earlier = [*self._earlier[-5:], body]
            version = 2 if is_compact(body) else 3 if is_packed(body) else 1
            self.accepted[version] += response.status == 200
            self.refused[version] += response.status == 409
        if chance > 0.95:
            raise Unreachable("the answer was lost")
        return response


class SecondVersion(HubSession):
    """The session of an agent from before packed reports."""

    def _encode_compact(self, report: CompactReport, hub: str) -> bytes:
        return encode_compact(report, time.time(), hub)


class Lab:
    """A hub and an agent, either of which can be started again."""

    def __init__(self, folder: Path, version: int, random: Random) -> None:
        self._folder, self._version, self._random = folder, version, random
        self._port, self._run = free_port(), 0
        self._join: str | None = None
        self.hub = self._start_hub()
        self._join = self.hub.token("join")
        self.connection, self.outlet = self._start_agent()

    def restart_hub(self) -> None:
        """Stop the hub; the next one continues with what is on disk."""
        self.hub.stop()
        self.hub = self._start_hub()

    def restart_agent(self) -> None:
        """Stop the agent; the next run continues with its spool, and numbers of its own."""
        self.outlet.close()
        accepted, refused = self.connection.accepted, self.connection.refused
        self.connection, self.outlet = self._start_agent()
        self.connection.accepted, self.connection.refused = accepted, refused

    def close(self) -> None:
        self.outlet.close()
        self.hub.stop()

    @property
    def run_id(self) -> str:
        return f"run-{self._run}"

    def _start_hub(self) -> ThreadedHub:
        return ThreadedHub(self._folder / "hub", hub__listen=f"127.0.0.1:{self._port}")

    def _start_agent(self) -> tuple[UnreliableConnection, PushOutlet]:
        self._run += 1
        connection = UnreliableConnection(f"http://127.0.0.1:{self._port}", self._random)
        kind = SecondVersion if self._version == 2 else HubSession
        session = kind(connection, CredentialFile(str(self._folder / "agent")), self._join)
        outlet = PushOutlet(session, ReportBuffer(Spool(str(self._folder / "spool"))))
        if self._version == 1:
            outlet._compact_base = NoCompactReports()
        return connection, outlet


def next_sample(random: Random, number: int, run_id: str) -> Snapshot:
    """Figures that move at every sample, and processes that come and go now and then."""
    busy = tuple(
        process(4711 + each, cpu_percent=100.0 * random.random())
        for each in range(1 + number // 40 % 2)
    )
    return snapshot(
        gpu(0, busy_percent=float(random.randrange(1, 101)), processes=busy),
        gpu(1, power_watts=70.0 + random.random()),
        node="gpu01",
        node_id=NODE_ID,
        sequence=number,
        run_id=run_id,
        taken_at=time.time(),
    )


@pytest.mark.parametrize("version", [1, 2, 3])
def test_nothing_is_missing_or_wrong_after_loss_doubling_reordering_and_restarts(
    version: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Each refusal would pause compact reports for minutes, and few of them would be sent.
    monkeypatch.setattr(compact_base, "FULL_REPORT_SECONDS", 0.05)
    random = Random(version)
    lab = Lab(tmp_path, version, random)
    try:
        number = 0
        for step in range(1, SAMPLES + 1):
            if step % 80 == 40:
                lab.restart_hub()
            if step % 80 == 0:
                lab.restart_agent()
                number = 0
            number += 1
            sample = next_sample(random, number, lab.run_id)
            with suppress(DeliveryError):
                lab.outlet.deliver(sample)
                latest = lab.hub.server.hub.fleet.latest_snapshot(NODE_ID)
                assert latest == sample
        lab.connection.is_reliable = True
        lab.outlet.deliver(last := next_sample(random, number + 1, lab.run_id))
        assert lab.hub.server.hub.fleet.latest_snapshot(NODE_ID) == last
        (node,) = lab.hub.fleet().nodes
        assert (node.missing_reports, node.sequence) == (0, number + 1)
        # How many depends on the pauses between them, which are a matter of time.
        assert lab.connection.accepted.keys() <= {1, version}
        assert lab.connection.accepted[version] > 0
        assert version == 1 or lab.connection.refused[version] > 0
    finally:
        lab.close()
