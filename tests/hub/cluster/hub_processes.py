"""Hubs of a cluster as processes, which can be killed."""

import contextlib
import os
import signal
import subprocess
import sys
from collections.abc import Sequence
from functools import partial
from pathlib import Path

import msgspec

from fleet_smi.client.connection import HubConnection
from fleet_smi.errors import DeliveryError
from fleet_smi.hub.cluster.setup import read_hub_id
from fleet_smi.hub.cluster.state_database import open_shared_state
from fleet_smi.hub.tokens import TokenStore
from fleet_smi.model.fleet import Summary
from tests.machines import wait_until
from tests.ports import free_port


class HubProcess:
    """One hub on one port; `prefix` runs it on another host."""

    def __init__(
        self,
        folder: Path,
        name: str,
        nats_url: str,
        database: str,
        *,
        host: str = "127.0.0.1",
        prefix: tuple[str, ...] = (),
        source: str | None = None,
        token: str | None = None,
    ) -> None:
        """Create it; `source` is the folder of another version to run until `upgrade`.

        `token` is that of NATS.
        """
        self.name = name
        self.port = free_port()
        self.url = f"http://{host}:{self.port}"
        self.folder = folder / name
        self.log = folder / f"{name}.log"
        self._prefix = prefix
        self._line = [sys.executable, "-m", "fleet_smi", "hub", "--listen", f"{host}:{self.port}"]
        self._line += ["--state", str(self.folder), "--cluster", nats_url]
        self._line += [] if host == "127.0.0.1" else ["--insecure-open"]
        self._environment = {
            **os.environ,
            "HOME": str(folder),
            "FLEET_SMI_HUB_HISTORY": database,
            "FLEET_SMI_HUB_REMEMBER_INTERVAL": "1s",
        }
        if token is not None:
            self._environment["FLEET_SMI_HUB_CLUSTER_TOKEN"] = token
        if source is not None:
            self._environment["PYTHONPATH"] = source
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def hub_id(self) -> str:
        """Its id in the cluster."""
        return read_hub_id(self.folder)

    def start(self) -> None:
        """Start it, without waiting."""
        with self.log.open("ab") as log:
            self._process = subprocess.Popen(
                [*self._prefix, *self._line],
                env=self._environment,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
            )

    def kill(self) -> None:
        """End it at once, as a crash would."""
        self._end(signal.SIGKILL)

    def stop(self) -> None:
        """End it as a service manager does."""
        self._end(signal.SIGTERM)

    def restart(self) -> None:
        """End it as a service manager does, and start it again."""
        self.stop()
        self.start()

    def upgrade(self) -> None:
        """Replace another version by this one, as a package manager does."""
        self.stop()
        self._environment["PYTHONPATH"] = os.environ.get("PYTHONPATH", "")
        self.start()

    def summary(self) -> Summary | None:
        """What it counts, of nodes and GPUs; `None` if it does not answer."""
        body = self._get("/api/v1/fleet?node=none")
        return None if body is None else msgspec.json.decode(body, type=_Fleet).summary

    def problems(self) -> list[str] | None:
        """The kinds of its problems; `None` if it does not answer."""
        body = self._get("/api/v1/problems")
        if body is None:
            return None
        return [problem["kind"] for problem in msgspec.json.decode(body)["problems"]]

    def problem_texts(self) -> list[str]:
        """Its problems in detail."""
        body = self._get("/api/v1/problems")
        problems = [] if body is None else msgspec.json.decode(body)["problems"]
        return [problem["detail"] for problem in problems]

    def sees(self, nodes: int, problems: Sequence[str] = ()) -> bool:
        """Whether it shows that many nodes, none of them silent, and has these problems only."""
        summary = self.summary()
        if summary is None or summary.nodes_reporting != nodes or summary.nodes != nodes:
            return False
        return self.problems() == list(problems)

    def _get(self, path: str) -> bytes | None:
        with (
            contextlib.suppress(DeliveryError),
            contextlib.closing(HubConnection(self.url, timeout_seconds=5.0)) as connection,
        ):
            response = connection.request("GET", path)
            return response.body if response.status == 200 else None
        return None

    def _end(self, number: signal.Signals) -> None:
        if self._process is not None:
            self._process.send_signal(number)
            self._process.wait()
            self._process = None


class _Fleet(msgspec.Struct):
    summary: Summary


def add_join_token(database: str) -> str:
    """Create a join token for many nodes in the database of a cluster."""
    engine = open_shared_state(database).engine
    try:
        return TokenStore(engine).add("join", max_uses=100_000).secret
    finally:
        engine.dispose()


def wait_until_all_see(hubs: list[HubProcess], nodes: int, problems: Sequence[str] = ()) -> None:
    """Wait until each of these hubs shows that many nodes, and has these problems only."""
    for hub in hubs:
        wait_until(partial(hub.sees, nodes, problems))
