"""The message bus: it can be stopped at any moment, also while NATS refuses it."""

import asyncio
from pathlib import Path
from random import Random

from fleet_smi.hub.cluster.bus import MessageBus
from tests.nats import nats_server


async def _run_and_stop(url: str, seconds: float) -> bool:
    """Run a bus that is refused for some time; return whether it ended when it was cancelled."""

    async def answer(_: bytes) -> None:
        return None

    bus = MessageBus([url], "stranger", "guessed-by-somebody")
    running = asyncio.create_task(bus.run("all", lambda _: None, "requests", answer))
    await asyncio.wait({running}, timeout=seconds)
    running.cancel()
    done, _ = await asyncio.wait({running}, timeout=30)
    return running in done and running.cancelled()


def test_a_bus_that_is_refused_ends_when_it_is_cancelled(tmp_path: Path) -> None:
    random = Random(1)
    (tmp_path / "nats").mkdir()
    with nats_server(tmp_path / "nats", 'authorization { token: "between-hubs" }') as server:

        async def run_many() -> list[bool]:
            # Each at another moment of its attempts, which are half a second apart.
            moments = [1.2 * random.random() for _ in range(60)]
            return await asyncio.gather(*[_run_and_stop(server.url, each) for each in moments])

        assert all(asyncio.run(run_many()))
