"""Compact reports over a real socket: applied to the very snapshot they build on, or refused."""

import time
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import msgspec
import pytest
from msgspec.structs import replace

from fleet_smi.client.connection import Response
from fleet_smi.fleet.delivery import Delivery
from fleet_smi.model.snapshot import Snapshot
from fleet_smi.wire.compact import CompactReport, compact
from fleet_smi.wire.compact_codec import READABLE_VERSIONS, encode_compact
from fleet_smi.wire.report import Receipt, decode_receipt
from tests.builders import gpu, process, snapshot
from tests.server.threaded_hub import REPORTS_PATH, ThreadedHub, error_code


@pytest.fixture
def hub(tmp_path: Path) -> Iterator[ThreadedHub]:
    with ThreadedHub(tmp_path / "state") as running:
        yield running


def taken(sequence: int, node: str = "gpu01", **fields: Any) -> Snapshot:
    """A snapshot whose first GPU has its number as its load."""
    known: dict[str, Any] = {"run_id": "run-1", "taken_at": time.time(), "interval_seconds": 60.0}
    card = gpu(0, busy_percent=float(sequence), processes=(process(),))
    return snapshot(card, gpu(1), node=node, sequence=sequence, **(known | fields))


class Node:
    """A node that joined, and its last receipt."""

    def __init__(self, hub: ThreadedHub, name: str = "gpu01") -> None:
        self._hub = hub
        self.name = name
        self.token = hub.join(f"id-of-{name}", name)
        self.receipt = Receipt(hub="")

    def send(self, now: Snapshot) -> None:
        response = self._hub.report(now, token=self.token)
        assert response.status == 200, response
        self.receipt = decode_receipt(response.body)

    def send_compact(self, base: Snapshot, now: Snapshot, **fields: Any) -> Response:
        report = compact(base, now)
        assert report is not None
        report = CompactReport(**{**msgspec.structs.asdict(report), **fields})
        body = encode_compact(report, fields.get("sent_at", now.taken_at), self.receipt.hub)
        return self.post(body)

    def post(self, body: bytes, kind: str = "application/msgpack") -> Response:
        return self._hub.request("POST", REPORTS_PATH, body, token=self.token, Content_Type=kind)

    @property
    def latest(self) -> Snapshot | None:
        return self._hub.server.hub.fleet.latest_snapshot(f"id-of-{self.name}")


def answer(response: Response) -> tuple[int, str]:
    return response.status, error_code(response)


NEED_FULL = (409, "need_full")


def test_a_chain_of_compact_reports_is_applied_like_full_ones(hub: ThreadedHub) -> None:
    node = Node(hub)
    chain = [taken(number) for number in range(1, 6)]
    node.send(chain[0])
    assert node.receipt.versions == READABLE_VERSIONS
    for base, now in pairwise(chain):
        response = node.send_compact(base, now)
        assert decode_receipt(response.body).hub == node.receipt.hub
        assert node.latest == now
    (shown,) = hub.fleet().nodes
    assert (shown.sequence, shown.missing_reports, shown.trouble) == (5, 0, None)
    assert shown.gpus[0].busy_percent == 5.0
    assert [each.verdict.state for each in shown.gpus] == ["busy", "free"]
    node.send(taken(6))
    assert hub.fleet().nodes[0].sequence == 6


def test_a_lost_repeated_or_late_compact_report_is_answered_with_a_request_for_the_full_one(
    hub: ThreadedHub,
) -> None:
    node = Node(hub)
    first, second, third, fourth = (taken(number) for number in range(1, 5))
    node.send(first)
    assert answer(node.send_compact(second, third)) == NEED_FULL, "the second was lost"
    node.send(third)
    assert node.send_compact(third, fourth).status == 200
    assert answer(node.send_compact(third, fourth)) == NEED_FULL, "it came twice"
    assert answer(node.send_compact(first, second)) == NEED_FULL, "it came late"
    assert node.latest == fourth
    node.send(second)
    (shown,) = hub.fleet().nodes
    assert (shown.sequence, shown.missing_reports, shown.trouble) == (4, 0, None)


