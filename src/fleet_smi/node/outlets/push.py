"""The `push` outlet: sends reports to a hub, with a buffer and retries with backoff."""

import logging
import random
import threading
from collections.abc import Callable

from fleet_smi.client.connection import HubConnection
from fleet_smi.config.settings import AgentSettings
from fleet_smi.errors import (
    DeliveryError,
    NeedsFullReport,
    OutOfOrder,
    Throttled,
    Undecodable,
    UnsupportedVersion,
    UsageError,
)
from fleet_smi.failure_log import FailureLog
from fleet_smi.model.snapshot import Snapshot
from fleet_smi.node.buffer import ReportBuffer
from fleet_smi.node.buffered_sample import BufferedSample
from fleet_smi.node.compact_base import CompactBase
from fleet_smi.node.credential_file import CredentialFile
from fleet_smi.node.failover_session import FailoverSession
from fleet_smi.node.hub_session import HubSession
from fleet_smi.node.local_requests import RequestForwarder
from fleet_smi.node.local_socket import LocalSocket
from fleet_smi.node.outlets import OutletOptions
from fleet_smi.node.retry import backoff_seconds
from fleet_smi.node.spool import Spool
from fleet_smi.paths import ensure_private_folder
from fleet_smi.wire.report import Receipt

logger = logging.getLogger(__name__)

_CATCH_UP_PAUSE_SECONDS = 0.5
_CLOSE_TIMEOUT_SECONDS = 0.5
_UNRECORDED_RETRY_SECONDS = 30.0
_FIRST_SAMPLE_BYTES = 8 << 10  # of a machine with eight GPUs


