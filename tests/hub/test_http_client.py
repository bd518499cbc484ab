"""The HTTP client for polling: responses without end, surplus ones, closed connections."""

import asyncio
from collections.abc import Callable, Iterator
from contextlib import ExitStack

import pytest

from fleet_smi.hub.http_client import (
    ClosedEarly,
    HttpConnection,
    InvalidResponse,
    LargeResponses,
    PollResponse,
    ResponseTooLarge,
)
from tests.faulty_servers import EndlessServer, OneResponseServer, ScriptedServer, SilentServer

OK = b"HTTP/1.1 200 OK\r\n"
CHUNKED = OK + b"Transfer-Encoding: chunked\r\n\r\n"
MIB = 1 << 20


def answer(body: bytes, *headers: bytes) -> bytes:
    length = b"Content-Length: %d" % len(body)
    return OK + b"\r\n".join([length, *headers, b"", b""]) + body


@pytest.fixture
def stack() -> Iterator[ExitStack]:
    with ExitStack() as opened:
        yield opened


def connect(port: int, large: LargeResponses | None = None) -> HttpConnection:
    large = large or LargeResponses(8, MIB)
    return HttpConnection(f"http://127.0.0.1:{port}/status", None, large)


async def get(connection: HttpConnection) -> PollResponse:
    async with asyncio.timeout(60):
        return await connection.request("GET", {}, None, 8 * MIB)


async def get_all(server: ScriptedServer, count: int) -> list[bytes]:
    """The bodies of responses over one connection, as long as that is kept open."""
    connection = connect(server.port)
    try:
        return [(await get(connection)).body for _ in range(count)]
    finally:
        connection.close()


async def get_once(port: int, large: LargeResponses | None = None) -> PollResponse:
    connection = connect(port, large)
    try:
        return await get(connection)
    finally:
        connection.close()


@pytest.mark.parametrize(
    "head, piece, error",
    [
        (OK + b"\r\n", b"x" * 65536, ResponseTooLarge),
        (CHUNKED, b"10000\r\n" + b"x" * 65536 + b"\r\n", ResponseTooLarge),
        (CHUNKED, b"1\r\nx\r\n" * 10_000, InvalidResponse),
        (CHUNKED + b"1;", b"x" * 65536, InvalidResponse),
        (CHUNKED + b"0\r\n", b"a: b\r\n" * 10_000, InvalidResponse),
        (b"", b"HTTP/1.1 100 Continue\r\n\r\n" * 1_000, InvalidResponse),
        (b"", b"HTTP/1.1 103 Early Hints\r\nLink: x\r\n\r\n" * 1_000, InvalidResponse),
        (OK, b"a: b\r\n" * 10_000, InvalidResponse),
        (OK + b"a: ", b"x" * 65536, InvalidResponse),
        (b"", b"x" * 65536, InvalidResponse),
    ],
    ids=[
        *("body", "chunks", "small-chunks", "chunk-extension", "trailers"),
        *("interim", "interim-with-headers", "headers", "one-header", "garbage"),
    ],
)
def test_a_response_without_end_is_cut_off(
    stack: ExitStack, head: bytes, piece: bytes, error: type[InvalidResponse]
) -> None:
    server = EndlessServer(head, piece)
    stack.callback(server.close)
    with pytest.raises(InvalidResponse) as raised:
        asyncio.run(get_once(server.port))
    assert type(raised.value) is error


@pytest.mark.parametrize(
    "response, error",
    [
        (b"", ClosedEarly),
        (OK, ClosedEarly),
        (OK + b"Content-Length: 9\r\n\r\nabc", ClosedEarly),
        (CHUNKED + b"5\r\nabc", ClosedEarly),
        (OK + b"Content-Length: -5\r\n\r\nabc", InvalidResponse),
        (OK + b"Content-Length: 99999999999999999999\r\n\r\nabc", InvalidResponse),
        (OK + b"Content-Length: 3\r\nContent-Length: 4\r\n\r\nabcd", InvalidResponse),
        (OK + b"Content-Length: 3\r\nTransfer-Encoding: chunked\r\n\r\nabc", InvalidResponse),
        (b"HTTP/1.1 101 Oh\r\nUpgrade: x\r\nConnection: upgrade\r\n\r\n", InvalidResponse),
        (b"SSH-2.0-OpenSSH_9.2\r\n", InvalidResponse),
    ],
)
def test_a_broken_response_is_an_error(
    stack: ExitStack, response: bytes, error: type[InvalidResponse]
) -> None:
    server = OneResponseServer(response)
    stack.callback(server.close)
    with pytest.raises(InvalidResponse) as raised:
        asyncio.run(get_once(server.port))
    assert type(raised.value) is error


@pytest.mark.parametrize(
    "response",
    [
        answer(b"hello"),
        CHUNKED + b"3\r\nhel\r\n2\r\nlo\r\n0\r\n\r\n",
        b"HTTP/1.0 200 OK\r\n\r\nhello",
        b"HTTP/1.1 100 Continue\r\n\r\n" + answer(b"hello"),
    ],
    ids=["length", "chunks", "until-closed", "after-interim"],
)
def test_every_form_of_a_response_is_read(stack: ExitStack, response: bytes) -> None:
    server = OneResponseServer(response)
    stack.callback(server.close)
    found = asyncio.run(get_once(server.port))
    assert (found.status, found.body) == (200, b"hello")


def test_a_connection_is_reused_until_its_server_closes_it(stack: ExitStack) -> None:
    server = ScriptedServer((answer(b"1"), answer(b"2")), (answer(b"3"),))
    stack.callback(server.close)
    assert asyncio.run(get_all(server, 3)) == [b"1", b"2", b"3"]
    assert server.requests == 3


def test_a_surplus_response_does_not_answer_the_next_request(stack: ExitStack) -> None:
    server = ScriptedServer((answer(b"1") + answer(b"forged"),), (answer(b"2"),))
    stack.callback(server.close)
    assert asyncio.run(get_all(server, 2)) == [b"1", b"2"]


def test_only_so_many_responses_are_large_at_the_same_time(stack: ExitStack) -> None:
    """The third waits until one of the others is gone; a small one never waits."""
    unfinished = OK + b"Content-Length: 4000000\r\n\r\n" + b"x" * MIB
    hung = [EndlessServer(unfinished) for _ in range(2)]
    servers = [OneResponseServer(answer(b"x" * 3 * MIB)), OneResponseServer(answer(b"small"))]
    for close in (*(server.close for server in hung), *(server.close for server in servers)):
        stack.callback(close)

    async def run() -> None:
        large = LargeResponses(2, MIB // 2)
        slow = [asyncio.create_task(get_once(server.port, large)) for server in hung]
        await until(large.slots.locked)
        waiting = asyncio.create_task(get_once(servers[0].port, large))
        assert (await get_once(servers[1].port, large)).body == b"small"
        assert not waiting.done()
        slow[0].cancel()
        assert len((await waiting).body) == 3 * MIB
        slow[1].cancel()
        await asyncio.gather(*slow, return_exceptions=True)

    asyncio.run(run())


async def until(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(60):
        while not condition():
            await asyncio.sleep(0.01)


def test_a_header_cannot_be_injected() -> None:
    server = SilentServer()
    try:
        with pytest.raises(ValueError, match="line break"):
            asyncio.run(connect(server.port).request("GET", {"a": "b\r\nc: d"}, None, 1))
    finally:
        server.close()
