"""A site whose hub is hostile, or not a hub at all, harms no other node."""

import contextlib
import json
import socket
import threading
from collections.abc import Callable, Iterator
from itertools import chain, repeat
from pathlib import Path
from typing import Self

import msgspec
import pytest

from fleet_smi.client import event_stream
from fleet_smi.model.fleet import NodeView, Summary
from fleet_smi.model.stream_payload import NodePayload
from tests.builders import gpu
from tests.machines import wait_until
from tests.server.routes.snapshots import snapshot_now
from tests.server.threaded_hub import ThreadedHub

_HEAD = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
Chunks = Callable[[], Iterator[bytes]]


class HostileSite:
    """Answers every request with the same chunks, as fast as they are read."""

    def __init__(self, chunks: Chunks, head: bytes = _HEAD) -> None:
        self._chunks, self._head = chunks, head
        self._is_closed = False
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.url = f"http://127.0.0.1:{self._listener.getsockname()[1]}"
        self._thread = threading.Thread(target=self._serve)
        self._thread.start()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._is_closed = True
        with contextlib.suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        self._thread.join()

    def _serve(self) -> None:
        while not self._is_closed:
            with contextlib.suppress(OSError):
                sock, _ = self._listener.accept()
                with sock:
                    sock.settimeout(0.5)
                    self._answer(sock)

    def _answer(self, sock: socket.socket) -> None:
        sock.recv(1 << 16)
        sock.sendall(self._head)
        for chunk in self._chunks():
            if self._is_closed:
                return
            sock.sendall(b"%x\r\n%b\r\n" % (len(chunk), chunk))


def fleet_event(*nodes: NodePayload) -> bytes:
    """The first event of a stream, with these nodes."""
    summary = Summary(**dict.fromkeys(Summary.__struct_fields__, 0))
    data = {"taken_at": 1.0, "summary": summary, "nodes": nodes, "removed": (), "figures": ()}
    return b"event: fleet\ndata: " + msgspec.json.encode(data) + b"\n\n"


def payload(number: int, name: str = "x", **fields: object) -> NodePayload:
    return NodePayload(number=number, node_id=f"n{number}", name=name, **fields)  # type: ignore[arg-type]


def once(*parts: bytes) -> Chunks:
    return lambda: iter(parts)


def endless(first: bytes, part: bytes) -> Chunks:
    return lambda: chain([first], repeat(part))


def follow(folder: Path, site: HostileSite) -> ThreadedHub:
    """A hub that shows this site, beside a node of its own."""
    hub = ThreadedHub(folder, hub__sites={"berlin": site.url})
    hub.join_and_report(snapshot_now("gpu01", gpu(0)))
    return hub


def shown(hub: ThreadedHub) -> dict[str, NodeView]:
    return {node.name: node for node in hub.fleet().nodes}


def has_trouble(hub: ThreadedHub, text: str) -> bool:
    return text in (shown(hub)["berlin/"].trouble or "") if "berlin/" in shown(hub) else False


@pytest.mark.parametrize(
    ("chunks", "reason"),
    [
        (once(fleet_event(*map(payload, range(100_000)))), "more than 20000 nodes"),
        (once(fleet_event(payload(1, labels={"rack": "x" * 300_000}))), "more than 256 KiB"),
        (endless(b"event: fleet\ndata: ", b"x" * 100_000), "too large"),
        (once(b"event: fleet\ndata: " + b"[" * 100_000 + b"\n\n"), "cannot parse"),
        (once(b"event: change\ndata: {}\n\n"), "cannot parse"),
    ],
    ids=["100,000 nodes", "a large node", "an endless event", "nested data", "no event"],
)
def test_a_site_that_sends_too_much_or_nonsense_is_one_row_that_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, chunks: Chunks, reason: str
) -> None:
    monkeypatch.setattr(event_stream, "MAX_EVENT_BYTES", 32 << 20)
    with HostileSite(chunks) as site, follow(tmp_path, site) as home:
        wait_until(lambda: has_trouble(home, reason))
        assert not shown(home)["gpu01"].silent


def test_a_server_that_is_no_hub_is_one_row_that_says_so(tmp_path: Path) -> None:
    with HostileSite(once(), b"SSH-2.0-OpenSSH_9\r\n\r\n") as site, follow(tmp_path, site) as home:
        wait_until(lambda: has_trouble(home, "does not answer as a hub does"))


def test_events_without_end_leave_room_for_everything_else(tmp_path: Path) -> None:
    event = fleet_event(*map(payload, range(2000)))
    with HostileSite(endless(event, event)) as site, follow(tmp_path, site) as home:
        wait_until(lambda: home.fleet().summary.nodes == 2001)
        node_token = home.join("id-of-gpu02", "gpu02")
        for sequence in range(5):
            report = snapshot_now("gpu02", gpu(0, uuid="GPU-2"), sequence=sequence)
            assert home.report(report, token=node_token).status == 200
        wait_until(lambda: "gpu02" in shown(home))


def test_names_of_a_site_are_printable_and_its_ids_are_its_own(tmp_path: Path) -> None:
    same = NodePayload(number=1, node_id="id-of-gpu01", name="gpu01")
    odd = payload(2, "\x1b[31mred\u202e\n", labels={"a\x07": "\x1b]0;x"}, ssh_host="-oProxy\x1b")
    with HostileSite(once(fleet_event(same, odd))) as site, follow(tmp_path, site) as home:
        wait_until(lambda: {"gpu01", "berlin/gpu01"} <= shown(home).keys())
        nodes = shown(home)
        assert nodes["gpu01"].node_id == "id-of-gpu01"
        assert nodes["berlin/gpu01"].node_id == "berlin/id-of-gpu01"
        assert "berlin/[31mred" in nodes
        assert home.request("DELETE", "/api/v1/nodes/berlin%2Fid-of-gpu01").status != 204
        assert all(text.isprintable() for text in nodes["berlin/[31mred"].labels)


def test_numbers_of_a_site_that_cannot_be_are_unknown_and_hide_nothing(tmp_path: Path) -> None:
    huge = 10**400
    verdict = {"state": "held", "since": -1e308, "idle_since": -huge, "users": ["eve"]}
    card = {"uuid": "GPU-x", "index": huge, "vendor": "nvidia", "name": "H100", "verdict": verdict}
    node = {"number": 1, "node_id": "n1", "name": "x"}
    node["gpus"] = [card | {"memory_total_mebibytes": huge}]
    figures = [1, huge, huge, huge, [[huge, huge, -huge, huge]]]
    summary = dict.fromkeys(Summary.__struct_fields__, 0)
    # Not by msgspec, which encodes no such numbers.
    data = {"taken_at": 1.0, "summary": summary, "nodes": [node], "figures": [figures]}
    event = f"event: fleet\ndata: {json.dumps(data | {'removed': []})}\n\n".encode()
    with HostileSite(once(event)) as site, follow(tmp_path, site) as home:
        wait_until(lambda: "berlin/x" in shown(home))
        (held,) = shown(home)["berlin/x"].gpus
        read = held.memory_total_bytes, held.memory_used_bytes, held.busy_percent
        assert (*read, held.temperature_celsius, held.power_watts, held.index) == (None,) * 5 + (0,)
        assert held.verdict.since == 0.0
        for path in ("/", "/metrics", "/api/v1/overview", "/api/v1/people", "/api/v1/free?n=1"):
            assert home.request("GET", path).status == 200, path
