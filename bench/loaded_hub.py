"""A hub under test, with stream subscribers and a simulated fleet."""

import socket
import subprocess
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

from bench.line_program import LineProgram
from bench.peers import HUB, PEERS, NotAvailable, last_error

_LISTENERS = Path(__file__).with_name("stream_listeners.py")


@dataclass(frozen=True, kw_only=True)
class LoadedHub:
    """A running hub, with helpers that put load on it."""

    program: LineProgram
    port: int
    join_token: str
    environment: Mapping[str, str]
    stack: ExitStack

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def start_listeners(self, count: int) -> LineProgram:
        """Start stream subscribers."""
        return self._start(
            str(PEERS[HUB].python), "-I", str(_LISTENERS), str(self.port), str(count)
        )

    def start_load(self, nodes: int, gpus: int, interval_seconds: float = 1.0) -> LineProgram:
        """Start a simulated fleet, which prints a line every five seconds."""
        size = ("--nodes", str(nodes), "--gpus", str(gpus), "--interval", str(interval_seconds))
        return self._start(
            fleet_smi_program(), "simulate", *size, "--to", self.url, "--join", self.join_token
        )

    def _start(self, *line: str) -> LineProgram:
        return self.stack.enter_context(LineProgram(list(line), self.environment))


@contextmanager
def loaded_hub(environment: Mapping[str, str]) -> Iterator[LoadedHub]:
    """Start an empty hub on a free port; everything ends with the block."""
    with ExitStack() as stack:
        state = stack.enter_context(tempfile.TemporaryDirectory(prefix="fleet-smi-bench-"))
        token, port = _join_token(state, environment), free_port()
        line = [fleet_smi_program(), "hub", "--listen", f"127.0.0.1:{port}", "--state", state]
        program = stack.enter_context(LineProgram(line, environment))
        program.read_line()  # its address
        yield LoadedHub(
            program=program, port=port, join_token=token, environment=environment, stack=stack
        )


def fleet_smi_program() -> str:
    """Return the path of the benchmarked `fleet-smi`."""
    return str(PEERS[HUB].program("fleet-smi"))


def _join_token(state: str, environment: Mapping[str, str]) -> str:
    line = [fleet_smi_program(), "hub", "token", "add", "--role", "join", "--uses", "100000"]
    line += ["--state", state]
    done = subprocess.run(line, env=dict(environment), capture_output=True, text=True, check=False)
    if done.returncode:
        raise NotAvailable(last_error(done.stderr))
    return done.stdout.strip()


def free_port() -> int:
    """Return a port that no program listens on."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port: int = listener.getsockname()[1]
        return port
