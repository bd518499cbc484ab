"""Leases through a hub: reported by a node, shown by the API, kept in the history."""

import time
from contextlib import closing
from pathlib import Path

from fleet_smi.client.hub import HubClient
from fleet_smi.model.snapshot import Lease
from tests.builders import gpu
from tests.machines import wait_until
from tests.server.routes.snapshots import snapshot_now
from tests.server.threaded_hub import ThreadedHub


def test_a_lease_is_in_the_view_of_the_hub_and_in_its_history(tmp_path: Path) -> None:
    lease = Lease(holder="alice", taken_at=time.time() - 1800, command="python", note="demo")
    card = gpu(0, lease=lease)
    with ThreadedHub(tmp_path / "hub", hub__tls="self-signed") as hub:
        earlier = snapshot_now("gpu04", card, taken_at=time.time() - 1700.0)
        hub.join_and_report(earlier, snapshot_now("gpu04", card, sequence=1))
        with closing(HubClient(hub.url, fingerprint=hub.server.fingerprint)) as client:
            (judged,) = client.fleet().nodes[0].gpus
            assert judged.lease == lease
            assert judged.verdict.state == "leased"
            assert judged.verdict.reason == "taken by alice 30 min ago: demo"
            wait_until(lambda: bool(client.periods("1h", node="gpu04").rows))
            periods = client.periods("1h", node="gpu04").rows[0].periods
    assert {period.state for period in periods} == {"leased"}
    assert periods[0].reason.startswith("taken by alice")


def test_one_lease_after_another_is_two_periods_of_the_history(tmp_path: Path) -> None:
    now = time.time()
    leases = [
        Lease(holder="alice", taken_at=now - 900, note="demo"),
        Lease(holder="carol", taken_at=now - 600, note="final"),
        Lease(holder="bob", taken_at=now - 300),
    ]
    snapshots = [
        snapshot_now("gpu04", gpu(0, lease=one), taken_at=one.taken_at + 1 + after, sequence=number)
        for number, (one, after) in enumerate([(one, at) for one in leases for at in (0.0, 100.0)])
    ]
    with ThreadedHub(tmp_path / "hub", hub__tls="self-signed") as hub:
        hub.join_and_report(*snapshots)
        with closing(HubClient(hub.url, fingerprint=hub.server.fingerprint)) as client:

            def reasons() -> list[str]:
                rows = client.periods("1h", node="gpu04").rows
                periods = [each for row in rows for each in row.periods if each.state == "leased"]
                return [each.reason for each in periods]

            wait_until(lambda: len(reasons()) >= 3)
            assert [each.partition(" 1 s ago")[0] for each in reasons()] == [
                "taken by alice",
                "taken by carol",
                "taken by bob",
            ]
            assert [each.partition(": ")[2] for each in reasons()] == ["demo", "final", ""]
