"""Real stores of series for tests: VictoriaMetrics and Prometheus, each in a temporary folder."""

import os
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Literal

import httpx
import msgspec
import pytest

from tests.machines import require_program, wait_until
from tests.ports import free_port

StoreKind = Literal["victoria-metrics", "prometheus"]
KINDS: tuple[StoreKind, ...] = ("victoria-metrics", "prometheus")


# Where `tests/debian13.sh` puts newer ones than the system has.
_NEWER = Path(sys.prefix) / "debian13"


class SeriesStore:
    """One server; it keeps its port and its data when it is started again.

    With `otlp` VictoriaMetrics receives OpenTelemetry metrics, which that of Debian 12 does not.
    With `configuration` Prometheus scrapes and evaluates rules.
    """

    def __init__(
        self,
        kind: StoreKind,
        folder: Path,
        *,
        otlp: bool = False,
        configuration: str = "global: {}\n",
    ) -> None:
        self._program = _find_program(kind, otlp=otlp)
        self._otlp = otlp
        folder.mkdir()
        self._kind = kind
        self._folder = folder
        self._address = f"127.0.0.1:{free_port()}"
        self._process: subprocess.Popen[bytes] | None = None
        self._client = httpx.Client(verify=False, timeout=60)
        self.url = f"http://{self._address}"
        self.write_url = f"{self.url}/api/v1/write"
        self.otlp_url = f"{self.url}/opentelemetry/v1/metrics"
        (folder / "prometheus.yml").write_text(configuration)

    def start(self) -> None:
        """Start it, and wait until it answers."""
        with (self._folder / "log").open("ab") as log:
            self._process = subprocess.Popen(self._command(), stdout=log, stderr=log)
        wait_until(self._answers)

    def stop(self) -> None:
        """Stop it; its data stays."""
        if self._process is not None:
            self._process.terminate()
            self._process.wait()
            self._process = None

    def close(self) -> None:
        """Stop it for good."""
        self.stop()
        self._client.close()

    def query(self, query: str, at: float | None = None) -> list[tuple[dict[str, str], float]]:
        """Run an instant query of PromQL; return the labels and the value of each series."""
        if self._kind == "victoria-metrics":
            # What it has just taken is not in the answers for a second.
            self._client.get(f"{self.url}/internal/force_flush")
        parameters = {"query": query, **({} if at is None else {"time": f"{at:.3f}"})}
        answer = self._client.get(f"{self.url}/api/v1/query", params=parameters)
        answer.raise_for_status()
        found = msgspec.json.decode(answer.content)["data"]["result"]
        return [(each["metric"], float(each["value"][1])) for each in found]

    def api(self, path: str) -> Any:
        """The data of an answer of Prometheus's own API, like `rules`."""
        answer = self._client.get(f"{self.url}/api/v1/{path}")
        answer.raise_for_status()
        return msgspec.json.decode(answer.content)["data"]

    def value(self, name: str, labels: Mapping[str, str], at: float | None = None) -> float | None:
        """The value of one series; `None` if it has none."""
        matchers = ",".join(f"{key}={_quoted(text)}" for key, text in labels.items())
        found = self.query(f"{name}{{{matchers}}}", at)
        assert len(found) <= 1, found
        return found[0][1] if found else None

    def _command(self) -> list[str]:
        if self._kind == "prometheus":
            return [
                self._program,
                f"--config.file={self._folder}/prometheus.yml",
                f"--storage.tsdb.path={self._folder}/data",
                f"--web.listen-address={self._address}",
                "--web.enable-remote-write-receiver",
            ]
        return [
            self._program,
            f"-storageDataPath={self._folder}/data",
            f"-httpListenAddr={self._address}",
            "-search.latencyOffset=0s",
            "-retentionPeriod=1",
            *(["-opentelemetry.usePrometheusNaming"] if self._otlp else []),
        ]

    def _answers(self) -> bool:
        try:
            return self._client.get(f"{self.url}/api/v1/query?query=1").is_success
        except httpx.HTTPError:
            return False


@contextmanager
def series_store(kind: StoreKind, folder: Path, **options: Any) -> Iterator[SeriesStore]:
    """Run a store for the duration of the block."""
    store = SeriesStore(kind, folder, **options)
    store.start()
    try:
        yield store
    finally:
        store.close()


def _find_program(kind: StoreKind, *, otlp: bool) -> str:
    newer = _NEWER / kind
    if otlp and newer.exists():
        return str(newer)
    require_program(kind)
    if otlp and "opentelemetry" not in _help(kind):
        assert not os.environ.get("CI"), "no receiver of OpenTelemetry metrics"
        pytest.skip("the VictoriaMetrics here cannot receive OpenTelemetry metrics")
    return kind


def _help(program: str) -> str:
    done = subprocess.run([program, "--help"], capture_output=True, text=True, check=False)
    return done.stdout + done.stderr


def _quoted(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'
