"""`POST /api/v1/join`: join tokens, and readable validation errors."""

import time

import msgspec
import pytest

from fleet_smi.fleet.delivery import Delivery
from fleet_smi.model.snapshot import Snapshot
from tests.builders import gpu, process, snapshot
from tests.server.threaded_hub import ThreadedHub, error_code


def test_a_join_token_is_valid_for_joining_only(hub: ThreadedHub) -> None:
    token = hub.token("join", max_uses=1)
    assert hub.request("GET", "/api/v1/fleet", token=token).status in (401, 403)
    assert hub.join("id-of-gpu03", "gpu03", token).startswith("fsmi_")
    again = hub.request_json("POST", "/api/v1/join", {"node_id": "x", "name": "x"}, token=token)
    assert (again.status, error_code(again)) == (403, "refused")


@pytest.mark.parametrize(
    "body, status",
    [
        (b"{}", 400),
        (b"", 400),
        (b'{"node_id":1,"name":"x"}', 400),
        (b'{"node_id":"ssh:gpu01","name":"x"}', 400),  # the id of a target before its first report
        (b" " * 70_000, 413),
    ],
)
def test_an_invalid_join_is_refused(hub: ThreadedHub, body: bytes, status: int) -> None:
    response = hub.request(
        "POST", "/api/v1/join", body, token=hub.token("join"), Content_Type="application/json"
    )
    assert response.status == status
    error_code(response)


@pytest.mark.parametrize(
    "body, message",
    [
        (b"{}", "node_id is missing"),
        (b'{"node_id":1,"name":"x"}', "node_id must be a text, not a whole number"),
        (b'{"node_id":"x","name":"x","role":"admin"}', "role is not known"),
        (b"{", "it breaks off"),
    ],
)
def test_validation_errors_are_readable(hub: ThreadedHub, body: bytes, message: str) -> None:
    page = {"token": hub.token("join"), "Content_Type": "application/json"}
    response = hub.request("POST", "/api/v1/join", body, **page)
    assert msgspec.json.decode(response.body)["error"]["message"] == message
    requested = hub.request("GET", "/?columns=wide")
    message = "columns must be a whole number, not a text"
    assert msgspec.json.decode(requested.body)["error"]["message"] == message


@pytest.mark.parametrize("boot", [{}, {"boot_id": "another"}], ids=["no boot", "another boot"])
def test_a_join_does_not_take_over_the_id_of_a_machine_that_is_polled(
    hub: ThreadedHub, boot: dict[str, str]
) -> None:
    name = f"polled-{len(boot)}"
    node_id = f"id-of-{name}"

    def polled(sequence: int) -> Snapshot:
        return snapshot(
            gpu(processes=(process(),)),
            node=name,
            taken_at=time.time(),
            interval_seconds=60.0,
            boot_id="boot-of-it",
            run_id="run-of-it",
            sequence=sequence,
        )

    def poll(sequence: int) -> None:
        delivery = Delivery(source="pull", target=name, result=polled(sequence))
        hub.deliver(delivery)

    poll(1)
    joining = {"node_id": node_id, "name": name, **boot}
    joined = hub.request_json("POST", "/api/v1/join", joining, token=hub.token("join"))
    token = msgspec.json.decode(joined.body)["token"]
    forged = snapshot(gpu(uuid="GPU-forged"), node=name, taken_at=time.time(), boot_id="another")
    assert hub.report(forged, token=token).status == 200
    poll(2)
    nodes = {node.node_id: node for node in hub.fleet().nodes if node.name == name}
    assert len(nodes) == 2
    assert nodes[node_id].sequence == 2
    assert [each.verdict.state for each in nodes[node_id].gpus] != ["free"]
    assert nodes[node_id].gpus[0].uuid != "GPU-forged"
