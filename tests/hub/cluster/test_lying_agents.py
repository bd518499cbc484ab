"""An agent that lies about its owner, its numbers or its id harms no node but its own."""

import random
import string
from functools import partial
from pathlib import Path

from msgspec.structs import replace

from tests.builders import gpu, instance
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


def test_a_node_that_is_too_large_for_a_message_takes_no_other_node_with_it(
    tmp_path: Path, start_hub: StartHub
) -> None:
    """NATS carries up to 1 MiB, and texts of a report may have more."""
    one, two = start_hub("one"), start_hub("two")
    texts = random.Random(1)

    def text(length: int) -> str:
        return "".join(texts.choices(string.ascii_letters, k=length))

    wordy = [gpu(n, unread={text(20): text(500) for _ in range(60)}) for n in range(64)]
    parts = [instance(n, uuid=text(120), profile=text(120)) for n in range(32)]
    many = [
        gpu(n, instances=tuple(replace(part, uuid=f"{n}{part.uuid}") for part in parts))
        for n in range(128)
    ]
    nodes = {"gpu01": [gpu(0)], "wordy": wordy, "many": many, "gpu02": [gpu(0)]}
    for name, gpus in nodes.items():
        token = one.join(f"id-of-{name}", name)
        report = snapshot_now(name, *gpus, sequence=1, run_id="run", interval_seconds=600.0)
        assert one.report(report, token=token).status == 200

    def gpu_counts() -> list[int | None]:
        views = [shown(two, name) for name in nodes]
        return [None if view is None else len(view.gpus) for view in views]

    wait_until(lambda: gpu_counts() == [1, 64, 0, 1])
    view = shown(two, "many")
    assert view is not None
    assert (view.trouble or "").startswith("too large to be sent between hubs")
    assert two.server.hub.link.bus.error is None  # type: ignore[attr-defined]