def test_neither_another_run_nor_another_node_has_the_same_base(hub: ThreadedHub) -> None:
    node, other = Node(hub), Node(hub, "gpu02")
    node.send(taken(1))
    other.send(taken(1, "gpu02", run_id="run-2"))
    assert (
        answer(node.send_compact(taken(1, run_id="run-9"), taken(2, run_id="run-9"))) == NEED_FULL
    )
    # With the credential of gpu02, and all that it could know of gpu01.
    assert answer(other.send_compact(taken(1), taken(2))) == NEED_FULL
    assert {each.sequence for each in hub.fleet().nodes} == {1}
    nobody = Node(hub, "gpu03")
    nobody.receipt = node.receipt
    assert answer(nobody.send_compact(taken(1), taken(2))) == NEED_FULL
    assert len(hub.fleet().nodes) == 2


def test_what_another_route_reported_meanwhile_is_no_base(hub: ThreadedHub) -> None:
    node = Node(hub)
    node.send(taken(1))
    between = taken(2)
    hub.deliver(
        Delivery(source="push", target=between.node_id, result=between, id_origin="credential")
    )
    assert answer(node.send_compact(taken(1), taken(3))) == NEED_FULL
    assert node.send_compact(between, taken(3)).status == 200


def test_a_hub_that_was_restarted_asks_for_what_is_not_durable(
    hub: ThreadedHub, tmp_path: Path
) -> None:
    node = Node(hub)
    node.send(taken(1))
    hub.stop()
    with ThreadedHub(tmp_path / "state") as again:
        node._hub = again
        assert answer(node.send_compact(taken(1), taken(2))) == (409, "out_of_order")
        assert node.latest is not None
        node.receipt = Receipt(hub=again.server.hub.receipt_id)
        assert node.send_compact(node.latest, taken(2)).status == 200, "it was restored"


def test_hostile_figures_change_nothing(hub: ThreadedHub) -> None:
    node = Node(hub)
    base = taken(1)
    node.send(base)
    total = base.gpus[0].memory_total_bytes or 0
    for fields in (
        {"busy_percent": 101.0},
        {"power_watts": float("nan")},
        {"memory_used_bytes": total + 1},
    ):
        now = replace(taken(2), gpus=(replace(base.gpus[0], **fields), base.gpus[1]))
        assert answer(node.send_compact(base, now)) == NEED_FULL
    good = compact(base, taken(2))
    assert good is not None
    elements = msgspec.msgpack.decode(encode_compact(good, time.time(), node.receipt.hub))
    assert answer(
        node.post(msgspec.msgpack.encode([*elements[:8], [[1.0]] * 19, *elements[9:]]))
    ) == (NEED_FULL)
    assert node.latest == base
    assert hub.fleet().nodes[0].trouble is None, "the full report that follows says what is wrong"
    for body, code in ((b"\x92\x02", "undecodable"), (b"\x91\x03", "wrong_version")):
        assert answer(node.post(body)) == (400, code)
    assert answer(node.post(msgspec.json.encode(elements), "application/json")) == (
        400,
        "undecodable",
    )
    assert hub.fleet().nodes[0].trouble is not None
    assert node.send_compact(base, taken(2)).status == 200
    assert hub.fleet().nodes[0].trouble is None


def test_the_age_of_a_compact_report_is_by_the_clock_of_its_node(hub: ThreadedHub) -> None:
    node = Node(hub)
    base = taken(1, taken_at=1000.0)
    assert hub.report(base, token=node.token, sent_at=1050.0).status == 200
    node.receipt = Receipt(hub=hub.server.hub.receipt_id)
    now = taken(2, taken_at=1030.0)
    assert node.send_compact(base, now, sent_at=1050.0).status == 200
    age = hub.fleet().nodes[0].age_seconds
    assert age is not None
    assert 20 <= age < 50
