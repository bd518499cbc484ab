"""Where ZeroMQ may listen, and what is left of it."""

import asyncio
import threading
from pathlib import Path

import pytest

from fleet_smi.errors import Unreachable, UsageError
from fleet_smi.zeromq import Port, asked, context, frames, listening_at
from tests.zeromq_peers import Client


def descriptors() -> int:
    return len(list(Path("/proc/self/fd").iterdir()))


def test_loopback_is_where_anything_listens() -> None:
    assert listening_at("127.0.0.1", 0, open_to_all=False).startswith("tcp://127.0.0.1:")
    assert listening_at("localhost", 0, open_to_all=False).startswith("tcp://")


@pytest.mark.parametrize("host", ["", "0.0.0.0"])
def test_everywhere_is_only_where_it_is_wanted(host: str) -> None:
    with pytest.raises(UsageError, match="cluster-smi knows no password"):
        listening_at(host, 0, open_to_all=False)
    assert listening_at(host, 0, open_to_all=True).startswith("tcp://0.0.0.0:")


def test_an_address_that_is_not_ours_is_told_in_one_line() -> None:
    with pytest.raises(UsageError, match=r"cannot listen on 192\.0\.2\.1:9080"):
        listening_at("192.0.2.1", 9080, open_to_all=True)


def test_nobody_who_answers_is_told_in_time_and_leaves_nothing() -> None:
    endpoint = listening_at("127.0.0.1", 0, open_to_all=False)

    async def scenario() -> None:
        with context() as opened, pytest.raises(Unreachable, match=r"did not answer in 0\.1 s"):
            await asked(opened, endpoint, b"?", most_bytes=100, timeout_seconds=0.1)

    asyncio.run(scenario())
    before = descriptors(), threading.active_count()
    asyncio.run(scenario())
    assert (descriptors(), threading.active_count()) == before


def test_a_port_goes_on_after_a_bug_and_can_be_opened_again() -> None:
    port = Port("ROUTER", listening_at("127.0.0.1", 0, open_to_all=False), 1000)

    def take(socket: object) -> None:
        asker, *said = frames(socket)  # type: ignore[arg-type]
        if said[1] == b"bug":
            raise KeyError("a bug")
        port.send([asker, *said])

    async def scenario() -> bytes:
        task = asyncio.ensure_future(port.run(take))
        answer = await asyncio.to_thread(talk)
        task.cancel()
        await asyncio.wait([task])
        return answer

    def talk() -> bytes:
        with Client(port.endpoint) as rude, Client(port.endpoint) as polite:
            rude.say(b"bug")
            return polite.ask(b"hello")

    for times in (1, 2):
        assert asyncio.run(scenario()) == b"hello"
        assert port.dropped == times
