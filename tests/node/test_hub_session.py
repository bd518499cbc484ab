"""The session of an agent with its hub: a new URL of it, and responses of something else."""

from contextlib import closing
from pathlib import Path
from typing import Any

import msgspec
import pytest

from fleet_smi.client.connection import HubConnection
from fleet_smi.errors import DeliveryError, Unreachable
from fleet_smi.node.credential_file import CredentialFile
from fleet_smi.node.hub_session import HubSession
from fleet_smi.wire.credential_proof import build_challenge, credential_digest, credential_proof
from fleet_smi.wire.report import encode_snapshot
from tests.builders import gpu, snapshot
from tests.client.scripted_server import ScriptedServer, http_response
from tests.node.fake_hub import FakeHub

BODIES = [b"", b"<html>", b"[]", b"\xff", b'{"hub":1}', b'{"error":' * 5000, bytes(1 << 17)]


@pytest.mark.parametrize("status", ["200 OK", "404 Not Found", "500 Oh"])
@pytest.mark.parametrize("body", BODIES, ids=lambda body: repr(body[:9]))
@pytest.mark.parametrize("join_token", [None, "join-token"])
def test_a_server_that_is_not_a_hub_is_unreachable(
    tmp_path: Path, status: str, body: bytes, join_token: str | None
) -> None:
    with (
        ScriptedServer([http_response(body, status)]) as peer,
        closing(HubConnection(peer.url)) as connection,
    ):
        reporter = HubSession(connection, CredentialFile(str(tmp_path)), join_token)
        with pytest.raises(Unreachable, match=f"^hub {peer.url}"):
            reporter.send_report([], "id", "name")
        assert CredentialFile(str(tmp_path)).get(peer.url) is None


def test_a_credential_is_not_sent_to_a_hub_that_does_not_know_it(tmp_path: Path) -> None:
    proof = b'{"proof": "%s"}' % (b"0" * 64)
    files = CredentialFile(str(tmp_path))
    files.store("http://former:7070", "fsmi_node_secret")
    for response in (proof, b'{"error": {"code": "not_found", "message": "no such endpoint"}}'):
        with (
            ScriptedServer([http_response(response), http_response(b"", "401 No")]) as peer,
            closing(HubConnection(peer.url)) as connection,
        ):
            with pytest.raises(Unreachable):
                HubSession(connection, files).send_report([], "id", "name")
            assert files.get(peer.url) is None
            assert b"fsmi_node_secret" not in b"".join(peer.requests)


class RenamedHub(FakeHub):
    """A hub under a new name, which it answers to only after `refusals` requests."""

    secret = "fsmi_node_secret"

    def __init__(self, status: int, code: str, refusals: int = 4) -> None:
        self._refusal = status, code
        self._refusals = refusals
        super().__init__()

    def handle(self, path: str, authorization: str, body: bytes) -> tuple[int, Any]:
        self._refusals -= 1
        if self._refusals >= 0:
            self.requests.append((path, authorization))
            status, code = self._refusal
            return status, {"error": {"code": code, "message": f"said {code}"}}
        if path == "/api/v1/identity":
            self.requests.append((path, authorization))
            challenge = build_challenge(msgspec.json.decode(body)["nonce"], "127.0.0.1")
            return 200, {"proof": credential_proof(credential_digest(self.secret), challenge).hex()}
        return super().handle(path, authorization, body)


@pytest.mark.parametrize(
    ("status", "code"), [(421, "unknown_host"), (404, "not_found"), (403, "refused")]
)
@pytest.mark.parametrize("join_token", [None, "join-token"])
def test_a_hub_that_answers_to_its_new_name_late_is_recognised_then(
    tmp_path: Path, status: int, code: str, join_token: str | None
) -> None:
    files = CredentialFile(str(tmp_path))
    files.store("http://former:7070", RenamedHub.secret)
    report = [encode_snapshot(snapshot(gpu()))]
    with (
        RenamedHub(status, code) as hub,
        closing(HubConnection(hub.url)) as connection,
    ):
        session = HubSession(connection, files, join_token)
        for _ in range(2):
            with pytest.raises(DeliveryError):
                session.send_report(report, "id-of-gpu01", "gpu01")
        session.send_report(report, "id-of-gpu01", "gpu01")
        assert files.get(hub.url) == RenamedHub.secret
        assert hub.requests[-1] == ("/api/v1/reports", f"Bearer {RenamedHub.secret}")


def test_a_hub_that_accepts_reports_without_a_credential_is_asked_once_who_it_is(
    tmp_path: Path,
) -> None:
    files = CredentialFile(str(tmp_path))
    files.store("http://former:7070", "fsmi_node_another")
    report = [encode_snapshot(snapshot(gpu()))]
    with RenamedHub(0, "", 0) as hub, closing(HubConnection(hub.url)) as connection:
        session = HubSession(connection, files)
        for _ in range(3):
            session.send_report(report, "id-of-gpu01", "gpu01")
        paths = [path for path, _ in hub.requests]
        assert paths == ["/api/v1/identity"] + ["/api/v1/reports"] * 3
        assert files.get(hub.url) is None