class PushOutlet:
    """Sends the buffered samples, oldest first, from a background thread."""

    name = "push"

    def __init__(
        self,
        session: HubSession | FailoverSession,
        buffer: ReportBuffer,
        local_socket: LocalSocket | None = None,
    ) -> None:
        """Create it; on `local_socket` users of this machine ask the hub for GPUs."""
        self.requested_interval_seconds: float | None = None
        self._session = session
        self._local_socket = local_socket
        self._buffer = buffer
        self._latest: Snapshot | None = None
        self._hub_run: str | None = None
        self._is_recorded = True  # else the history of the hub was full, by the last receipt
        self._newest: BufferedSample | None = None
        self._sample_bytes = _FIRST_SAMPLE_BYTES  # of the last one that was encoded
        self._compact_base = CompactBase()
        self._lock = threading.Lock()  # guards the buffer
        self._wake = threading.Event()
        self._closing = threading.Event()
        self._sender: threading.Thread | None = None
        self._failures = FailureLog(logger, "hub")

    def publish(self, snapshot: Snapshot) -> None:
        """Buffer the snapshot and wake the sender."""
        self._add(snapshot)
        self._wake.set()
        # Not before the first sample: with `--once` there is no thread.
        if self._sender is None:
            self._sender = threading.Thread(target=self._send_loop, name="push", daemon=True)
            self._sender.start()
            if self._local_socket is not None:
                self._local_socket.start()

    def deliver(self, snapshot: Snapshot) -> None:
        """Send the snapshot now, after all that is buffered."""
        self._add(snapshot)
        while self._send_next():
            pass

    def close(self) -> None:
        """Spool what is not durable in the hub; do not wait for a hub that hangs."""
        if self._closing.is_set():
            return
        # In this order: the sender must see that it is closing when its request fails.
        self._closing.set()
        self._wake.set()
        self._session.close()
        if self._local_socket is not None:
            self._local_socket.close()
        if self._sender is not None:
            self._sender.join(_CLOSE_TIMEOUT_SECONDS)
        with self._lock:
            self._buffer.close()

    def _add(self, snapshot: Snapshot) -> None:
        self._latest = snapshot
        sample = BufferedSample.from_snapshot(snapshot, self._sample_bytes)
        self._newest = sample
        with self._lock:
            self._buffer.add(sample)

    def _send_loop(self) -> None:
        failures = 0
        while not self._closing.is_set():
            try:
                sent = self._send_next()
                if not sent:
                    self._wait_for_sample()
            except DeliveryError as error:
                failures += 1
                self._failures.record_failure(error)
                if not self._session.has_untried_hub:
                    self._closing.wait(backoff_seconds(error, failures))
            else:
                failures = 0
                self._wait_for_more(sent)
        self._session.close()  # the sender may have reconnected after `close`

    def _wait_for_more(self, sent: int) -> None:
        if sent:
            self._failures.record_success()
        if sent > 1:
            # After an outage all agents catch up at the same time: leave room for the others.
            self._closing.wait(2 * _CATCH_UP_PAUSE_SECONDS * random.random())  # noqa: S311

    def _wait_for_sample(self) -> None:
        """Wait for the next sample; ask meanwhile whether the hub can record the last ones now."""
        while not self._wake.wait(None if self._is_recorded else _UNRECORDED_RETRY_SECONDS):
            if self._newest is not None and not self._resend(self._newest):
                return
        # Cleared before the buffer is read again: a sample added meanwhile is not missed.
        self._wake.clear()

    def _resend(self, sample: BufferedSample) -> bool:
        """Send a sample again, for its receipt; return false if all the others must be, too."""
        try:
            receipt = self._post([sample], self._hub_run)
        except DeliveryError as error:
            self._requeue()
            if isinstance(error, OutOfOrder):
                return False
            raise
        self._is_recorded = receipt.recorded
        return True

    def _send_next(self) -> int:
        """Send one report; return its number of samples. `DeliveryError` requeues them."""
        with self._lock:
            batch = self._buffer.next_batch(self._latest)
        if not batch:
            return 0
        try:
            self._post_batch(batch)
        except Throttled:
            self._update_buffer(self._buffer.return_batch)
            raise
        except OutOfOrder:
            # It was restarted, or its history was full, and it has taken nothing of this batch.
            self._requeue()
        except DeliveryError:
            self._requeue()
            raise
        return len(batch)

    def _post_batch(self, batch: list[BufferedSample]) -> None:
        try:
            receipt: Receipt | None = self._post(batch, self._hub_run)
        except Undecodable:
            receipt = self._post_one_by_one(batch)
        if receipt is None:
            self._update_buffer(self._buffer.discard)
        else:
            self._handle_receipt(receipt)

    def _post(self, batch: list[BufferedSample], hub: str | None) -> Receipt:
        """Send a report: a compact one, if it is of one live sample and the hub has its base."""
        # Taken first: the sample gives it up when it is encoded.
        snapshot = batch[-1].snapshot
        try:
            receipt = None
            if hub is not None and snapshot is not None and len(batch) == 1:
                receipt = self._post_compact(snapshot, hub)
            if receipt is None:
                receipt = self._post_full(batch, hub)
                self._compact_base.acknowledge_full(snapshot, receipt)
        except DeliveryError:
            self._compact_base.forget()
            raise
        return receipt

    def _post_compact(self, snapshot: Snapshot, hub: str) -> Receipt | None:
        """Send a compact report; return `None` where the full one has to be sent instead."""
        report = self._compact_base.compact(snapshot) if self._session.has_credential else None
        if report is None:
            return None
        try:
            receipt = self._session.send_compact(report, hub)
        except (NeedsFullReport, Undecodable, UnsupportedVersion):
            self._compact_base.pause()
            return None
        self._compact_base.acknowledge_compact()
        return receipt

    def _post_full(self, batch: list[BufferedSample], hub: str | None) -> Receipt:
        latest = self._latest
        node = ("", "", None) if latest is None else (latest.node_id, latest.name, latest.boot_id)
        receipt = self._session.send_report([sample.data for sample in batch], *node, hub=hub)
        self._sample_bytes = batch[-1].size_bytes
        return receipt

    def _post_one_by_one(self, batch: list[BufferedSample]) -> Receipt | None:
        """Send each sample alone: one that the hub cannot decode must not cost the others.

        Returns the last receipt; `None` where it could decode no sample at all.
        """
        receipt, hub = None, self._hub_run
        for sample in batch:
            try:
                receipt = self._post([sample], hub)
                hub = receipt.hub
            except Undecodable as error:
                self._failures.record_failure(error)
        return receipt

    def _handle_receipt(self, receipt: Receipt) -> None:
        self.requested_interval_seconds = receipt.interval_seconds
        self._is_recorded = receipt.recorded
        if self._hub_run not in (None, receipt.hub):
            # A hub of an older version, which takes a report that does not continue what it has.
            # This batch is sent again as well, to keep the order.
            self._requeue()
            return
        self._hub_run = receipt.hub
        self._update_buffer(
            lambda: self._buffer.acknowledge(receipt.kept, recorded=receipt.recorded)
        )

    def _requeue(self) -> None:
        self._hub_run, self._is_recorded = None, True
        self._update_buffer(self._buffer.requeue)

    def _update_buffer(self, update: Callable[[], None]) -> None:
        """Update the buffer, unless `close` has spooled everything in the meantime."""
        with self._lock:
            if not self._closing.is_set():
                update()


def create_outlet(hub: str, options: OutletOptions) -> PushOutlet:
    """Make the outlet of `--to`, which has one URL or several separated by commas.

    Its credential and its spool are in the agent's state folder.
    """
    settings = options.settings
    ensure_private_folder(settings.state, UsageError)
    credentials, join_token = CredentialFile(settings.state), settings.read_join_token()
    session: HubSession | FailoverSession
    if "," in hub:
        session = FailoverSession.connect(hub, credentials, join_token, settings.fingerprint)
    else:
        connection = HubConnection(hub, fingerprint=settings.fingerprint)
        session = HubSession(connection, credentials, join_token)
    buffer = ReportBuffer(Spool(f"{settings.state}/spool", settings.spool))
    return PushOutlet(session, buffer, _local_socket(settings, session))


def _local_socket(
    settings: AgentSettings, session: HubSession | FailoverSession
) -> LocalSocket | None:
    if settings.socket in (None, "off"):
        return None
    return LocalSocket(settings.socket, RequestForwarder(session.open_connection))
