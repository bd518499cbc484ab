"""Nodes without GPUs, by every way that has brought one: they fall silent, and the hub goes on."""

import json
import os
import time
from contextlib import closing
from pathlib import Path

from fleet_smi.client.hub import HubClient
from fleet_smi.compat.cluster_smi.codec import encode_node
from fleet_smi.compat.cluster_smi.sockets import resolve_bind_endpoint
from fleet_smi.compat.cluster_smi.source import ClusterSmiSource
from fleet_smi.compat.nvgpu.agent_route import ROUTES
from fleet_smi.compat.nvgpu.source import NvgpuSource
from fleet_smi.hub.sources.files import FilesSource
from fleet_smi.node.outlets.serve import ServeOutlet
from tests.builders import snapshot
from tests.compat.cluster_smi.zeromq_peers import ZeromqNode
from tests.machines import wait_until
from tests.server.threaded_hub import ThreadedHub

NAMES = {"by-cluster-smi", "by-nvgpu", "by-file", "by-push"}
NODE_COUNT = len(NAMES)
# Silence of a file is three minutes: this one is nearly as old as that.
FILE_AGE_SECONDS = 170.0


def silent(hub: ThreadedHub) -> dict[str, bool]:
    return {node.name: node.silent for node in hub.fleet().nodes}


def read_history(hub: ThreadedHub) -> None:
    with closing(HubClient(hub.url)) as client:
        for node in client.fleet().nodes:
            client.series(node.node_id, "1h")


def test_nodes_without_gpus_fall_silent_and_the_hub_goes_on(tmp_path: Path) -> None:
    folder, shared = tmp_path / "state", tmp_path / "shared"
    endpoint = resolve_bind_endpoint("127.0.0.1", 0, open_to_all=False)
    with closing(ServeOutlet("127.0.0.1", 0, routes=ROUTES)) as agent:
        agent.publish(snapshot(node="by-nvgpu"))
        sources = (
            ClusterSmiSource(listen_endpoint=endpoint),
            NvgpuSource([f"127.0.0.1:{agent.port}"], interval_seconds=0.5),
            FilesSource(str(shared), interval_seconds=0.5),
        )
        shared.mkdir()
        with ThreadedHub(folder, sources) as hub:
            page = {"hostname": "by-file", "query_time": "2026-01-01T00:00:00", "gpus": []}
            draft, written_at = shared / ".draft", time.time() - FILE_AGE_SECONDS
            draft.write_text(json.dumps(page))
            os.utime(draft, (written_at, written_at))
            draft.rename(shared / "by-file.json")
            now = time.time()
            hub.join_and_report(snapshot(node="by-push", taken_at=now, interval_seconds=3.0))
            with ZeromqNode(endpoint) as node:

                def have_all_reported() -> bool:
                    node.push(encode_node(snapshot(node="by-cluster-smi", taken_at=time.time())))
                    # By their own names: a target is listed under its address before its first.
                    return set(silent(hub)) == NAMES

                for _ in range(8):
                    wait_until(have_all_reported)
            agent.close()
            read_history(hub)
            wait_until(lambda: len(silent(hub)) == NODE_COUNT and all(silent(hub).values()))
            # Silent for the history too, which checks every two seconds.
            history = hub.server.hub.history
            assert history is not None
            wait_until(lambda: all(node.silent for node in history._recorders.values()))
            read_history(hub)
            assert hub.request("GET", "/readyz").status == 200
    with ThreadedHub(folder) as hub:
        assert len(silent(hub)) == NODE_COUNT
        assert all(silent(hub).values())
        read_history(hub)
        assert not any(node.trouble for node in hub.fleet().nodes if node.via != "nvgpu")
