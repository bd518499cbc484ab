"""Responses of something that is not a hub are clear errors, and can be retried."""

from contextlib import closing
from pathlib import Path

import pytest

from fleet_smi.client.connection import HubConnection
from fleet_smi.errors import Unreachable
from fleet_smi.node.credential_file import CredentialFile
from fleet_smi.node.hub_session import HubSession
from tests.client.scripted_server import ScriptedServer, http_response

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
