"""`/api/v1/closings`: what an admin closes is leased in every view, and is not offered."""

import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from fleet_smi.client.connection import Response
from fleet_smi.hub.closings import ClosingStore
from fleet_smi.hub.database import open_database
from fleet_smi.model.closing import Closing
from tests.builders import gpu, process
from tests.machines import wait_until
from tests.server.routes.responses import get_json
from tests.server.routes.snapshots import snapshot_now
from tests.server.threaded_hub import ThreadedHub, error_code

PATH = "/api/v1/closings"
REASON = "closed by maria: new fan"


def start(folder: Path, **settings: Any) -> ThreadedHub:
    return ThreadedHub(folder, **settings)


@pytest.fixture
def hub(tmp_path: Path) -> Iterator[ThreadedHub]:
    with start(tmp_path) as running:
        busy = gpu(1, uuid="GPU-B", processes=(process(),), busy_percent=90.0)
        running.join_and_report(snapshot_now("gpu01", gpu(0, uuid="GPU-A"), busy))
        rack = snapshot_now("gpu02", gpu(0, uuid="GPU-C"), labels={"rack": "3"})
        running.join_and_report(rack)
        yield running


def admin(hub: ThreadedHub) -> str:
    return hub.token("admin", person="maria")


def close(hub: ThreadedHub, **fields: Any) -> Response:
    body = {"note": "new fan", **fields}
    return hub.request_json("POST", PATH, body, token=admin(hub))


def closed(hub: ThreadedHub, **fields: Any) -> Closing:
    response = close(hub, **fields)
    assert response.status == 200, response
    return msgspec.json.decode(response.body, type=Closing)


def states(hub: ThreadedHub) -> dict[str, str]:
    return {gpu.uuid: gpu.verdict.state for node in hub.fleet().nodes for gpu in node.gpus}


def test_a_closed_node_is_leased_in_every_view_and_not_offered(hub: ThreadedHub) -> None:
    made = closed(hub, node_id="id-of-gpu01")
    assert (made.by, made.note) == ("maria", "new fan")
    assert states(hub) == {"GPU-A": "leased", "GPU-B": "busy", "GPU-C": "free"}
    free, busy = hub.fleet().nodes[0].gpus
    assert free.verdict.reason == REASON
    assert [note.words for note in busy.verdict.notes] == [REASON]
    for path in ("free", "offers"):
        offer = get_json(hub, f"/api/v1/{path}?policy=memory&max_used=100")
        assert [each["uuid"] for each in offer["offered"]] == ["GPU-C"]
        assert any(REASON in str(each) for each in offer["refused"])
    assert get_json(hub, "/api/v1/overview")["nodes"][0]["states"] == ["leased", "busy"]
    payload = get_json(hub, "/api/v1/stream/snapshot")
    verdict = payload["nodes"][0]["gpus"][0]["verdict"]
    assert (verdict["state"], verdict["reason"]) == ("leased", REASON)
    assert payload["summary"]["leased"] == 1
    listed = get_json(hub, PATH)["closings"]
    assert [each["id"] for each in listed] == [made.id]
    assert hub.request("DELETE", f"{PATH}/{made.id}", token=admin(hub)).status == 204
    assert states(hub)["GPU-A"] == "free"
    again = hub.request("DELETE", f"{PATH}/{made.id}", token=admin(hub))
    assert (again.status, error_code(again)) == (404, "unknown_closing")


def test_one_gpu_or_a_label_is_closed_and_a_second_closing_replaces_the_first(
    hub: ThreadedHub,
) -> None:
    closed(hub, node_id="id-of-gpu01", uuid="GPU-A")
    closed(hub, label="rack=3")
    assert states(hub) == {"GPU-A": "leased", "GPU-B": "busy", "GPU-C": "leased"}
    closed(hub, label="rack=3", note="another day")
    assert hub.fleet().nodes[1].gpus[0].verdict.reason == "closed by maria: another day"
    assert len(get_json(hub, PATH)["closings"]) == 2
    # A label that a node gets later counts, too; one that it loses does not.
    change = {"labels": {"rack": "4"}}
    hub.request_json("PATCH", "/api/v1/nodes/id-of-gpu02", change, token=admin(hub))
    assert states(hub)["GPU-C"] == "free"


def test_the_stream_tells_of_a_closing_and_of_its_end(hub: ThreadedHub) -> None:
    revision = hub.server.hub.version
    closed(hub, node_id="id-of-gpu01", until=time.time() + 1.5)
    assert hub.server.hub.version > revision
    assert states(hub)["GPU-A"] == "leased"
    revision = hub.server.hub.version
    wait_until(lambda: states(hub)["GPU-A"] == "free")
    wait_until(lambda: get_json(hub, PATH)["closings"] == [])
    assert hub.server.hub.version > revision


def test_it_survives_a_restart_and_is_in_the_history(tmp_path: Path) -> None:
    with start(tmp_path) as hub:
        token = hub.join_and_report(snapshot_now("gpu01", gpu(0, uuid="GPU-A")))
        closed(hub, node_id="id-of-gpu01")
        later = snapshot_now("gpu01", gpu(0, uuid="GPU-A"), sequence=2)
        assert hub.report(later, token=token).status == 200
        wait_until(lambda: "'leased'" in str(get_json(hub, "/api/v1/history/periods?since=-1h")))
    with start(tmp_path) as hub:
        assert states(hub) == {"GPU-A": "leased"}
        assert get_json(hub, PATH)["closings"][0]["note"] == "new fan"


def test_another_hub_on_the_same_database_sees_it(tmp_path: Path) -> None:
    engine = open_database(tmp_path / "state")
    one, other = ClosingStore(engine), ClosingStore(engine)
    made = one.close(Closing(id="", label="rack=3", by="maria", created_at=0.0))
    other.refresh()
    assert list(other.current) == list(one.current) == [made]
    assert other.open(made.id)
    one.refresh()
    assert list(one.current) == []
    engine.dispose()


@pytest.mark.parametrize(
    "fields, status",
    [
        ({}, 400),
        ({"node_id": "id-of-gpu01", "label": "rack=3"}, 400),
        ({"label": "rack=3", "uuid": "GPU-A"}, 400),
        ({"label": "rack"}, 400),
        ({"label": "rack=\n"}, 400),
        ({"node_id": "nobody"}, 404),
        ({"node_id": "id-of-gpu01", "uuid": "GPU-C"}, 404),
        ({"node_id": "id-of-gpu01", "until": 1.0}, 400),
        ({"node_id": "id-of-gpu01", "note": "x" * 300}, 400),
    ],
)
def test_nonsense_is_refused(hub: ThreadedHub, fields: dict[str, Any], status: int) -> None:
    response = close(hub, **fields)
    assert response.status == status
    assert error_code(response)
    assert get_json(hub, PATH)["closings"] == []


def test_only_an_admin_closes(hub: ThreadedHub) -> None:
    body = {"node_id": "id-of-gpu01"}
    for token, status in ((hub.token("viewer", person="bob"), 403), (None, 401)):
        assert hub.request_json("POST", PATH, body, token=token).status == status
        assert hub.request("DELETE", f"{PATH}/x", token=token).status == status
    # A note is text of somebody else.
    assert closed(hub, **body, note="a\x1b[31mb").note == "a [31mb"
