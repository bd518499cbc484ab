"""A real hub for tests: a whole `HubServer` in a thread, with its own state folder."""

import asyncio
import threading
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path
from typing import Any, Literal, Self

import msgspec

from fleet_smi import config
from fleet_smi.client.connection import HubConnection, Response
from fleet_smi.client.hub import HubClient
from fleet_smi.client.responses import decode_join_token
from fleet_smi.fleet.delivery import Delivery, Source
from fleet_smi.model.fleet import FleetView
from fleet_smi.model.snapshot import Snapshot
from fleet_smi.server.hub_server import HubServer
from fleet_smi.wire.report import encode_report, encode_snapshot
from tests.machines import wait_until

REPORTS_PATH = "/api/v1/reports"
FAST_SETTINGS = {"hub.stream_interval": "0.1s", "hub.remember_interval": "1s"}


class ThreadedHub:
    """Runs in a thread until `stop`; settings by their names, with `__` for the dot."""

    def __init__(self, folder: Path, sources: Sequence[Source] = (), **settings: Any) -> None:
        self.folder = folder
        named = {name.replace("__", "."): value for name, value in settings.items()}
        flags = {"hub.listen": "127.0.0.1:0", "hub.state": str(folder), **FAST_SETTINGS, **named}
        self.settings = config.load({"HOME": str(folder)}, flags=flags)
        self.server = HubServer(self.settings.hub, sources, self.settings.thresholds)
        self.url = self.server.url
        self._loop = asyncio.new_event_loop()
        self._task = self._loop.create_task(self.server.run())
        self._thread = threading.Thread(target=self._run_loop, name="hub")
        self._thread.start()
        # Or done: a hub that fails to start must not keep the test waiting.
        wait_until(lambda: self.server.hub.ready or self._task.done())

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def stop(self) -> None:
        """Stop it as a signal would, and close everything."""
        if self._thread.is_alive():
            self._loop.call_soon_threadsafe(self._task.cancel)
            self._thread.join()
            self.server.close()

    def token(self, role: Literal["viewer", "admin", "join"], **limits: Any) -> str:
        """Add a token, which the hub accepts when this returns."""
        secret = self.server.credentials.tokens.add(role, **limits).secret
        self.server.credentials.refresh()
        return secret

    def join(self, node_id: str, name: str, join_token: str | None = None) -> str:
        """Join a node, by default with a new join token; return the node's own token."""
        token = join_token or self.token("join", max_uses=1)
        body = {"node_id": node_id, "name": name}
        response = self.request_json("POST", "/api/v1/join", body, token=token)
        assert response.status == 200, response
        return decode_join_token(response.body)

    def request(
        self,
        method: str,
        path: str,
        body: bytes | None = None,
        *,
        token: str | None = None,
        **headers: str,
    ) -> Response:
        """Send one request on a new connection."""
        fields = {name.replace("_", "-"): value for name, value in headers.items()}
        pin = self.server.fingerprint
        with closing(HubConnection(self.url, token=token, fingerprint=pin)) as connection:
            return connection.request(method, path, body, fields)

    def request_json(
        self, method: str, path: str, value: Any, *, token: str | None = None
    ) -> Response:
        """Send one request with a JSON body."""
        body = msgspec.json.encode(value)
        return self.request(method, path, body, token=token, Content_Type="application/json")

    def report(
        self,
        *snapshots: Snapshot,
        token: str,
        sent_at: float | None = None,
        continued: str | None = None,
    ) -> Response:
        """Send a report of these snapshots, oldest first, as a node does.

        `continued` is the `hub` of the receipt for the report before.
        """
        body = encode_report(
            [encode_snapshot(each) for each in snapshots],
            sent_at or snapshots[-1].taken_at,
            continued,
        )
        return self.request(
            "POST", REPORTS_PATH, body, token=token, Content_Type="application/msgpack"
        )

    def join_and_report(self, *snapshots: Snapshot) -> str:
        """Join a node and send its report; return its token."""
        token = self.join(snapshots[0].node_id, snapshots[0].name)
        response = self.report(*snapshots, token=token)
        assert response.status == 200, response
        return token

    def wait_until_published(self) -> None:
        """Wait until every received report has been published to subscribers."""
        wait_until(lambda: not self.server.hub.fleet._dirty)

    def deliver(self, delivery: Delivery) -> None:
        """Deliver what a source would, on the hub's own loop."""
        done = threading.Event()

        def run() -> None:
            self.server.hub.deliver(delivery)
            done.set()

        self._loop.call_soon_threadsafe(run)
        assert done.wait(60)

    def fleet(self) -> FleetView:
        """Return its current view of the fleet."""
        with closing(HubClient(self.url)) as client:
            return client.fleet()

    def _run_loop(self) -> None:
        try:
            self._loop.run_until_complete(asyncio.wait([self._task]))
            self._loop.run_until_complete(self._loop.shutdown_asyncgens())
            self._loop.run_until_complete(self._loop.shutdown_default_executor())
        finally:
            self._loop.close()


def error_code(response: Response) -> str:
    """Return the code of an error response; check that it has the common shape."""
    assert response.headers["content-type"] == "application/json"
    fields = msgspec.json.decode(response.body)
    assert set(fields) == {"error"}
    assert set(fields["error"]) == {"code", "message"}
    assert fields["error"]["message"]
    code: str = fields["error"]["code"]
    return code
