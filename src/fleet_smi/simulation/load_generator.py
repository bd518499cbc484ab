"""A story told to a hub over the real wire: one connection a node, spread over the interval."""

import asyncio
from itertools import count

from fleet_smi.errors import DeliveryError, Unreachable
from fleet_smi.simulation.counters import LoadCounters
from fleet_smi.simulation.scenario import FleetScenario
from fleet_smi.simulation.seeded_random import seeded_rng
from fleet_smi.simulation.simulated_agent import Backfill, HubEndpoint, SimulatedAgent, no_backfill

_OPENING_AT_ONCE = 64
_TICK_SECONDS = 0.004
_LAST_ANSWERS_SECONDS = 5.0
_FIRST_PAUSE_SECONDS, _LONGEST_PAUSE_SECONDS = 0.25, 15.0


class LoadGenerator:
    """Every node of a story, reporting at its pace, all turns spread evenly.

    With a `join_token` each node joins first and then reports with the token that it got;
    with a `token` all report with that one. With a `past` each node first tells of those
    moments before now, as an agent does whose hub was away. `tally` is what became of it all.
    """

    def __init__(
        self,
        scenario: FleetScenario,
        url: str,
        *,
        join_token: str | None = None,
        token: str | None = None,
        backfill: Backfill = no_backfill,
    ) -> None:
        self.counters = LoadCounters()
        self._interval_seconds = scenario.interval_seconds
        self._join_token = join_token
        self._chance = seeded_rng(url, len(scenario.nodes))
        self._refusal: DeliveryError | None = None
        self._tasks: set[asyncio.Task[None]] = set()
        hub = HubEndpoint.parse(url)
        self._reporters = [
            SimulatedAgent(
                scenario,
                index,
                hub,
                self.counters,
                on_lost=self._lost,
                on_refused=self._refused,
                token=token,
                backfill=backfill,
            )
            for index in range(len(scenario.nodes))
        ]

    async def run(self, duration_seconds: float | None = None) -> None:
        """Report for so long, or until cancelled; raise `Unreachable` or `Refused` at the start.

        A hub that goes away later is looked for until it is back. One that refuses a node
        ends it all. No connection or task is left.
        """
        try:
            await self._open_all()
            await self._pace(duration_seconds)
            await self._last_answers()
        finally:
            for task in self._tasks:
                task.cancel()
            for reporter in self._reporters:
                reporter.close()
            await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _open_all(self) -> None:
        # The first alone: if the hub is not there or refuses us, that is one line and not 2,000.
        await self._reporters[0].connect(self._join_token)
        few = asyncio.Semaphore(_OPENING_AT_ONCE)

        async def open_one(reporter: SimulatedAgent) -> None:
            async with few:
                try:
                    if self._refusal is None:
                        await reporter.connect(self._join_token)
                except Unreachable:
                    self._lost(reporter)
                except DeliveryError as error:
                    self._refused(error)

        await asyncio.gather(*map(open_one, self._reporters[1:]))

    async def _pace(self, seconds: float | None) -> None:
        """Give every node its turns: by the clock, so that nothing drifts."""
        clock = asyncio.get_running_loop().time
        began, given, nodes = clock(), 0, len(self._reporters)
        while seconds is None or clock() - began < seconds:
            due = int((clock() - began) * nodes / self._interval_seconds) + 1
            for turn in range(given, due):
                self._reporters[turn % nodes].send_report()
            given = due
            if self._refusal is not None:
                raise self._refusal
            next_at = began + given * self._interval_seconds / nodes
            await asyncio.sleep(max(_TICK_SECONDS, next_at - clock()))

    async def _last_answers(self) -> None:
        """Wait a little for what is still out; what never comes has failed for good."""
        clock = asyncio.get_running_loop().time
        until = clock() + _LAST_ANSWERS_SECONDS
        while clock() < until and any(one.is_awaiting_response for one in self._reporters):
            await asyncio.sleep(_TICK_SECONDS)
        if self._refusal is not None:
            raise self._refusal
        self.counters.failed += sum(one.has_unacknowledged for one in self._reporters)

    def _lost(self, reporter: SimulatedAgent) -> None:
        self.counters.lost_connections += 1
        task = asyncio.get_running_loop().create_task(self._open_again(reporter))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _open_again(self, reporter: SimulatedAgent) -> None:
        for attempt in count():
            pause = min(_LONGEST_PAUSE_SECONDS, _FIRST_PAUSE_SECONDS * 2 ** min(attempt, 16))
            await asyncio.sleep(pause * (0.5 + self._chance.random()))
            try:
                await reporter.connect(self._join_token)
            except Unreachable:
                continue
            except DeliveryError as error:
                self._refused(error)
            return

    def _refused(self, error: DeliveryError) -> None:
        self._refusal = self._refusal or error
