"""HTTP polling: the URLs of targets, compressed responses, and the work that targets cause."""

import asyncio
import zlib
from collections.abc import Callable

import pytest

from fleet_smi.compat.node_info.source import NodeInfoSource
from fleet_smi.compat.nvgpu.source import NvgpuSource
from fleet_smi.errors import Undecodable, UsageError
from fleet_smi.fleet.delivery import Source
from fleet_smi.hub.http_polling import PollRequest, WorkShares, target_url
from fleet_smi.hub.sources.pull import PullSource
from tests.faulty_servers import OneResponseServer

QUESTION = PollRequest(path="/api/v1/report", default_port=7071)
WRONG = ("", "gpu01:99999", "ftp://gpu01", "[::1", "http://me@gpu01")


@pytest.mark.parametrize(
    "target, url",
    [
        ("gpu01", "http://gpu01:7071/api/v1/report"),
        ("gpu01:80", "http://gpu01:80/api/v1/report"),
        ("https://gpu01", "https://gpu01:7071/api/v1/report"),
        ("[::1]:9", "http://[::1]:9/api/v1/report"),
    ],
)
def test_an_address_is_a_host_a_port_or_a_url(target: str, url: str) -> None:
    assert target_url(target, QUESTION) == url


@pytest.mark.parametrize("target", WRONG)
def test_an_invalid_address_is_refused_at_start(target: str) -> None:
    with pytest.raises(UsageError, match="not the address of an agent"):
        PullSource([target])
    with pytest.raises(UsageError, match="not the address of an agent"):
        NvgpuSource([target])
    with pytest.raises(UsageError, match="not the address of an agent"):
        NodeInfoSource([target], password="x")


@pytest.mark.parametrize(
    "source",
    [
        lambda target: PullSource([target]),
        lambda target: NvgpuSource([target]),
        lambda target: NodeInfoSource([target], password="x"),
    ],
    ids=["pull", "nvgpu", "node_info"],
)
@pytest.mark.parametrize("encoding", ["gzip", "gzip, gzip", "br", "GZIP"])
def test_a_compressed_response_is_refused_unread(
    source: Callable[[str], Source], encoding: str
) -> None:
    """Twice compressed, 5 kB are 4 GB. None is asked for, and none is decompressed."""
    bomb = zlib.compress(b"[" + b" " * (1 << 20), wbits=31)
    head = f"HTTP/1.1 200 OK\r\nContent-Encoding: {encoding}\r\nContent-Length: {len(bomb)}"
    server = OneResponseServer(head.encode() + b"\r\n\r\n" + bomb)
    try:
        (delivery,) = asyncio.run(source(f"127.0.0.1:{server.port}").poll())
    finally:
        server.close()
    assert b"accept-encoding: identity\r\n" in server.request.lower()
    assert isinstance(delivery.result, Undecodable)
    assert "compressed" in delivery.result.message


def test_a_target_whose_responses_are_costly_is_polled_later() -> None:
    now = 1000.0
    shares = WorkShares(100, clock=lambda: now)
    assert shares.rest_seconds("usual") == 0
    shares.charge("usual", 0.001)
    shares.charge("costly", 0.01)
    shares.charge("costly", 0.01)
    shares.charge("hostile", 10.0)
    # All together a quarter of a processor: 0.02 s of work in 8 s is a hundredth of that.
    assert shares.rest_seconds("costly") == pytest.approx(8.0)
    assert shares.rest_seconds("hostile") == 60
    # Shorter than the interval between two polls, which is rest as well.
    assert shares.rest_seconds("usual") == pytest.approx(0.4)
    now += 2.0
    assert shares.rest_seconds("usual") == 0
    assert shares.rest_seconds("costly") == pytest.approx(6.0)
