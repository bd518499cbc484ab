"""Whatever is sent over NATS harms no hub, and clusters on one NATS do not see each other."""

import asyncio
import os
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import msgspec
import nats as nats_client
import pytest

from fleet_smi.hub.cluster.state_database import open_shared_state
from fleet_smi.model.fleet import NodeView
from fleet_smi.wire.cluster import (
    BriefNode,
    Changes,
    HubPresence,
    NodeUpdate,
    encode_brief,
    encode_message,
)
from tests.hub.cluster.agents import Agent
from tests.hub.cluster.conftest import StartHub
from tests.hub.cluster.test_cluster import has_names, is_live, problem_kinds, shown
from tests.machines import wait_until
from tests.nats import Nats, nats_server
from tests.postgres import Postgres
from tests.server.threaded_hub import ThreadedHub

_STRANGER = "0123456789abcdef"


@pytest.fixture
def nats(tmp_path: Path) -> Iterator[Nats]:
    """A NATS server that carries large messages."""
    with nats_server(tmp_path, "max_payload: 8MB") as server:
        yield server


def send(nats: Nats, database: str, *messages: bytes, subject: str = "fleet.x") -> None:
    """Publish messages to the hubs of a cluster."""
    state = open_shared_state(database)
    state.engine.dispose()

    async def publish() -> None:
        client = await nats_client.connect(nats.url)
        for message in messages:
            await client.publish(f"fleet-smi.{state.cluster_id}.{subject}", message)
        await client.drain()

    asyncio.run(publish())


def changes(*nodes: BriefNode, sequence: int = 1, updates: tuple[NodeUpdate, ...] = ()) -> bytes:
    """A message with these nodes, as of a hub that nobody knows."""
    raw = tuple(map(encode_brief, nodes))
    return encode_message(Changes(_STRANGER, "run", sequence, raw, updates))


def view(node_id: str, name: str) -> NodeView:
    return NodeView(node_id=node_id, name=name, taken_at=1.0, age_seconds=0.0)


def presence(**fields: object) -> bytes:
    """A sign of life of a hub that nobody knows."""
    known = {"hub": _STRANGER, "instance": "run", "name": "x", "now": 1.0, "sequence": 0}
    return encode_message(HubPresence(**(known | fields)))  # type: ignore[arg-type]


def test_garbage_and_large_messages_harm_nothing(
    tmp_path: Path, start_hub: StartHub, nats: Nats, database: str
) -> None:
    one = start_hub("one")
    with Agent(tmp_path, "gpu01", [one.url], one.token("join")):
        wait_until(partial(is_live, one, "gpu01"))
        bomb = b"\x01" + msgspec.msgpack.encode(["changes", "x" * 16])
        garbage = [b"", b"\x00", b"\x07?", os.urandom(1000), b"\x00" + b"\x91" * 100_000, bomb]
        send(nats, database, *garbage, os.urandom(5 << 20), b"\x00" + b"x" * (5 << 20))
        hub_id = one.server.hub._hub_id  # type: ignore[attr-defined]
        send(nats, database, *garbage, os.urandom(5 << 20), subject=f"requests.{hub_id}")
        send(nats, database, changes(BriefNode(1, None, view("last", "last"))))
        wait_until(partial(has_names, one, "gpu01", "last"))
        assert is_live(one, "gpu01")


def test_what_another_hub_sends_is_sanitized_and_limited(
    tmp_path: Path, start_hub: StartHub, nats: Nats, database: str
) -> None:
    one = start_hub("one", hub__nodes_most=20)
    nodes = [BriefNode(n, None, view(f"n{n}", f"a\x1b[31m{n:03}\u202e")) for n in range(100)]
    other_gpus = NodeUpdate(1, 0.0, (None,) * 1000)
    send(nats, database, changes(*nodes), changes(sequence=2, updates=(other_gpus,)))
    wait_until(lambda: len(one.fleet().nodes) == 20)
    assert one.fleet().nodes[0].name == "a [31m000"
    # Ids that are subjects of NATS, and more hubs than a cluster has.
    strangers = [presence(hub=f"{number:016}", name="x\x1b\n") for number in range(500)]
    send(nats, database, presence(hub="a.>"), *strangers)
    peers = one.server.hub.link.peers  # type: ignore[attr-defined]
    wait_until(lambda: peers.name_of(f"{100:016}") == "x")
    assert len(peers._peers) <= 200
    assert peers.name_of("a.>") == "a.>"


def test_messages_of_a_newer_version_are_read_as_far_as_they_are_known(
    tmp_path: Path, start_hub: StartHub, nats: Nats, database: str
) -> None:
    one = start_hub("one")
    unknown_kind = b"\x00" + msgspec.msgpack.encode(["later", _STRANGER, 1])
    node = msgspec.to_builtins(view("new", "new")) | {"later": {"field": 1}}
    brief = msgspec.Raw(msgspec.msgpack.encode([1, None, node, "later"]))
    fields = ["changes", _STRANGER, "run", 1, [brief], [], [], ["later"]]
    send(nats, database, unknown_kind, b"\x00" + msgspec.msgpack.encode(fields))
    wait_until(partial(has_names, one, "new"))


def test_two_clusters_on_one_nats_do_not_see_each_other(
    tmp_path: Path, start_hub: StartHub, nats: Nats, postgres: Postgres
) -> None:
    with postgres.database() as other_database:
        one, other = start_hub("one"), start_hub("other", hub__history=other_database)
        with (
            Agent(tmp_path / "1", "gpu01", [one.url], one.token("join")),
            Agent(tmp_path / "2", "gpu02", [other.url], other.token("join")),
        ):
            wait_until(partial(is_live, one, "gpu01"))
            wait_until(partial(is_live, other, "gpu02"))
            assert has_names(one, "gpu01")
            assert has_names(other, "gpu02")
            wait_until(lambda: problem_kinds(one) == problem_kinds(other) == [])
        other.stop()


def test_a_credential_that_two_machines_use_at_two_hubs_harms_no_other_node(
    tmp_path: Path, start_hub: StartHub
) -> None:
    one, two = start_hub("one"), start_hub("two")
    join = one.token("join")
    with (
        Agent(tmp_path, "gpu01", [one.url], join),
        Agent(tmp_path, "gpu02", [two.url], join),
        Agent(tmp_path / "copy", "same", [one.url], join) as first,
    ):
        wait_until(partial(is_live, one, "same"))
        with Agent(tmp_path / "copy", "same", [two.url], join) as second:
            begun = first.sequence, second.sequence
            wait_until(lambda: first.sequence > begun[0] + 20 and second.sequence > begun[1] + 20)
            for hub in (one, two):
                wait_until(partial(_shows_each_once, hub))
    for hub in (one, two):
        wait_until(lambda hub=hub: all(node.silent for node in hub.fleet().nodes))  # type: ignore[misc]


def _shows_each_once(hub: ThreadedHub) -> bool:
    names = [node.name for node in hub.fleet().nodes]
    others = [shown(hub, "gpu01"), shown(hub, "gpu02")]
    is_right = all(node is not None and node.missing_reports == 0 for node in others)
    return names == ["gpu01", "gpu02", "same"] and is_right and is_live(hub, "gpu01")
