"""What the hub is compared with: servers that do nothing with a report, or only store it."""

import shutil
import tempfile
import time
from collections.abc import Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from http.client import HTTPConnection, HTTPException
from pathlib import Path

from bench.line_program import LineProgram
from bench.load_windows import (
    LoadWindow,
    costs_per_report,
    measure_windows,
    resident_bytes,
    total,
    warm_up,
)
from bench.loaded_hub import fleet_smi_program, free_port
from bench.peers import HUB, PEERS, NotAvailable
from bench.report import MeasurementSeries

UVICORN, HTTPTOOLS, VICTORIA_METRICS = "uvicorn", "httptools", "victoria-metrics"
LABELS = {
    UVICORN: "bare uvicorn application, answers {}",
    HTTPTOOLS: "bare httptools protocol, answers {}",
    VICTORIA_METRICS: "VictoriaMetrics, import of the same figures",
}


def peer_label(name: str, nodes: int) -> str:
    """Return the name of a peer that is measured with so many nodes."""
    return f"{LABELS[name]}, {nodes:,} nodes"


_SERVER = Path(__file__).with_name("bare_server.py")
_IMPORT_LOAD = Path(__file__).with_name("import_load.py")
_IMPORT_PATH = "/api/v1/import/prometheus"
_START_SECONDS = 30.0


@dataclass(frozen=True, kw_only=True)
class LoadSize:
    """How much load, and for how long."""

    nodes: int
    gpus: int
    seconds: float


def measure_peer(
    name: str, size: LoadSize, environment: Mapping[str, str]
) -> tuple[MeasurementSeries, str]:
    """Return the CPU of a peer per report in each window, and a note."""
    label = peer_label(name, size.nodes)
    try:
        with ExitStack() as stack:
            run = _victoria_metrics if name == VICTORIA_METRICS else _bare_server
            windows, note = run(name, size, environment, stack)
    except NotAvailable as reason:
        return MeasurementSeries(label=label, note=f"does not run: {reason}"), ""
    totals = total(windows)
    said = (
        f"{label}: {totals.reports_per_second:.0f} requests/s, "
        f"{totals.core_share:.2f} of a core, p99 {totals.worst_p99_milliseconds:.1f} ms{note}\n"
    )
    return MeasurementSeries(label=label, values=costs_per_report(windows)), said


def _bare_server(
    name: str, size: LoadSize, environment: Mapping[str, str], stack: ExitStack
) -> tuple[tuple[LoadWindow, ...], str]:
    port = free_port()
    line = [str(PEERS[HUB].python), "-I", str(_SERVER), name, str(port)]
    server = stack.enter_context(LineProgram(line, environment))
    server.read_line()
    # The same bodies as those that the hub gets.
    load = [fleet_smi_program(), "simulate", "--compact", "--token", "none"]
    load += ["--to", f"http://127.0.0.1:{port}"]
    load += ["--nodes", str(size.nodes), "--gpus", str(size.gpus)]
    windows = _windows(server, load, size, environment)
    requests, body_bytes = map(int, server.request().split())
    return windows, f", {body_bytes / requests:.0f} bytes a body"


def _victoria_metrics(
    _: str, size: LoadSize, environment: Mapping[str, str], stack: ExitStack
) -> tuple[tuple[LoadWindow, ...], str]:
    program = shutil.which("victoria-metrics")
    if program is None:
        raise NotAvailable("it is not installed (Debian package victoria-metrics)")
    folder = stack.enter_context(tempfile.TemporaryDirectory(prefix="fleet-smi-bench-"))
    address = f"127.0.0.1:{free_port()}"
    line = [program, "-storageDataPath", folder, "-httpListenAddr", address]
    # It uses all cores by default; one is what the hub has.
    one_core = {**environment, "GOMAXPROCS": "1"}
    server = stack.enter_context(LineProgram(line, one_core))
    _wait_for(address)
    load = [str(PEERS[HUB].python), "-I", str(_IMPORT_LOAD), f"http://{address}", _IMPORT_PATH]
    load += [str(size.nodes), str(size.gpus)]
    windows = _windows(server, load, size, environment)
    return windows, f", {resident_bytes(server.pid) / 2**20:.0f} MiB resident"


def _windows(
    server: LineProgram,
    load_line: list[str],
    size: LoadSize,
    environment: Mapping[str, str],
) -> tuple[LoadWindow, ...]:
    with LineProgram(load_line, environment) as load:
        warm_up(load, size.nodes)
        return tuple(measure_windows(server.pid, load, size.seconds))


def _wait_for(address: str) -> None:
    """Wait until a server answers."""
    ends_at = time.monotonic() + _START_SECONDS
    while time.monotonic() < ends_at:
        connection = HTTPConnection(address, timeout=_START_SECONDS)
        try:
            connection.request("GET", "/health")
            connection.getresponse()
        except (OSError, HTTPException):
            time.sleep(0.1)
        else:
            return
        finally:
            connection.close()
    raise NotAvailable(f"it did not answer within {_START_SECONDS:.0f} s")
