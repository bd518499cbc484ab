"""Invented nodes: one credential, one folder or one token cannot fill the hub with them."""

import time
from pathlib import Path

from fleet_smi.fleet.delivery import Delivery
from fleet_smi.model.snapshot import Host, Snapshot
from tests.builders import gpu, snapshot
from tests.server.threaded_hub import ThreadedHub, error_code

BOOTS = 100


def boot(number: int, sequence: int) -> Snapshot:
    """What another machine with the same id would report."""
    now = time.time()
    return snapshot(
        gpu(0, uuid=f"GPU-invented-{number}"),
        taken_at=now,
        sequence=sequence,
        run_id=f"run-{number}",
        boot_id=f"boot-{number}",
        host=Host(booted_at=now - 86_400, addresses=(f"10.0.{number}.1",)),
    )


def test_one_credential_has_a_few_machines_whatever_boots_it_invents(tmp_path: Path) -> None:
    with ThreadedHub(tmp_path) as hub:
        token = hub.join("id-of-gpu01", "gpu01")
        for number in range(BOOTS):
            assert hub.report(boot(number, 1), token=token).status == 200
        nodes = hub.fleet().nodes
        assert 2 < len(nodes) <= 16
        # The reason is shown, and those that are known go on.
        assert any("with one credential" in (node.trouble or "") for node in nodes)
        assert hub.report(boot(0, 2), token=token).status == 200
        assert len(hub.fleet().nodes) == len(nodes)


def test_a_hub_that_is_full_refuses_new_nodes_and_serves_the_others(tmp_path: Path) -> None:
    with ThreadedHub(tmp_path, hub__nodes_most="3") as hub:
        token = hub.join_and_report(boot(0, 1))
        for number in range(20):
            name = f"file{number}"
            now = time.time()
            sent = snapshot(gpu(0, uuid=f"GPU-{name}"), node=name, taken_at=now)
            hub.deliver(Delivery(source="files", target=name, result=sent))
        assert {node.name for node in hub.fleet().nodes} == {"gpu01", "file0", "file1"}
        assert hub.report(boot(0, 2), token=token).status == 200
        identities = hub.server.hub.fleet.identities
        assert len(identities._machines) == 3  # nothing is remembered of those refused


def test_a_join_token_cannot_add_more_nodes_than_the_hub_may_have(tmp_path: Path) -> None:
    with ThreadedHub(tmp_path, hub__nodes_most="2") as hub:
        join = hub.token("join", max_uses=10)
        for number in range(2):
            hub.join(f"id-{number}", f"gpu{number}", join)
        body = {"node_id": "id-2", "name": "gpu2"}
        response = hub.request_json("POST", "/api/v1/join", body, token=join)
        assert (response.status, error_code(response)) == (403, "refused")
        assert b"hub.nodes_most" in response.body
