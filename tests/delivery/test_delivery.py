"""The delivery suite over the transports of fleet-smi itself."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from msgspec.structs import replace

from fleet_smi.hub.sources import SOURCES
from tests.delivery.suite import (
    DeliverySuite,
    DisconnectSuite,
    GarbageSuite,
    RefusalSuite,
    Transport,
    sample,
)
from tests.delivery.transports import PUSH_VERSION_1, open_transport
from tests.sshd import SshNetwork

TRANSPORTS = (PUSH_VERSION_1, "push", "pull", "files", "ssh", "self")
REMOTE_TRANSPORTS = TRANSPORTS[:-1]


@pytest.fixture
def transport(
    request: pytest.FixtureRequest,
    tmp_path: Path,
    tmp_path_factory: pytest.TempPathFactory,
    monkeypatch: pytest.MonkeyPatch,
) -> Iterator[Transport]:
    # The path of a unix socket is short, and ssh puts one there for each connection.
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path_factory.mktemp("r")))

    def open_network() -> SshNetwork:
        network: SshNetwork = request.getfixturevalue("ssh_network")
        return network

    opened = open_transport(request.param, tmp_path, open_network)
    yield opened
    opened.close()


def test_every_source_of_fleet_smi_runs_through_the_suite() -> None:
    own = {name for name, entry in SOURCES.items() if ".compat." not in entry.module}
    assert own == {*TRANSPORTS} - {PUSH_VERSION_1}


@pytest.mark.parametrize("transport", TRANSPORTS, indirect=True)
class TestDelivery(DeliverySuite, DisconnectSuite):
    """Every transport."""

    def test_a_snapshot_arrives_unchanged(self, transport: Transport) -> None:
        with transport.running(sample(1)) as deliveries:
            got = deliveries.wait_for_sequence(1)
        # Silence counts the interval at which the hub polls.
        is_polled = transport.source.name in ("ssh", "pull", "files")
        assert got == replace(sample(1), interval_seconds=got.interval_seconds if is_polled else 1)


@pytest.mark.parametrize("transport", REMOTE_TRANSPORTS, indirect=True)
class TestHostilePeer(RefusalSuite, GarbageSuite):
    """The transports from another machine: all but `self`."""
