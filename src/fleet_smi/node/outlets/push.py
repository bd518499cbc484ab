"""The node's end of `push`: reports sent to a hub, and kept for it while it is away."""

import logging
import random
import threading
from collections.abc import Callable

from fleet_smi.client.connection import HubConnection
from fleet_smi.errors import DeliveryError, Undecodable, Unreachable, UsageError
from fleet_smi.failure_log import FailureLog
from fleet_smi.model.snapshot import Snapshot
from fleet_smi.node.buffer import ReportBuffer
from fleet_smi.node.credential_file import CredentialFile
from fleet_smi.node.hub_session import HubSession
from fleet_smi.node.outlets import OutletOptions
from fleet_smi.node.spool import EncodedSample, Spool
from fleet_smi.paths import ensure_private_folder
from fleet_smi.wire.report import Receipt, encode_snapshot

logger = logging.getLogger(__name__)

_FIRST_WAIT_SECONDS = 1.0
_LONGEST_WAIT_SECONDS = 30.0
_REFUSED_WAIT_SECONDS = 60.0
_PACE_SECONDS = 0.5
_GRACE_SECONDS = 0.5


class PushOutlet:
    """Sends what the buffer holds, oldest first, from one thread that nobody waits for."""

    name = "push"

    def __init__(self, session: HubSession, buffer: ReportBuffer) -> None:
        self.requested_interval_seconds: float | None = None
        self._reporter = session
        self._buffer = buffer
        self._node = "", ""
        self._hub: str | None = None
        self._lock = threading.Lock()  # of the buffer
        self._news = threading.Event()
        self._closing = threading.Event()
        self._sender: threading.Thread | None = None
        self._faults = FailureLog(logger, "hub")

    def publish(self, snapshot: Snapshot) -> None:
        """Leave it for the sender."""
        self._add(snapshot)
        self._news.set()
        if self._sender is None:
            self._sender = threading.Thread(target=self._send_on, name="push", daemon=True)
            self._sender.start()

    def deliver(self, snapshot: Snapshot) -> None:
        """Send it now, after all that was kept before it."""
        self._add(snapshot)
        while self._send_next():
            pass

    def close(self) -> None:
        """Write down what the hub does not keep; never wait for a hub that hangs."""
        if self._closing.is_set():
            return
        self._closing.set()
        self._news.set()
        self._reporter.close()
        if self._sender is not None:
            self._sender.join(_GRACE_SECONDS)
        with self._lock:
            self._buffer.close()

    def _add(self, snapshot: Snapshot) -> None:
        self._node = snapshot.node_id, snapshot.name
        sample = EncodedSample(snapshot.run_id, snapshot.sequence, encode_snapshot(snapshot))
        with self._lock:
            self._buffer.add(sample)

    def _send_on(self) -> None:
        failures = 0
        while not self._closing.is_set():
            try:
                sent = self._send_next()
            except DeliveryError as error:
                failures += 1
                self._faults.record_failure(error)
                self._closing.wait(max_backoff_seconds(error, failures) * random.random())  # noqa: S311
            else:
                failures = 0
                self._wait_for_more(sent)
        self._reporter.close()  # it may have been opened anew meanwhile

    def _wait_for_more(self, sent: int) -> None:
        if sent:
            self._faults.record_success()
        if sent > 1:
            # Many agents come back at once: none of them may have all of the hub.
            self._closing.wait(2 * _PACE_SECONDS * random.random())  # noqa: S311
        elif not sent:
            self._news.wait()
            self._news.clear()

    def _send_next(self) -> int:
        """Send one report; how many samples it had. Raise `DeliveryError`, and none is lost."""
        with self._lock:
            batch = self._buffer.next_batch()
        if not batch:
            return 0
        try:
            self._post_somehow(batch)
        except DeliveryError:
            self._returned()
            raise
        return len(batch)

    def _post_somehow(self, batch: list[EncodedSample]) -> None:
        try:
            self._delivered(self._post(batch))
        except Undecodable:
            self._post_one_by_one(batch)
            self._settle(self._buffer.discard)

    def _post(self, batch: list[EncodedSample]) -> Receipt:
        return self._reporter.send_report([sample.data for sample in batch], *self._node)

    def _post_one_by_one(self, batch: list[EncodedSample]) -> None:
        """One sample that the hub does not understand must not cost the others."""
        for sample in batch:
            try:
                self._post([sample])
            except Undecodable as error:
                self._faults.record_failure(error)

    def _delivered(self, receipt: Receipt) -> None:
        self.requested_interval_seconds = receipt.interval_seconds
        if self._hub not in (None, receipt.hub):
            self._returned()  # another life: it may have forgotten what it had not yet kept
            return
        self._hub = receipt.hub
        self._settle(lambda: self._buffer.acknowledge(receipt.kept))

    def _returned(self) -> None:
        self._hub = None
        self._settle(self._buffer.requeue)

    def _settle(self, what: Callable[[], None]) -> None:
        """Tell the buffer what became of a batch, unless all of it was written down meanwhile."""
        with self._lock:
            if not self._closing.is_set():
                what()


def create_outlet(hub: str, options: OutletOptions) -> PushOutlet:
    """Make the outlet of `--to`: its credential and its spool are in the agent's state folder."""
    settings = options.settings
    ensure_private_folder(settings.state, UsageError)
    session = HubSession(
        HubConnection(hub, fingerprint=settings.fingerprint),
        CredentialFile(settings.state),
        settings.read_join_token(),
    )
    return PushOutlet(session, ReportBuffer(Spool(f"{settings.state}/spool", settings.spool)))


def max_backoff_seconds(error: DeliveryError, failures: int) -> float:
    """Up to how long to wait after so many failures in a row; the wait itself is drawn from it."""
    if not isinstance(error, Unreachable):
        return _REFUSED_WAIT_SECONDS  # only a person can mend that
    return min(_LONGEST_WAIT_SECONDS, _FIRST_WAIT_SECONDS * 2.0 ** min(failures, 16))
