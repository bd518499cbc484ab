"""A cluster under attack: kills hubs, NATS and PostgreSQL in turn, splits the network, restarts.

    python -m tests.hub.cluster.chaos --nodes 600 --interval 5 --before OLDER/src

Three hubs in three network namespaces; NATS, PostgreSQL and half of the nodes are on the first
host, the other half on the third. With `--before`, hubs run an older version until they are
upgraded one after the other, at the end. Each fault has healed once every hub that runs shows all
nodes, none of them silent, and a hub that was killed owns none. What was lost or doubled is counted
once every node has a receipt which says that all it reported is durable. Needs root.
"""

import argparse
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from pathlib import Path

import msgspec

from fleet_smi.hub.cluster.leadership import Leadership
from fleet_smi.hub.cluster.ownership import Ownership
from fleet_smi.hub.cluster.state_database import open_shared_state
from tests.hub.cluster.hub_processes import HubProcess, add_join_token
from tests.hub.cluster.ledger_check import check_ledger, describe_faults
from tests.hub.cluster.simulated_nodes import FINISH_SECONDS, ReportedNode
from tests.machines import wait_until
from tests.nats import Nats
from tests.network_namespaces import NetworkHost, network
from tests.postgres import Postgres, postgres_server

_TIMEOUT_SECONDS = 180.0
_START_SECONDS = 600.0
"""How long all nodes may take to join, on a machine that is busy with other work."""
_OUTAGE_SECONDS = 20.0
_SLOW_SECONDS = 10.0
_TOKEN = "between-hubs-only"
_ROW = "| {} | {} | {} | {} |"
# The split comes first, while each hub has nodes: they stay where they went.
_FAULTS = ("split", "hubs", "nats", "postgres", "upgrade")


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
        output, _ = self._process.communicate(timeout=FINISH_SECONDS + _TIMEOUT_SECONDS)
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

    def run(self, faults: Sequence[str]) -> None:
        """Cause each fault, and print how long it took until all hubs showed all nodes."""
        print(_ROW.format("fault", "healed after", "most silent nodes", "shown meanwhile"))
        print(_ROW.format("---", "---", "---", "---"), flush=True)
        self._heal("start of all", lambda: None, seconds=_START_SECONDS)
        for fault in faults:
            getattr(self, f"_cause_{fault}")()

    def _cause_split(self) -> None:
        third = self._hosts["third"]
        self._fail("third host cut off for {}", third.disconnect, third.reconnect)

    def _cause_hubs(self) -> None:
        for hub in self._hubs:
            self._heal(f"kill -9 of {hub.name} hub", hub.kill, killed=hub)
            self._heal(f"start of {hub.name} hub", hub.start)

    def _cause_nats(self) -> None:
        self._fail("kill -9 of NATS for {}", self._nats.kill, self._start_nats)

    def _cause_postgres(self) -> None:
        self._fail("kill of PostgreSQL for {}", self._postgres.kill, self._postgres.start)

    def _cause_upgrade(self) -> None:
        for hub in self._hubs:
            self._heal(f"upgrade of {hub.name} hub", hub.upgrade)

    def _start_nats(self) -> None:
        self._nats.start(*self._hosts["first"].command_prefix)

    def _fail(self, name: str, begin: Callable[[], None], end: Callable[[], None]) -> None:
        """Begin a fault, look at what each hub says at its end, and wait until it has healed."""
        begin()
        time.sleep(_OUTAGE_SECONDS)
        kinds = {hub.name: hub.problems() for hub in self._hubs}
        silent = max([self._count_silent(hub) for hub in self._hubs])
        self._heal(name.format(f"{_OUTAGE_SECONDS:g} s"), end, worst=silent, shown=kinds)

    def _heal(
        self,
        name: str,
        cause: Callable[[], object],
        *,
        killed: HubProcess | None = None,
        worst: int = 0,
        shown: object = "",
        seconds: float = _TIMEOUT_SECONDS,
    ) -> None:
        cause()
        began = time.monotonic()
        problems = () if killed is None else ("cluster",)
        healing = [hub for hub in self._hubs if hub is not killed]
        waited: list[tuple[float, list[str], int]] = []

        def is_healed() -> bool:
            nonlocal worst
            worst = max([worst, *[self._count_silent(hub) for hub in healing]])
            unmet = [hub.name for hub in healing if not hub.sees(self._nodes, problems)]
            owned = 0 if killed is None else self._count_owned(killed)
            if unmet or owned:
                waited.append((time.monotonic() - began, unmet, owned))
            return not (unmet or owned)

        try:
            wait_until(is_healed, seconds)
        except AssertionError:
            shown = [(hub.name, hub.summary(), hub.problems()) for hub in healing]
            name += ": NOT HEALED"
        healed = f"{time.monotonic() - began:.1f} s"
        if waited and waited[-1][0] > _SLOW_SECONDS:
            print(f"    waited last for {waited[-1]}: {[hub.problem_texts() for hub in healing]}")
        print(_ROW.format(name, healed, worst, shown or ""), flush=True)

    def _count_silent(self, hub: HubProcess) -> int:
        summary = hub.summary()
        return 0 if summary is None else summary.nodes - summary.nodes_reporting

    def _count_owned(self, hub: HubProcess) -> int:
        """How many nodes a hub owns that is dead: 0 once all have gone to others."""
        return len(Ownership(self._state, hub.hub_id, self._leadership).owned())


