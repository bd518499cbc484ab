"""An agent's session with its hub: join once for a credential, then send reports."""

import logging
import os
import time
from collections.abc import Sequence
from contextlib import suppress

import msgspec

from fleet_smi.client.connection import HubConnection, Response
from fleet_smi.client.responses import decode_error, decode_join_token, decode_proof
from fleet_smi.errors import (
    DeliveryError,
    NeedsFullReport,
    OutOfOrder,
    Refused,
    Throttled,
    Undecodable,
    Unreachable,
    UnsupportedVersion,
)
from fleet_smi.model.safe_text import sanitize_text
from fleet_smi.node.credential_file import CredentialFile
from fleet_smi.wire.compact import CompactReport
from fleet_smi.wire.compact_codec import encode_compact
from fleet_smi.wire.credential_proof import (
    PROPOSAL_HEADER,
    build_challenge,
    credential_digest,
    credential_proof,
)
from fleet_smi.wire.figure_codes import NoCode
from fleet_smi.wire.packed import encode_packed
from fleet_smi.wire.packed_layout import PACKED_VERSION
from fleet_smi.wire.report import Receipt, decode_receipt, encode_report

logger = logging.getLogger(__name__)
_MAX_RESPONSE_BYTES = 64 << 10
_TOO_MANY_REQUESTS = 429
_MAX_RETRY_AFTER_DIGITS = 6
_PERMANENT_STATUSES = (400, 413, 422)
"""Statuses that a retry of the same report would get again."""


