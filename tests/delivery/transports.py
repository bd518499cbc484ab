"""The transports of fleet-smi for the delivery suite, each with both its real ends.

Failures are reported by the hub's end, except for `push`, where the node's end reports them.
"""

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any
from unittest.mock import patch

import msgspec

from fleet_smi.client.connection import HubConnection
from fleet_smi.errors import DeliveryError, UnsupportedVersion
from fleet_smi.fleet.delivery import Delivery, Source
from fleet_smi.fleet.fleet import FleetState, NodeCheckpoint
from fleet_smi.hub.closings import ClosingStore
from fleet_smi.hub.credentials import CredentialCache
from fleet_smi.hub.database import open_database
from fleet_smi.hub.figure_batches import FigureBatches
from fleet_smi.hub.figure_delivery import FigureRoute
from fleet_smi.hub.hub import Hub
from fleet_smi.hub.node_store import NodeStore
from fleet_smi.hub.node_summaries import NodeSummaries
from fleet_smi.hub.problems import ProblemReport
from fleet_smi.hub.queue.keeper import QueueKeeper
from fleet_smi.hub.queue.past import QueuePast
from fleet_smi.hub.queue.store import QueueStore
from fleet_smi.hub.reservations import ReservationBook
from fleet_smi.hub.sources.files import FilesSource
from fleet_smi.hub.sources.pull import PullSource
from fleet_smi.hub.sources.push import PushSource
from fleet_smi.hub.sources.self import SelfSource
from fleet_smi.hub.sources.ssh import SshSource
from fleet_smi.hub.wheelhouse import Wheelhouse
from fleet_smi.model.queue.limits import QueueLimits
from fleet_smi.model.snapshot import Snapshot
from fleet_smi.model.snapshot_figures import SnapshotFigures
from fleet_smi.node.buffer import ReportBuffer
from fleet_smi.node.compact_base import CompactBase
from fleet_smi.node.credential_file import CredentialFile as OwnCredentials
from fleet_smi.node.hub_session import HubSession
from fleet_smi.node.outlets.file import FileOutlet
from fleet_smi.node.outlets.push import PushOutlet
from fleet_smi.node.outlets.serve import ServeOutlet
from fleet_smi.node.spool import Spool
from fleet_smi.server.app import App
from fleet_smi.server.auth import AccessControl
from fleet_smi.server.middleware import AllowedHosts
from fleet_smi.server.rate_limit import AuthRateLimiter
from fleet_smi.server.services import Services
from fleet_smi.server.single_flight import SingleFlightCache
from fleet_smi.wire.prometheus import OwnMetrics
from fleet_smi.wire.report import encode_report_json
from tests.delivery.fixed_response_server import FixedResponseServer
from tests.delivery.source_runner import RecordedDeliveries, run_source
from tests.delivery.suite import (
    AuthenticatedTransport,
    BreakableTransport,
    RawTransport,
    Transport,
    sample,
)
from tests.machines import wait_until
from tests.server.loopback import serve_app
from tests.sshd import Sshd, SshNetwork, make_key

INTERVAL_SECONDS = 0.05
TIMEOUT_SECONDS = 2.0
PUSH_VERSION_1 = "push, version 1"
"""The name of a transport: an agent from before compact reports pushes to a hub of today."""


class FilesTransport(AuthenticatedTransport, RawTransport):
    """A shared folder."""

    version_error = UnsupportedVersion

    def __init__(self, folder: Path) -> None:
        self._folder = folder / "shared"
        self._folder.mkdir()
        self._outlet = FileOutlet(str(self._folder))
        self._path = self._folder
        self.source: Source = FilesSource(str(self._folder), interval_seconds=INTERVAL_SECONDS)
        self.target = ""

    def send(self, snapshot: Snapshot) -> None:
        self._outlet.deliver(snapshot)
        (self._path,) = self._folder.glob("*.fsmi")
        self.target = self._path.stem

    def send_raw(self, body: bytes) -> None:
        draft = self._folder / ".draft"
        draft.write_bytes(body)
        draft.rename(self._path)

    def block_access(self) -> None:
        """A symbolic link, which is never followed, takes the place of the file."""
        self._path.unlink()
        self._path.symlink_to("/etc/hostname")

    def disconnect(self) -> None:
        """The disk goes away."""
        self._folder.rename(self._folder.with_name("gone"))
        self.target = str(self._folder)

    def close(self) -> None:
        self._outlet.close()


