"""`GET /api/v1/nodes`, `GET /api/v1/problems` and `/readyz`: what the hub knows to be wrong."""

from pathlib import Path
from typing import Any

import msgspec
import pytest

from fleet_smi.hub.refusals import Refusal
from tests.builders import gpu
from tests.cli.program import run_fleet_smi, run_json
from tests.machines import small_disk, wait_until
from tests.server.routes.responses import get_json
from tests.server.routes.snapshots import snapshot_now
from tests.server.threaded_hub import ThreadedHub


def admin(hub: ThreadedHub) -> dict[str, Any]:
    return {"token": hub.token("admin"), "Content_Type": "application/json"}


def test_refused_senders_are_listed_with_cause_and_remedy(tmp_path: Path) -> None:
    with ThreadedHub(tmp_path / "hub") as hub:
        assert get_json(hub, "/api/v1/problems") == {"problems": [], "refused": []}
        revoked = hub.join_and_report(snapshot_now("gpu01", gpu(0)))
        other = hub.join_and_report(snapshot_now("gpu02", gpu(0), node_id="id-b"))
        removed = hub.join_and_report(snapshot_now("gpu03", gpu(0), node_id="id-c"))
        assert hub.request("DELETE", "/api/v1/tokens/id-of-gpu01", **admin(hub)).status == 204
        assert hub.request("DELETE", "/api/v1/nodes/id-c", **admin(hub)).status == 204
        attempts = (
            (snapshot_now("gpu01", gpu(0)), revoked, 401),
            (snapshot_now("gpu03", gpu(0), node_id="id-c"), removed, 401),
            (snapshot_now("forged", gpu(0)), "fsmi_node_unknown", 401),
            (snapshot_now("gpu09", gpu(0), node_id="id-z"), other, 403),
            (snapshot_now("gpu09", gpu(0), node_id="id-z"), hub.token("viewer"), 403),
        )
        for shot, token, status in attempts:
            assert hub.report(shot, token=token).status == status
        body = {"node_id": "id-b", "name": "gpu02"}
        response = hub.request_json("POST", "/api/v1/join", body, token=hub.token("join"))
        assert response.status == 403
        found = get_json(hub, "/api/v1/nodes")
        causes = {(each["name"], each["reason"]) for each in found["refused"]}
        assert causes == {
            ("gpu01", "its credential was revoked, or its node was removed"),
            ("gpu03", "its credential was revoked, or its node was removed"),
            (None, "this hub does not know its credential"),
            ("gpu09", "it reports for gpu09 with the credential of gpu02"),
            (None, "its token is not that of a node"),
            ("gpu02", "cannot join: this node id already has a credential"),
        }
        assert {each["address"] for each in found["refused"]} == {"127.0.0.1"}
        assert all(each["remedy"] for each in found["refused"])
        troubles = {node["name"]: node["trouble"] for node in found["nodes"]}
        assert troubles.keys() == {"gpu01", "gpu02"}  # one that was removed stays removed
        assert "its credential was revoked" in troubles["gpu01"]
        env = {"HOME": str(tmp_path), "PATH": "/usr/bin:/bin"}
        screen = " ".join(run_fleet_smi("nodes", "--hub", hub.url, env=env).stdout.split())
        assert "gpu03 (127.0.0.1), 1 attempt" in screen
        assert "fleet-smi hub join-command" in screen
        assert run_json("nodes", "--hub", hub.url, env=env)["refused"] == found["refused"]
        # Once it has joined again, it is no longer listed.
        hub.join_and_report(snapshot_now("gpu01", gpu(0), sequence=9))
        names = {each["name"] for each in get_json(hub, "/api/v1/problems")["refused"]}
        assert names == {"gpu03"}  # nor are those at its address who have not said who they are
        assert hub.fleet().nodes[0].trouble is None


def test_the_number_of_refused_senders_is_limited(hub: ThreadedHub) -> None:
    for number in range(1_000):
        address = f"10.0.{number // 256}.{number % 256}"
        hub.server.hub.refuse(Refusal(address, "forged", "ignore it"))
    assert len(get_json(hub, "/api/v1/problems")["refused"]) == 200