class HubSession:
    """Sends reports to one hub with the credential for that hub.

    A stored credential wins over the join token, which is sent to this hub only. A hub that has a
    new URL gets its credential when it has proved that it knows it.
    """

    def __init__(
        self,
        connection: HubConnection,
        credential_file: CredentialFile,
        join_token: str | None = None,
        *,
        credential_name: str | None = None,
    ) -> None:
        """Create it; the hubs of a cluster share a credential, under a name instead of a URL."""
        self._connection = connection
        self._credentials = credential_file
        self._credential_name = credential_name or connection.url
        self._join_token = join_token
        connection.token = credential_file.get(self._credential_name)
        self._may_be_known = True
        self._reads_packed = False
        self.has_untried_hub = False
        """Whether there is another hub to send to at once, after this one failed."""

    def send_report(
        self,
        snapshots: Sequence[bytes],
        node_id: str,
        name: str,
        boot_id: str | None = None,
        *,
        hub: str | None = None,
    ) -> Receipt:
        """Send encoded snapshots; raise `Undecodable` only if the hub will never accept them.

        `hub` is that of the receipt for the report before, where this one continues it.
        """
        try:
            if self._connection.token is None and self._may_be_known:
                self._recognize_hub(node_id)
            if self._connection.token is None and self._join_token is not None:
                self._join(self._join_token, {"node_id": node_id, "name": name, "boot_id": boot_id})
            return self._send_report_body(encode_report(snapshots, time.time(), hub))
        except DeliveryError:
            # It may not answer to its new name yet: ask again with the next attempt, which the
            # caller delays by its back-off. A hub that accepts reports is not asked again.
            self._may_be_known = True
            raise

    @property
    def has_credential(self) -> bool:
        """Whether the hub knows by the credential which node this is."""
        return self._connection.token is not None

    def send_compact(self, report: CompactReport, hub: str) -> Receipt:
        """Send a compact report; raise `NeedsFullReport` if the hub does not have its base."""
        return self._send_report_body(self._encode_compact(report, hub))

    def _encode_compact(self, report: CompactReport, hub: str) -> bytes:
        if self._reads_packed:
            with suppress(NoCode):
                return encode_packed(report, time.time(), hub)
        return encode_compact(report, time.time(), hub)

    def _send_report_body(self, body: bytes) -> Receipt:
        response = self._post("/api/v1/reports", body, "application/msgpack")
        try:
            receipt = decode_receipt(response.body)
        except Undecodable as error:
            # A page of a proxy, or another service: for `Undecodable` the caller would drop the
            # samples, although the hub has not seen them.
            raise Unreachable(
                f"{self._where} gives no receipt ({error}): is it a fleet-smi hub?"
            ) from None
        self._reads_packed = PACKED_VERSION in receipt.versions
        return receipt

    def reload_credential(self) -> None:
        """Read the credential again: another session may have joined the same cluster."""
        self._connection.token = self._credentials.get(self._credential_name)

    def open_connection(self, timeout_seconds: float) -> HubConnection | None:
        """Another connection to this hub with the node's credential; `None` without one."""
        # From the file, not from the connection, whose token may be the join token just now.
        token = self._credentials.get(self._credential_name)
        return None if token is None else self._connection.copy(token, timeout_seconds)

    def close(self) -> None:
        """Close the connection; a request in progress fails."""
        self._connection.close()

    def _recognize_hub(self, node_id: str) -> None:
        """Take the credential of another URL if this hub knows it: then it is the same hub."""
        others = self._credentials.get_others(self._credential_name)
        if others:
            nonce = os.urandom(32).hex()
            challenge = build_challenge(nonce, self._connection.host)
            proof = self._request_proof(node_id, nonce)
            for token in others:
                if credential_proof(credential_digest(token), challenge).hex() == proof:
                    self._store(token)
                    logger.info('hub="%s" is a known hub with a new URL', self._connection.url)
        self._may_be_known = False

    def _request_proof(self, node_id: str, nonce: str) -> str | None:
        """The hub's proof, `None` from a hub that cannot give one."""
        body = msgspec.json.encode({"node_id": node_id, "nonce": nonce})
        response = self._send("/api/v1/identity", body, {"Content-Type": "application/json"})
        if response.status >= 500 or response.status == _TOO_MANY_REQUESTS:
            raise self._error_from(response)  # it may be the hub all the same: ask again
        try:
            return decode_proof(response.body) if response.status < 300 else None
        except Undecodable:
            return None

    def _store(self, token: str) -> None:
        try:
            self._credentials.store(self._credential_name, token)
        except OSError as error:
            raise self._unwritable(error) from None
        self._connection.token = token

    def _unwritable(self, error: OSError) -> Refused:
        return Refused(f"{self._credentials.path} cannot be written: {error.strerror}")

    def _join(self, token: str, node: dict[str, str | None]) -> None:
        try:
            # Before: a disk that is full must not cost the node its credential.
            proposal = self._credentials.propose(self._credential_name)
        except OSError as error:
            raise self._unwritable(error) from None
        self._connection.token = token
        try:
            self._store(self._request_credential(node, proposal))
            name = sanitize_text(node["name"] or "", 128)
            logger.info('joined="%s" name="%s"', self._connection.url, name)
        finally:
            # The join token is good for joining only. Where that failed, there is no credential,
            # and the next report joins again.
            self._connection.token = self._credentials.get(self._credential_name)

    def _request_credential(self, node: dict[str, str | None], proposal: str) -> str:
        body, proposed = msgspec.json.encode(node), {PROPOSAL_HEADER: proposal}
        try:
            response = self._post("/api/v1/join", body, "application/json", proposed)
        except Undecodable as error:
            if "boot_id" in node:
                # A hub of an older version rejects what it does not know.
                older = {key: value for key, value in node.items() if key != "boot_id"}
                return self._request_credential(older, proposal)
            # The hub rejects the join, not a sample: none must be dropped for it.
            raise Refused(error.message) from None
        try:
            return decode_join_token(response.body)
        except Undecodable as error:
            raise Unreachable(f"{self._where} gives no credential: {error.message}") from None

    def _post(
        self, path: str, body: bytes, content_type: str, headers: dict[str, str] | None = None
    ) -> Response:
        response = self._send(path, body, {"Content-Type": content_type, **(headers or {})})
        if response.status >= 300:
            raise self._error_from(response)
        return response

    def _send(self, path: str, body: bytes, headers: dict[str, str]) -> Response:
        try:
            return self._connection.request("POST", path, body, headers, _MAX_RESPONSE_BYTES)
        except Undecodable as error:  # not HTTP: it is no hub
            raise Unreachable(error.message) from None

    def _error_from(self, response: Response) -> DeliveryError:
        error = decode_error(response.body)
        if error is None:
            # Not the hub's own error format: a proxy answers for a hub that is down.
            return Unreachable(
                f"{self._where} answered with status {response.status}: is it a fleet-smi hub?"
            )
        message = f"{self._where}: {error.message}"
        if error.code == "wrong_version":
            return UnsupportedVersion(f"{message}; bring agent and hub to one version")
        if error.code == "out_of_order":
            return OutOfOrder(message)
        if error.code == "need_full":
            return NeedsFullReport(message)
        if response.status == _TOO_MANY_REQUESTS:
            return Throttled(message, _retry_after_seconds(response))
        if response.status in (401, 403):
            return Refused(f"{message}; {self._remedy}")
        return (
            Undecodable(message) if response.status in _PERMANENT_STATUSES else Unreachable(message)
        )

    @property
    def _remedy(self) -> str:
        if self._credentials.get(self._credential_name) is not None:
            return f"to join again, remove {self._credentials.path} and use a new join line"
        return "`fleet-smi hub join-command` on the hub prints the line to start this agent with"

    @property
    def _where(self) -> str:
        return f"hub {self._connection.url}"


def _retry_after_seconds(response: Response) -> float:
    """Return how long the hub asks to wait; a second where it does not say, or gives a date."""
    value = response.headers.get("retry-after", "").strip()
    is_number = value.isascii() and value.isdigit() and len(value) <= _MAX_RETRY_AFTER_DIGITS
    return float(value) if is_number else 1.0