class PullTransport(AuthenticatedTransport, RawTransport):
    """An agent that serves, and a hub that polls it."""

    version_error = UnsupportedVersion

    TOKEN = "t" * 40

    def __init__(self) -> None:
        self._outlet: ServeOutlet | FixedResponseServer = ServeOutlet(
            "127.0.0.1", 0, token=self.TOKEN
        )
        self.target = f"127.0.0.1:{self._outlet.port}"
        self.source: Source = self._poller(self.TOKEN)

    def send(self, snapshot: Snapshot) -> None:
        assert isinstance(self._outlet, ServeOutlet)
        self._outlet.publish(snapshot)

    def send_raw(self, body: bytes) -> None:
        self._outlet.close()
        self._outlet = FixedResponseServer(self._outlet.port, body)

    def block_access(self) -> None:
        """The agent has another token now."""
        self._outlet.close()
        self._outlet = ServeOutlet("127.0.0.1", self._outlet.port, token="another")

    def disconnect(self) -> None:
        self._outlet.close()

    def close(self) -> None:
        self._outlet.close()

    def _poller(self, token: str) -> PullSource:
        return PullSource(
            [self.target],
            token=token,
            interval_seconds=INTERVAL_SECONDS,
            timeout_seconds=TIMEOUT_SECONDS,
        )


class SshTransport(AuthenticatedTransport, RawTransport):
    """A node polled over ssh; a script in place of `fleet-smi` there prints the report."""

    version_error = UnsupportedVersion

    target = "node"

    def __init__(self, network: SshNetwork, folder: Path) -> None:
        self._network = network
        self._printed = folder / "printed"
        programs = folder / "programs"
        programs.mkdir()
        program = programs / "fleet-smi"
        program.write_text(f"#!/bin/sh\nexec cat {self._printed}\n")
        program.chmod(0o755)
        self._server: Sshd = network.start_server(env={"PATH": f"{programs}:/usr/bin:/bin"})
        network.add_host(self.target, self._server)
        self.source: Source = SshSource(
            [self.target],
            interval_seconds=INTERVAL_SECONDS,
            timeout_seconds=5.0,
            config=str(network.config),
        )

    def send(self, snapshot: Snapshot) -> None:
        self.send_raw(encode_report_json([snapshot], snapshot.taken_at) + b"\n")

    def send_raw(self, body: bytes) -> None:
        draft = self._printed.with_suffix(".draft")
        draft.write_bytes(body)
        draft.rename(self._printed)

    def encode(self, value: object) -> bytes:
        return msgspec.json.encode(value)

    def block_access(self) -> None:
        """The node's host key differs from the known one."""
        self._network.known_hosts.write_text(f"{self.target} {self._another_key()}\n")

    def disconnect(self) -> None:
        self._server.stop()

    def close(self) -> None:
        """The fixture ends the servers."""

    def _another_key(self) -> str:
        return make_key(self._printed.with_name("another"))


class SelfTransport(BreakableTransport):
    """The hub's own machine."""

    target = "self"

    def __init__(self) -> None:
        self._snapshot: Snapshot | None = None
        self._hung = threading.Event()
        self.source: Source = SelfSource(self._take, INTERVAL_SECONDS, timeout_seconds=0.2)

    def send(self, snapshot: Snapshot) -> None:
        self._snapshot = snapshot

    def disconnect(self) -> None:
        """Reading it never returns."""
        self._snapshot = None

    def close(self) -> None:
        self._hung.set()

    def _take(self, _: float) -> Snapshot:
        if self._snapshot is None:
            self._hung.wait()
        assert self._snapshot is not None
        return self._snapshot


class NoCompactReports(CompactBase):
    """An agent from before compact reports."""

    def compact(self, snapshot: Snapshot) -> None:
        """Every report is a full one."""


