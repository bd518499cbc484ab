"""What an agent says to its hub: it joins once, then reports, and hears what became of that."""

import logging
import time
from collections.abc import Sequence

import msgspec

from fleet_smi.client.connection import HubConnection, Response
from fleet_smi.client.responses import decode_error, decode_join_token
from fleet_smi.errors import DeliveryError, Refused, Undecodable, Unreachable, UnsupportedVersion
from fleet_smi.model.safe_text import sanitize_text
from fleet_smi.node.credential_file import CredentialFile
from fleet_smi.wire.report import Receipt, decode_receipt, encode_report

logger = logging.getLogger(__name__)
_MOST_ANSWER_BYTES = 64 << 10
_NEVER = (400, 413, 422)
"""The answers that will be the same however often this report is sent."""


class HubSession:
    """Reports to one hub with the credential that was given for it.

    A stored credential wins over the join token, which goes to no other hub than this.
    """

    def __init__(
        self,
        connection: HubConnection,
        credential_file: CredentialFile,
        join_token: str | None = None,
    ) -> None:
        self._connection = connection
        self._credentials = credential_file
        self._join_token = join_token
        connection.token = credential_file.get(connection.url)

    def send_report(self, snapshots: Sequence[bytes], node_id: str, name: str) -> Receipt:
        """Send encoded snapshots; raise `Undecodable` only if the hub will never have them."""
        if self._connection.token is None and self._join_token is not None:
            self._join(self._join_token, node_id, name)
        body = encode_report(snapshots, time.time())
        answer = self._ask("/api/v1/reports", body, "application/msgpack")
        try:
            return decode_receipt(answer.body)
        except Undecodable as error:
            raise Unreachable(f"{self._where} gives no receipt ({error}): is it a hub?") from None

    def close(self) -> None:
        """Hang up; who waits for an answer stops waiting."""
        self._connection.close()

    def _join(self, token: str, node_id: str, name: str) -> None:
        body = msgspec.json.encode({"node_id": node_id, "name": name})
        self._connection.token = token
        try:
            own = self._token_for(body)
            self._credentials.store(self._connection.url, own)
            logger.info('joined="%s" name="%s"', self._connection.url, sanitize_text(name, 128))
        except OSError as error:
            path = self._credentials.path
            raise Refused(f"joined, but {path} cannot be written: {error.strerror}") from None
        finally:
            self._connection.token = self._credentials.get(self._connection.url)

    def _token_for(self, body: bytes) -> str:
        try:
            answer = self._ask("/api/v1/join", body, "application/json")
        except Undecodable as error:
            raise Refused(error.message) from None
        try:
            return decode_join_token(answer.body)
        except Undecodable as error:
            raise Unreachable(f"{self._where} gives no credential: {error.message}") from None

    def _ask(self, path: str, body: bytes, kind: str) -> Response:
        try:
            answer = self._connection.request(
                "POST", path, body, {"Content-Type": kind}, _MOST_ANSWER_BYTES
            )
        except Undecodable as error:  # no hub speaks there
            raise Unreachable(error.message) from None
        if answer.status >= 300:
            raise self._refusal(answer)
        return answer

    def _refusal(self, answer: Response) -> DeliveryError:
        said = decode_error(answer.body)
        if said is None:
            return Unreachable(f"{self._where} answers {answer.status}: is it a fleet-smi hub?")
        words = f"{self._where}: {said.message}"
        if said.code == "wrong_version":
            return UnsupportedVersion(f"{words}; bring agent and hub to one version")
        if answer.status in (401, 403):
            return Refused(f"{words}; {self._remedy}")
        return Undecodable(words) if answer.status in _NEVER else Unreachable(words)

    @property
    def _remedy(self) -> str:
        if self._credentials.get(self._connection.url) is not None:
            return f"to join anew, remove {self._credentials.path} and use a new join line"
        return "`fleet-smi hub join-command` on the hub prints the line to start this agent with"

    @property
    def _where(self) -> str:
        return f"hub {self._connection.url}"