@pytest.mark.parametrize("database", ["hub.db", "history.db"])
def test_a_full_disk_is_shown_everywhere(tmp_path: Path, database: str) -> None:
    """The disk of the nodes, or that of the history alone."""
    history = tmp_path / "elsewhere" / "history.db"
    history.parent.mkdir(mode=0o700)
    with small_disk(tmp_path / "disk", 96) as disk:
        places = {"hub.db": (disk, history), "history.db": (tmp_path / "hub", disk / "history.db")}
        folder, past = places[database]
        with ThreadedHub(folder, hub__history=str(past)) as hub:
            token = hub.join_and_report(snapshot_now("gpu01", gpu(0)))
            assert get_json(hub, "/readyz") == {"status": "ok"}
            ballast = disk / "ballast"
            # Unbuffered: what is left in a buffer would fail once more when the file is closed.
            with ballast.open("wb", buffering=0) as file, pytest.raises(OSError, match="space"):
                while True:
                    file.write(b"\0" * 65_536)
            sent = 0

            def kinds() -> set[str]:
                nonlocal sent
                sent += 1
                hub.report(snapshot_now("gpu01", gpu(0), sequence=sent), token=token)
                return {each["kind"] for each in get_json(hub, "/api/v1/problems")["problems"]}

            expected = {"disk", "nodes"} if database == "hub.db" else {"history"}
            wait_until(lambda: expected <= kinds())
            ready = get_json(hub, "/readyz")
            assert ready["status"] == "degraded"
            assert not any(str(tmp_path) in text for text in ready["problems"])
            env = {"HOME": str(tmp_path), "PATH": "/usr/bin:/bin"}
            screen = run_fleet_smi("nodes", "--hub", hub.url, env=env).stdout
            assert screen.startswith("! for ")
            assert "free" in screen.split("\n\n")[0]
            listed = msgspec.json.decode(hub.request("GET", "/api/v1/nodes").body)
            assert all(each["remedy"] and each["detail"] for each in listed["problems"])
            ballast.unlink()
            wait_until(lambda: not kinds())
            assert get_json(hub, "/readyz") == {"status": "ok"}


def test_the_nodes_of_a_large_fleet_are_listed_as_in_the_fleet_and_compressed(
    tmp_path: Path,
) -> None:
    """All of them encoded at once would keep the event loop from reports."""
    names = [f"gpu{number:02}" for number in range(20)]
    with ThreadedHub(tmp_path / "hub") as hub:
        for name in names:
            hub.join_and_report(snapshot_now(name, gpu(0, uuid=f"GPU-of-{name}")))
        plain = hub.request("GET", "/api/v1/nodes", Accept_Encoding="identity")
        assert "content-encoding" not in plain.headers
        assert hub.request("GET", "/api/v1/nodes").headers["content-encoding"] == "gzip"
        listed, fleet = get_json(hub, "/api/v1/nodes"), get_json(hub, "/api/v1/fleet")
    assert [node["name"] for node in listed["nodes"]] == names
    assert listed["nodes"][0].keys() == fleet["nodes"][0].keys()
    assert listed["summary"] == fleet["summary"]


def test_a_state_folder_that_was_moved_away_is_not_called_a_full_disk(tmp_path: Path) -> None:
    folder, history = tmp_path / "state", tmp_path / "elsewhere" / "history.db"
    with ThreadedHub(folder, hub__history=str(history)) as hub:
        token = hub.join_and_report(snapshot_now("gpu01", gpu(0)))
        folder.rename(tmp_path / "away")
        sent = 0

        def problems() -> dict[str, str]:
            nonlocal sent
            sent += 1
            hub.report(snapshot_now("gpu01", gpu(0), sequence=sent), token=token)
            listed = get_json(hub, "/api/v1/problems")["problems"]
            return {each["kind"]: each["detail"] for each in listed}

        wait_until(lambda: "nodes" in problems())
        found = problems()
        assert "disk" not in found
        assert "hub.db was moved, removed or replaced" in found["nodes"]
        (tmp_path / "away").rename(folder)
        wait_until(lambda: not problems())