def _print_ledger(database: str, parts: Sequence[NodesProcess], interval: float) -> None:
    """Wait until all that was reported is durable, and print what is wrong with it."""
    began = time.monotonic()
    for part in parts:
        part.ask_to_finish()
    reported = [node for part in parts for node in part.finish()]
    print(f"\nall is durable after {time.monotonic() - began:.0f} s; {len(reported)} nodes")
    for name, value in check_ledger(database, reported, interval)._asdict().items():
        print(f"{name.replace('_', ' ')}: {value:g}", flush=True)
    for line in describe_faults(database, reported, interval):
        print(line, flush=True)


def main() -> None:
    """Run all faults."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0] if __doc__ else "")
    parser.add_argument("--nodes", type=int, default=600)
    parser.add_argument("--interval", type=float, default=5.0)
    parser.add_argument("--before", help="source folder of the version to upgrade from")
    parser.add_argument("--faults", nargs="+", choices=_FAULTS, default=_FAULTS)
    parser.add_argument("--logs", help="folder to leave the logs of the hubs in")
    arguments = parser.parse_args()
    with ExitStack() as stack:
        made = stack.enter_context(tempfile.TemporaryDirectory(prefix="fleet-smi-chaos-"))
        folder = Path(arguments.logs or made)
        hosts = stack.enter_context(network("first", "second", "third", "driver"))
        stack.enter_context(hosts.pop("driver").entered())
        first = hosts["first"]
        postgres = stack.enter_context(
            postgres_server(address=first.address, prefix=first.command_prefix)
        )
        nats = Nats(
            folder, address=first.address, configuration=f'authorization {{ token: "{_TOKEN}" }}'
        )
        nats.start(*first.command_prefix)
        stack.callback(nats.kill)
        with postgres.database() as local:
            database, token = postgres.over_network(local), add_join_token(local)
            hubs = [
                HubProcess(
                    folder,
                    name,
                    nats.url,
                    database,
                    host=host.address,
                    prefix=host.command_prefix,
                    source=arguments.before,
                    token=_TOKEN,
                )
                for name, host in hosts.items()
            ]
            for hub in hubs:
                hub.start()
                stack.callback(hub.kill)
            # Else the nodes back off, and what is measured is for how long.
            wait_until(lambda: all(hub.summary() for hub in hubs), _TIMEOUT_SECONDS)
            urls, half = ",".join(hub.url for hub in hubs), arguments.nodes // 2
            parts = [
                NodesProcess(hosts[name], folder / name, half, token, urls, arguments.interval)
                for name in ("first", "third")
            ]
            Chaos(hosts, hubs, nats, postgres, local, 2 * half).run(arguments.faults)
            _print_ledger(local, parts, arguments.interval)
            for hub in hubs:
                hub.kill()


if __name__ == "__main__":
    main()
