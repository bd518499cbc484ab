"""Load generator: simulated agents report to a real hub, one connection per node."""

import asyncio
from itertools import count

from fleet_smi.errors import DeliveryError, Unreachable
from fleet_smi.simulation.counters import LoadCounters
from fleet_smi.simulation.scenario import FleetScenario
from fleet_smi.simulation.seeded_random import seeded_rng
from fleet_smi.simulation.simulated_agent import Backfill, HubEndpoint, SimulatedAgent, no_backfill

_MAX_CONCURRENT_CONNECTS = 64
_TICK_SECONDS = 0.004
_DRAIN_SECONDS = 5.0
_MIN_BACKOFF_SECONDS, _MAX_BACKOFF_SECONDS = 0.25, 15.0


class LoadGenerator:
    """Sends reports for every node of a scenario, spread evenly over the interval.

    With a `join_token` each node joins first and reports with the token it receives; with a
    `token` all nodes share that one. With `backfill` each node first sends snapshots of the
    past, like an agent whose hub was away. Figures made together are replayed for
    `replay_seconds`, so that a core can simulate 10,000 nodes. With `always_compact` reports are
    compact even where the server does not answer that it can read them.
    """

    def __init__(
        self,
        scenario: FleetScenario,
        url: str,
        *,
        join_token: str | None = None,
        token: str | None = None,
        backfill: Backfill = no_backfill,
        replay_seconds: float = 0.0,
        always_compact: bool = False,
    ) -> None:
        self.counters = LoadCounters()
        self._interval_seconds = scenario.interval_seconds
        self._join_token = join_token
        self._rng = seeded_rng(url, len(scenario.nodes))
        self._error: DeliveryError | None = None
        self._tasks: set[asyncio.Task[None]] = set()
        # Parsed once: all agents share the TLS context, which is costly to make.
        hub = HubEndpoint.parse(url)
        self._agents = [
            SimulatedAgent(
                scenario,
                index,
                hub,
                self.counters,
                on_lost=self._on_lost,
                on_refused=self._on_refused,
                token=token,
                backfill=backfill,
                replay_seconds=replay_seconds,
                always_compact=always_compact,
            )
            for index in range(len(scenario.nodes))
        ]

    async def run(self, duration_seconds: float | None = None) -> None:
        """Report for a duration or until cancelled; raise `Unreachable` or `Refused` at the start.

        Later disconnects are retried with backoff; a hub that rejects a node's credential ends
        the run. All connections and tasks are closed on return.
        """
        try:
            await self._connect_all()
            await self._pace(duration_seconds)
            await self._drain()
        finally:
            for task in self._tasks:
                task.cancel()
            for agent in self._agents:
                agent.close()
            # Wait until the cancelled tasks have really ended.
            await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _connect_all(self) -> None:
        # Connect the first node alone: a hub that is down or refuses us is one error, not 2,000.
        await self._agents[0].connect(self._join_token)
        semaphore = asyncio.Semaphore(_MAX_CONCURRENT_CONNECTS)

        async def connect_one(agent: SimulatedAgent) -> None:
            async with semaphore:
                try:
                    if self._error is None:
                        await agent.connect(self._join_token)
                except Unreachable:
                    self._on_lost(agent)
                except DeliveryError as error:
                    self._on_refused(error)

        await asyncio.gather(*map(connect_one, self._agents[1:]))

    async def _pace(self, seconds: float | None) -> None:
        """Send each node's reports on schedule, computed from the clock so that it never drifts."""
        clock = asyncio.get_running_loop().time
        started, done, nodes = clock(), 0, len(self._agents)
        while seconds is None or clock() - started < seconds:
            # A late wake-up sends all that is due: the load is the same on a busy machine.
            due = int((clock() - started) * nodes / self._interval_seconds) + 1
            for slot in range(done, due):
                self._agents[slot % nodes].send_report()
            done = due
            if self._error is not None:
                raise self._error
            next_at = started + done * self._interval_seconds / nodes
            await asyncio.sleep(max(_TICK_SECONDS, next_at - clock()))

    async def _drain(self) -> None:
        """Wait briefly for outstanding responses; count the rest as failed."""
        clock = asyncio.get_running_loop().time
        until = clock() + _DRAIN_SECONDS
        while clock() < until and any(agent.is_awaiting_response for agent in self._agents):
            await asyncio.sleep(_TICK_SECONDS)
        if self._error is not None:
            raise self._error
        self.counters.failed += sum(agent.has_unacknowledged for agent in self._agents)

    def _on_lost(self, agent: SimulatedAgent) -> None:
        self.counters.lost_connections += 1
        task = asyncio.get_running_loop().create_task(self._reconnect(agent))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _reconnect(self, agent: SimulatedAgent) -> None:
        for attempt in count():
            backoff = min(_MAX_BACKOFF_SECONDS, _MIN_BACKOFF_SECONDS * 2 ** min(attempt, 16))
            # Jitter: all nodes lose a restarted hub in the same moment.
            await asyncio.sleep(backoff * (0.5 + self._rng.random()))
            try:
                await agent.connect(self._join_token)
            except Unreachable:
                continue
            except DeliveryError as error:
                self._on_refused(error)
            return

    def _on_refused(self, error: DeliveryError) -> None:
        # The first one counts; `_pace` and `_drain` raise it out of the callback's context.
        self._error = self._error or error
