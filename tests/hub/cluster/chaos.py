"""A cluster under attack: kills hubs, NATS and PostgreSQL in turn, splits the network, restarts.

    python -m tests.hub.cluster.chaos --nodes 600

Three hubs in three network namespaces; NATS, PostgreSQL and half of the nodes are on the first
host, the other half on the third. Prints how long each fault took to heal, and what was lost or
doubled. Needs root.
"""

import argparse
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from functools import partial
from pathlib import Path

import msgspec

from fleet_smi.hub.cluster.leadership import Leadership
from fleet_smi.hub.cluster.ownership import Ownership
from fleet_smi.hub.cluster.state_database import open_shared_state
from tests.hub.cluster.hub_processes import HubProcess, add_join_token
from tests.hub.cluster.ledger_check import wait_for_ledger
from tests.hub.cluster.simulated_nodes import ReportedNode
from tests.machines import wait_until
from tests.nats import Nats
from tests.network_namespaces import NetworkHost, network
from tests.postgres import Postgres, postgres_server

_TIMEOUT_SECONDS = 180.0
_OUTAGE_SECONDS = 8.0


class NodesProcess:
    """Simulated nodes on one host."""

    def __init__(
        self, host: NetworkHost, folder: Path, count: int, token: str, urls: str, interval: float
    ) -> None:
        line = [sys.executable, "-m", "tests.hub.cluster.simulated_nodes", str(folder), str(count)]
        self._process = subprocess.Popen(
            [*host.command_prefix, *line, f"{host.name}-", token, urls, str(interval)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
        )

    def ask_to_finish(self) -> None:
        """End all processes; what was reported becomes durable meanwhile."""
        assert self._process.stdin is not None
        self._process.stdin.write(b"stop\n")
        self._process.stdin.flush()

    def finish(self) -> list[ReportedNode]:
        """Wait until all is durable, and return what was reported."""
        output, _ = self._process.communicate(timeout=_TIMEOUT_SECONDS)
        return msgspec.json.decode(output, type=list[ReportedNode])


class Chaos:
    """The cluster, and the faults that it has to survive."""

    def __init__(
        self,
        hosts: dict[str, NetworkHost],
        hubs: Sequence[HubProcess],
        nats: Nats,
        postgres: Postgres,
        database: str,
        nodes: int,
    ) -> None:
        self._state = open_shared_state(database)
        self._leadership = Leadership(self._state, "none", "chaos")
        self._hosts, self._hubs, self._nats = hosts, hubs, nats
        self._postgres, self._nodes = postgres, nodes

    def run(self) -> None:
        """Cause each fault, and print how long it took until all hubs showed all nodes."""
        self._heal("start", lambda: None)
        third = self._hosts["third"]
        # First, while each hub has nodes: they stay where they went.
        self._heal("network split for 8 s", self._outage(third.disconnect, third.reconnect))
        for hub in self._hubs:
            self._heal(f"kill -9 {hub.name}", hub.kill, killed=hub)
            self._heal(f"start {hub.name}", hub.start)
        self._heal("kill -9 NATS for 8 s", self._outage(self._nats.kill, self._start_nats))
        self._heal(
            "kill PostgreSQL for 8 s", self._outage(self._postgres.kill, self._postgres.start)
        )
        for hub in self._hubs:
            self._heal(f"rolling restart of {hub.name}", hub.restart)

    def _start_nats(self) -> None:
        self._nats.start(*self._hosts["first"].command_prefix)

    def _outage(self, begin: Callable[[], None], end: Callable[[], None]) -> Callable[[], None]:
        def cause() -> None:
            begin()
            time.sleep(_OUTAGE_SECONDS)
            problems = {hub.name: hub.problems() for hub in self._hubs}
            print(f"    meanwhile: {problems}", flush=True)
            end()

        return cause

    def _heal(
        self, name: str, cause: Callable[[], object], *, killed: HubProcess | None = None
    ) -> None:
        cause()
        began, worst = time.monotonic(), 0
        problems = () if killed is None else ("cluster",)

        def is_healed(hub: HubProcess) -> bool:
            nonlocal worst
            if (summary := hub.summary()) is not None:
                worst = max(worst, self._nodes - summary.nodes_reporting)
            has_all_nodes = hub.sees(self._nodes, problems)
            return has_all_nodes and not (killed and self._count_owned(killed))

        for hub in [hub for hub in self._hubs if hub is not killed]:
            try:
                wait_until(partial(is_healed, hub), _TIMEOUT_SECONDS)
            except AssertionError:
                print(f"{name}: {hub.name} did not heal: {hub.summary()} {hub.problems()}")
        seconds = time.monotonic() - began
        print(f"{name}: healed in {seconds:.1f} s, most silent nodes {worst}", flush=True)

    def _count_owned(self, hub: HubProcess) -> int:
        """How many nodes a hub owns that is dead: 0 once all have gone to others."""
        return len(Ownership(self._state, hub.hub_id, self._leadership).owned())


def main() -> None:
    """Run all faults."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0] if __doc__ else "")
    parser.add_argument("--nodes", type=int, default=600)
    parser.add_argument("--interval", type=float, default=2.0)
    arguments = parser.parse_args()
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="fleet-smi-chaos-")))
        hosts = stack.enter_context(network("first", "second", "third", "driver"))
        stack.enter_context(hosts.pop("driver").entered())
        first = hosts["first"]
        postgres = stack.enter_context(
            postgres_server(address=first.address, prefix=first.command_prefix)
        )
        nats = Nats(folder, address=first.address)
        nats.start(*first.command_prefix)
        stack.callback(nats.kill)
        with postgres.database() as local:
            database = postgres.over_network(local)
            token = add_join_token(local)
            hubs = [
                HubProcess(
                    folder,
                    name,
                    nats.url,
                    database,
                    host=host.address,
                    prefix=host.command_prefix,
                )
                for name, host in hosts.items()
            ]
            for hub in hubs:
                hub.start()
                stack.callback(hub.kill)
            urls, half = ",".join(hub.url for hub in hubs), arguments.nodes // 2
            parts = [
                NodesProcess(hosts[name], folder / name, half, token, urls, arguments.interval)
                for name in ("first", "third")
            ]
            Chaos(hosts, hubs, nats, postgres, local, 2 * half).run()
            for part in parts:
                part.ask_to_finish()
            reported = [node for part in parts for node in part.finish()]
            print(wait_for_ledger(local, reported, arguments.interval), flush=True)
            for hub in hubs:
                hub.kill()


if __name__ == "__main__":
    main()
