"""Closings in a cluster: made at any hub, judged by the hub of the node, shown by all."""

from pathlib import Path

from tests.builders import gpu
from tests.hub.cluster.conftest import StartHub
from tests.machines import wait_until
from tests.server.routes.snapshots import snapshot_now
from tests.server.threaded_hub import ThreadedHub


def states(hub: ThreadedHub) -> list[str]:
    return [gpu.verdict.state for node in hub.fleet().nodes for gpu in node.gpus]


def test_a_node_is_closed_at_another_hub_than_its_own(tmp_path: Path, start_hub: StartHub) -> None:
    one, two = start_hub("one"), start_hub("two")
    two.join_and_report(snapshot_now("gpu01", gpu(0)))
    wait_until(lambda: states(one) == states(two) == ["free"])
    admin = one.token("admin", person="maria")
    body = {"node_id": "id-of-gpu01", "note": "new fan"}
    made = one.request_json("POST", "/api/v1/closings", body, token=admin)
    assert made.status == 200, made
    wait_until(lambda: states(one) == states(two) == ["leased"])
    (node,) = one.fleet().nodes
    assert node.gpus[0].verdict.reason == "closed by maria: new fan"
    # Also after the hub at which it was closed has gone.
    one.stop()
    assert states(two) == ["leased"]
