"""`GET /api/v1/stream` over real sockets: the fleet, its changes, slow and lost clients."""

import http.client
import zlib
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import NamedTuple, Self

import pytest

from fleet_smi.wire.event import Event
from fleet_smi.wire.event_reader import decode_event
from tests.builders import gpu, process
from tests.machines import wait_until
from tests.server.routes.snapshots import snapshot_now
from tests.server.threaded_hub import ThreadedHub, error_code

PATH = "/api/v1/stream"


class ReceivedEvent(NamedTuple):
    """One event as it came."""

    kind: str
    id: str
    event: Event


class Listening:
    """One who listens, by a connection of their own."""

    def __init__(
        self,
        hub: ThreadedHub,
        *,
        last_id: str | None = None,
        gzip: bool = False,
        token: str | None = None,
    ) -> None:
        self._connection = http.client.HTTPConnection(hub.url.removeprefix("http://"), timeout=60)
        headers = {"Accept-Encoding": "gzip" if gzip else "identity"}
        if last_id is not None:
            headers["Last-Event-ID"] = last_id
        if token is not None:
            headers["Authorization"] = f"Bearer {token}"
        self._connection.request("GET", PATH, headers=headers)
        self.answer = self._connection.getresponse()
        self._unpack = zlib.decompressobj(zlib.MAX_WBITS | 16) if gzip else None
        self._text = b""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.answer.close()
        self._connection.close()

    def next(self) -> ReceivedEvent:
        """The next event, when it comes."""
        while b"\n\n" not in self._text:
            data = self.answer.read1(1 << 16)
            assert data, "the stream has ended"
            self._text += data if self._unpack is None else self._unpack.decompress(data)
        framed, _, self._text = self._text.partition(b"\n\n")
        fields = dict(line.split(": ", 1) for line in framed.decode().splitlines())
        return ReceivedEvent(fields["event"], fields["id"], decode_event(fields["data"]))


@pytest.fixture
def hub(tmp_path: Path) -> Iterator[ThreadedHub]:
    with ThreadedHub(tmp_path) as running:
        yield running


def renamed(hub: ThreadedHub, name: str) -> None:
    """Make news: the first node is called something else."""
    path = "/api/v1/nodes/id-of-gpu01"
    assert hub.request_json("PATCH", path, {"name": name}, token=hub.token("admin")).status == 204


@pytest.mark.parametrize("gzip", [False, True])
def test_the_whole_fleet_comes_first_and_then_its_changes(hub: ThreadedHub, gzip: bool) -> None:
    hub.join_and_report(snapshot_now("gpu01", gpu(0)))
    hub.join_and_report(snapshot_now("gpu02", gpu(0, uuid="GPU-x")))
    hub.wait_until_published()
    with Listening(hub, gzip=gzip) as listening:
        assert listening.answer.status == 200
        assert listening.answer.headers["Content-Type"].startswith("text/event-stream")
        assert listening.answer.headers["Content-Encoding"] == ("gzip" if gzip else None)
        assert listening.answer.headers["Cache-Control"] == "no-store"
        first = listening.next()
        assert first.kind == "fleet"
        assert {node.name for node in first.event.nodes} == {"gpu01", "gpu02"}
        renamed(hub, "big-one")
        second = listening.next()
        assert second.kind == "change"
        assert [node.name for node in second.event.nodes] == ["big-one"]


def test_an_interrupted_stream_resumes_after_its_last_event(hub: ThreadedHub) -> None:
    hub.join_and_report(snapshot_now("gpu01", gpu(0)))
    hub.wait_until_published()
    with Listening(hub) as other:
        with Listening(hub) as listening:
            last = listening.next()
        other.next()
        renamed(hub, "missed")
        assert other.next().kind == "change"
        with Listening(hub, last_id=last.id) as again:
            caught_up = again.next()
            assert caught_up.kind == "change"
            assert [node.name for node in caught_up.event.nodes] == ["missed"]


@pytest.mark.parametrize("last_id", ["", "nonsense", "0-0", "ffffffffffffffff-3", "9" * 5000])
def test_an_event_id_of_another_run_gets_the_whole_fleet(hub: ThreadedHub, last_id: str) -> None:
    hub.join_and_report(snapshot_now("gpu01", gpu(0)))
    hub.wait_until_published()
    with Listening(hub, last_id=last_id) as listening:
        assert listening.next().kind == "fleet"


def test_a_client_that_does_not_read_does_not_delay_others(hub: ThreadedHub) -> None:
    token = hub.join_and_report(snapshot_now("gpu01", *(gpu(each) for each in range(8))))
    hub.wait_until_published()
    with ExitStack() as stack:
        for _ in range(5):
            stack.enter_context(Listening(hub))  # and never reads
        listening = stack.enter_context(Listening(hub))
        listening.next()
        for number in range(1, 6):
            cards = (gpu(each, temperature_celsius=30.0 + number) for each in range(8))
            hub.report(snapshot_now("gpu01", *cards, sequence=number), token=token)
            assert listening.next().kind == "change"
        assert hub.server.hub.stream.subscriber_count == 6


def test_a_client_that_disconnects_is_unsubscribed(hub: ThreadedHub) -> None:
    hub.join_and_report(snapshot_now("gpu01", gpu(0)))
    hub.wait_until_published()
    with Listening(hub) as listening:
        listening.next()
        assert hub.server.hub.stream.subscriber_count == 1
    renamed(hub, "news")  # who is gone is found out by telling them
    wait_until(lambda: hub.server.hub.stream.subscriber_count == 0)


def test_one_subscriber_too_many_gets_503(hub: ThreadedHub) -> None:
    hub.server.hub.stream._max_subscribers = 0
    response = hub.request("GET", PATH)
    assert (response.status, error_code(response)) == (503, "not_now")


def test_one_address_gets_a_quarter_of_the_places(hub: ThreadedHub) -> None:
    hub.server.hub.stream._max_subscribers = 8
    with Listening(hub), Listening(hub):
        response = hub.request("GET", PATH)
        assert (response.status, error_code(response)) == (503, "not_now")
        assert b"your address has 2 open streams" in response.body
        connection = http.client.HTTPConnection(
            hub.url.removeprefix("http://"), timeout=60, source_address=("127.0.0.2", 0)
        )
        connection.request("GET", PATH)
        assert connection.getresponse().status == 200
        connection.close()


def test_no_command_line_is_ever_in_the_stream(hub: ThreadedHub) -> None:
    hub.join_and_report(
        snapshot_now("gpu01", gpu(0, processes=(process(command="python secret-plan.py"),)))
    )
    hub.wait_until_published()
    with Listening(hub) as listening:
        assert "secret-plan" not in repr(listening.next())


def test_the_end_of_the_hub_is_the_end_of_the_stream(hub: ThreadedHub) -> None:
    hub.join_and_report(snapshot_now("gpu01", gpu(0)))
    hub.wait_until_published()
    with Listening(hub) as listening:
        listening.next()
        hub.stop()


def test_a_stream_ends_when_its_token_is_revoked(hub: ThreadedHub) -> None:
    hub.join_and_report(snapshot_now("gpu01", gpu(0)))
    hub.wait_until_published()
    known = hub.server.credentials
    issued = known.tokens.add("viewer")
    known.refresh()
    with Listening(hub, token=issued.secret) as revoked, Listening(hub) as other:
        assert (revoked.next().kind, other.next().kind) == ("fleet", "fleet")
        known.revoke_token(issued.id)
        renamed(hub, "another")
        assert other.next().kind == "change"
        assert revoked.answer.read() == b""