class PushTransport(AuthenticatedTransport, RawTransport):
    """An agent's outlet, and the hub's server with a push source behind it.

    Reports are compact where they can be, unless the agent `is_older_version`.
    """

    version_error = UnsupportedVersion

    def __init__(self, folder: Path, *, is_older_version: bool = False) -> None:
        self._stack = ExitStack()
        engine = open_database(folder / "hub")
        self._stack.callback(engine.dispose)
        credentials = CredentialCache(engine)
        self._stack.callback(credentials.close)
        memory = NodeStore(engine, NodeCheckpoint)
        self._stack.callback(memory.close)
        push = PushSource()
        self.source: Source = push
        self._push = push
        self._credentials = credentials
        hub = self._hub = Hub(FleetState(), [push], memory)
        services = Services(
            hub=hub,
            push=push,
            credentials=credentials,
            access=AccessControl(credentials, AuthRateLimiter(time.time), loopback_only=True),
            cache=SingleFlightCache(lambda: hub.version),
            summaries=NodeSummaries(hub.shown),
            problems=ProblemReport(folder, {}, time.time),
            own_metrics=lambda: OwnMetrics(hub.counts()),
            queue=QueueKeeper(hub, QueueStore(engine), QueuePast(None), QueueLimits(10, 100)),
            closings=ClosingStore(engine),
            reservations=ReservationBook(engine, hub),
            wheelhouse=Wheelhouse(folder / "wheelhouse"),
        )
        self._serving = ExitStack()
        port = self._serving.enter_context(serve_app(App(services, AllowedHosts("127.0.0.1"))))
        self._connection = HubConnection(
            f"http://127.0.0.1:{port}", timeout_seconds=TIMEOUT_SECONDS
        )
        join = credentials.tokens.add("join").secret
        own = OwnCredentials(str(folder / "agent"))
        self._reporter = HubSession(self._connection, own, join)
        self._outlet = PushOutlet(
            self._reporter, ReportBuffer(Spool(str(folder / "spool"), 1 << 20))
        )
        if is_older_version:
            self._outlet._compact_base = NoCompactReports()
        self.target = ""

    def send(self, snapshot: Snapshot) -> None:
        self.target = snapshot.node_id
        wait_until(lambda: self._push.is_running)
        self._outlet.deliver(snapshot)

    def send_raw(self, body: bytes) -> None:
        kind = {"Content-Type": "application/msgpack"}
        assert self._connection.request("POST", "/api/v1/reports", body, kind).status == 400

    def block_access(self) -> None:
        """The node's credential is revoked."""
        assert self._credentials.revoke_token(self.target)

    def disconnect(self) -> None:
        """Stop the hub: a node that pushes and disappears is only silent."""
        self._serving.close()

    @contextmanager
    def running(self, first: Snapshot) -> Iterator[RecordedDeliveries]:
        """Run the hub's end first: it does not accept a report before."""
        # The hub, too: a compact report builds on what it has.
        with (
            run_source(self.source, self._hub.deliver) as deliveries,
            self._record_figures(deliveries),
        ):
            self.send(first)
            yield deliveries

    @contextmanager
    def _record_figures(self, deliveries: RecordedDeliveries) -> Iterator[None]:
        """Record figures that the server applies to a known node without the source, too."""
        apply = self._hub.figures.apply

        def record(
            route: FigureRoute,
            figures: SnapshotFigures,
            age_seconds: float,
            address: str | None,
        ) -> None:
            apply(route, figures, age_seconds, address)
            base = route.node.base
            deliveries.add(
                Delivery(source="push", target=self.target, result=base, figures=figures)
            )

        follow = FigureBatches._follow

        def record_batch(batches: FigureBatches, followed: Any, reports: Any, rows: Any) -> None:
            follow(batches, followed, reports, rows)
            for each in followed:
                latest = reports.routes[each.number].node.latest.snapshot
                deliveries.add(Delivery(source="push", target=self.target, result=latest))

        with (
            patch.object(self._hub.figures, "apply", record),
            patch.object(FigureBatches, "_follow", record_batch),
        ):
            yield

    def error_after(self, action: Callable[[], None]) -> DeliveryError:
        """Return the error of the node's end: a hub that pushes do not reach sees nothing."""
        with self.running(sample(1)) as deliveries:
            deliveries.wait_for_load(10.0)
            action()
            try:
                self._outlet.deliver(sample(1))
            except DeliveryError as error:
                return error
        raise AssertionError("the report was accepted")

    def concerns_peer(self, error: DeliveryError) -> bool:
        return "hub http" in str(error)

    def close(self) -> None:
        self._outlet.close()
        self._serving.close()
        self._stack.close()


def open_transport(name: str, folder: Path, open_network: Callable[[], SshNetwork]) -> Transport:
    """Open the transport of this source, with its state in `folder`."""
    if name.startswith("push"):
        return PushTransport(folder, is_older_version=name == PUSH_VERSION_1)
    if name == "pull":
        return PullTransport()
    if name == "files":
        return FilesTransport(folder)
    return SshTransport(open_network(), folder) if name == "ssh" else SelfTransport()
