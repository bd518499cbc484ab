"""A session with several hubs: which one is tried when."""

from pathlib import Path

import pytest

from fleet_smi.errors import DeliveryError, Unreachable
from fleet_smi.node.credential_file import CredentialFile
from fleet_smi.node.failover_session import FailoverSession
from fleet_smi.wire.report import encode_snapshot
from tests.machines import wait_until
from tests.ports import free_port
from tests.server.routes.snapshots import snapshot_now
from tests.server.threaded_hub import ThreadedHub


def test_each_hub_is_tried_once_before_the_agent_backs_off(tmp_path: Path) -> None:
    urls = ",".join(f"http://127.0.0.1:{free_port()}" for _ in range(3))
    session = FailoverSession.connect(urls, CredentialFile(str(tmp_path)))
    untried, messages = list[bool](), set[str]()
    for _ in range(6):
        with pytest.raises(Unreachable) as failure:
            session.send_report([], "id", "name")
        untried.append(session.has_untried_hub)
        messages.add(failure.value.message)
    assert untried == [True, True, False] * 2
    assert len(messages) == 3


def test_a_hub_that_is_gone_is_left_for_one_that_answers(tmp_path: Path) -> None:
    with ThreadedHub(tmp_path / "hub") as hub:
        urls = f"http://127.0.0.1:{free_port()},{hub.url}"
        credentials = CredentialFile(str(tmp_path))
        session = FailoverSession.connect(urls, credentials, hub.token("join"))
        sample = encode_snapshot(snapshot_now("gpu01"))

        def is_sent() -> bool:
            try:
                session.send_report([sample], "id-of-gpu01", "gpu01")
            except DeliveryError:
                assert session.has_untried_hub
                return False
            return True

        wait_until(is_sent)
        assert [node.name for node in hub.fleet().nodes] == ["gpu01"]
        assert credentials.get(urls) is not None  # for all hubs of the list
        session.close()
