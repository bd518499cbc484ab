"""An agent that lies about its owner, its numbers or its id harms no node but its own."""

from functools import partial
from pathlib import Path

from tests.builders import gpu
from tests.hub.cluster.agents import Agent
from tests.hub.cluster.conftest import StartHub
from tests.hub.cluster.test_cluster import is_live, problem_kinds, shown
from tests.machines import wait_until
from tests.server.routes.snapshots import snapshot_now


def test_an_agent_that_lies_harms_only_its_own_node(tmp_path: Path, start_hub: StartHub) -> None:
    one, two = start_hub("one"), start_hub("two")
    with Agent(tmp_path, "gpu01", [one.url], one.token("join")):
        wait_until(partial(is_live, two, "gpu01"))
        token = one.join("id-of-liar", "liar")
        wait_until(lambda: two.server.credentials.identify_token(token) is not None)
        receipts = [one.server.hub.receipt_id, f"{two.server.hub.receipt_id}.99", "x" * 200, None]
        statuses = set[int]()
        for number, sequence in enumerate([2**53, 0, 5, 2**62, 1, 3] * 4):
            hub = (one, two)[number % 2]
            report = snapshot_now("liar", gpu(0), sequence=sequence, run_id=f"run-{number % 3}")
            response = hub.report(report, token=token, continued=receipts[number % 4])
            statuses.add(response.status)
        # With its own credential it cannot be another node.
        stolen = snapshot_now("gpu01", gpu(0, uuid="GPU-stolen"), sequence=2**50)
        statuses.add(two.report(stolen, token=token).status)
        assert max(statuses) < 500
        for hub in (one, two):
            wait_until(partial(is_live, hub, "gpu01"))
            node = shown(hub, "gpu01")
            assert node is not None
            assert (node.missing_reports, [g.uuid for g in node.gpus]) == (0, [gpu(0).uuid])
            wait_until(lambda hub=hub: problem_kinds(hub) == [])  # type: ignore[misc]
            assert hub.server.hub.fleet.faults.total == 0
