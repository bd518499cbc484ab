"""ZeroMQ sockets: where they may listen, and that closing releases everything."""

import asyncio
import threading
import time
from itertools import pairwise
from pathlib import Path

import pytest

from fleet_smi.compat.cluster_smi.sockets import (
    BoundSocket,
    is_local_endpoint,
    open_context,
    receive_frames,
    receive_single_frame,
    request,
    resolve_bind_endpoint,
)
from fleet_smi.errors import Unreachable, UsageError
from tests.compat.cluster_smi.zeromq_peers import ZeromqClient, ZeromqNode
from tests.machines import wait_until


def descriptors() -> int:
    return len(list(Path("/proc/self/fd").iterdir()))


def test_loopback_is_always_allowed() -> None:
    assert resolve_bind_endpoint("127.0.0.1", 0, open_to_all=False).startswith("tcp://127.0.0.1:")
    assert resolve_bind_endpoint("localhost", 0, open_to_all=False).startswith("tcp://")


@pytest.mark.parametrize("host", ["", "0.0.0.0"])
def test_other_addresses_are_used_only_if_allowed(host: str) -> None:
    with pytest.raises(UsageError, match="cluster-smi has no password"):
        resolve_bind_endpoint(host, 0, open_to_all=False)
    assert resolve_bind_endpoint(host, 0, open_to_all=True).startswith("tcp://0.0.0.0:")


def test_an_address_of_another_machine_is_one_line_of_error() -> None:
    with pytest.raises(UsageError, match=r"cannot listen on 192\.0\.2\.1:9080"):
        resolve_bind_endpoint("192.0.2.1", 9080, open_to_all=True)


@pytest.mark.parametrize(
    ("place", "here"),
    [("127.0.0.1", True), ("[::1]", True), ("192.0.2.1", False), ("nowhere.invalid", False)],
)
def test_endpoints_of_this_machine_are_recognised(place: str, here: bool) -> None:
    assert is_local_endpoint(f"tcp://{place}:9081") is here


def test_a_request_without_reply_times_out_and_leaves_nothing() -> None:
    endpoint = resolve_bind_endpoint("127.0.0.1", 0, open_to_all=False)

    async def scenario() -> None:
        with (
            open_context() as opened,
            pytest.raises(Unreachable, match=r"did not answer in 0\.1 s"),
        ):
            await request(opened, endpoint, b"?", max_bytes=100, timeout_seconds=0.1)

    asyncio.run(scenario())
    before = descriptors(), threading.active_count()
    asyncio.run(scenario())
    assert (descriptors(), threading.active_count()) == before


def test_a_socket_survives_a_handler_bug_and_can_be_reopened() -> None:
    port = BoundSocket("ROUTER", resolve_bind_endpoint("127.0.0.1", 0, open_to_all=False), 1000)

    def take(socket: object) -> None:
        asker, *sent_text = receive_frames(socket)  # type: ignore[arg-type]
        if sent_text[1] == b"bug":
            raise KeyError("a bug")
        port.send([asker, *sent_text])

    async def scenario() -> bytes:
        task = asyncio.ensure_future(port.run(take))
        response = await asyncio.to_thread(talk)
        task.cancel()
        await asyncio.wait([task])
        return response

    def talk() -> bytes:
        with ZeromqClient(port.endpoint) as rude, ZeromqClient(port.endpoint) as polite:
            dropped = port.dropped
            rude.send(b"bug")
            wait_until(lambda: port.dropped > dropped)
            return polite.request(b"hello")

    for times in (1, 2):
        assert asyncio.run(scenario()) == b"hello"
        assert port.dropped == times


def test_a_message_that_takes_long_does_not_block_the_event_loop() -> None:
    port = BoundSocket("PULL", resolve_bind_endpoint("127.0.0.1", 0, open_to_all=False), 1000)
    seen: list[str] = []

    def take(socket: object) -> None:
        receive_single_frame(socket)  # type: ignore[arg-type]
        ends_at = time.monotonic() + 0.02
        while time.monotonic() < ends_at:
            pass
        seen.append("message")

    async def scenario() -> None:
        task = asyncio.ensure_future(port.run(take))
        while seen.count("message") < 5:
            seen.append("other work")
            await asyncio.sleep(0)
        task.cancel()
        await asyncio.wait([task])

    with ZeromqNode(port.endpoint) as pushing:
        for _ in range(5):
            pushing.push(b"x")
        asyncio.run(asyncio.wait_for(scenario(), 10))
    assert ("message", "message") not in pairwise(seen)
