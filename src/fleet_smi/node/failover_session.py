"""An agent's session with several hubs of one cluster: it stays with one until that fails."""

import random
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from fleet_smi.client.connection import HubConnection
from fleet_smi.errors import DeliveryError, NeedsFullReport, OutOfOrder, Throttled, Undecodable
from fleet_smi.node.credential_file import CredentialFile
from fleet_smi.node.hub_session import HubSession
from fleet_smi.wire.compact import CompactReport
from fleet_smi.wire.report import Receipt

if TYPE_CHECKING:
    from typing_extensions import Self

# A hub that hangs is left sooner than one that is alone.
_TIMEOUT_SECONDS = 4.0
_NOT_THE_HUB = (NeedsFullReport, OutOfOrder, Throttled, Undecodable)
"""What the next hub would answer as well, or what this one answers while it works."""


class FailoverSession:
    """Sends to one hub at a time, chosen at random, so that agents spread over the hubs.

    After a failure the next hub is tried at once. Once all have failed in a row, the caller
    backs off, as with a single hub.
    """

    def __init__(self, sessions: Sequence[HubSession]) -> None:
        self._sessions = sessions
        self._current = random.randrange(len(sessions))  # noqa: S311
        self._failed = 0
        self.has_untried_hub = False
        """Whether there is another hub to send to at once, after the last one failed."""

    @classmethod
    def connect(
        cls,
        urls: str,
        credentials: CredentialFile,
        join_token: str | None = None,
        fingerprint: str | None = None,
    ) -> "Self":
        """Create the sessions for URLs that are separated by commas; they share a credential."""
        return cls(
            [
                HubSession(
                    HubConnection(url, fingerprint=fingerprint, timeout_seconds=_TIMEOUT_SECONDS),
                    credentials,
                    join_token,
                    credential_name=urls,
                )
                for url in urls.split(",")
            ]
        )

    def send_report(
        self,
        snapshots: Sequence[bytes],
        node_id: str,
        name: str,
        boot_id: str | None = None,
        *,
        hub: str | None = None,
    ) -> Receipt:
        """Send to the current hub, as `HubSession` does; after an error the next is current."""
        return self._send(
            lambda session: session.send_report(snapshots, node_id, name, boot_id, hub=hub)
        )

    @property
    def has_credential(self) -> bool:
        """Whether the current hub knows by the credential which node this is."""
        return self._sessions[self._current].has_credential

    def send_compact(self, report: CompactReport, hub: str) -> Receipt:
        """Send a compact report to the current hub; raise `NeedsFullReport` without its base."""
        return self._send(lambda session: session.send_compact(report, hub))

    def open_connection(self, timeout_seconds: float) -> HubConnection | None:
        """Another connection to the current hub, with the node's credential."""
        return self._sessions[self._current].open_connection(timeout_seconds)

    def close(self) -> None:
        """Close every connection; a request in progress fails."""
        for session in self._sessions:
            session.close()

    def _send(self, send: Callable[[HubSession], Receipt]) -> Receipt:
        session = self._sessions[self._current]
        try:
            receipt = send(session)
        except _NOT_THE_HUB:
            self._failed, self.has_untried_hub = 0, False
            raise
        except DeliveryError:
            session.close()
            self._current = (self._current + 1) % len(self._sessions)
            self._sessions[self._current].reload_credential()
            self._failed += 1
            self.has_untried_hub = self._failed % len(self._sessions) != 0
            raise
        self._failed, self.has_untried_hub = 0, False
        return receipt
