"""A busy hub: queries do not take the processor from reports, and no node is silent for it."""

import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from itertools import combinations
from pathlib import Path
from typing import Any, get_args

import pytest

from fleet_smi.hub.query_threads import MAX_QUERY_THREADS
from fleet_smi.server.routes import metrics
from fleet_smi.wire.prometheus import MetricGroup, encode_metrics
from tests.builders import gpu
from tests.machines import wait_until
from tests.server.routes.snapshots import snapshot_now
from tests.server.threaded_hub import ThreadedHub

# Long enough for a slow machine to do what is not part of the delay.
INTERVAL_SECONDS = 2.0
# Different ones, because equal requests share one response.
PATHS = [
    f"/metrics?include={','.join(groups)}" for groups in combinations(get_args(MetricGroup), 2)
]
BLOCKED_SECONDS = 3 * INTERVAL_SECONDS + 1.0


class Gate:
    """Holds back the threads that come to it, and counts how many are there at a time."""

    def __init__(self) -> None:
        self.count = self.most = 0
        self._changed = threading.Condition()
        self._open = False

    def guard(self, function: Callable[..., Any]) -> Callable[..., Any]:
        def guarded(*args: Any, **kwargs: Any) -> Any:
            with self._changed:
                self.count += 1
                self.most = max(self.most, self.count)
                self._changed.wait_for(lambda: self._open, 60.0)
                self.count -= 1
            return function(*args, **kwargs)

        return guarded

    def open(self) -> None:
        with self._changed:
            self._open = True
            self._changed.notify_all()


def test_however_many_queries_there_are_few_threads_compute(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    gate = Gate()
    monkeypatch.setattr(metrics, "encode_metrics", gate.guard(encode_metrics))
    with ThreadedHub(tmp_path / "state") as hub, ThreadPoolExecutor(8) as clients:
        token = hub.join_and_report(snapshot_now("gpu01", gpu(0)))
        queries = [clients.submit(hub.request, "GET", path) for path in PATHS]
        try:
            wait_until(lambda: gate.count >= MAX_QUERY_THREADS)
            # Reports and probes are answered meanwhile.
            for sequence in range(5):
                reported = snapshot_now("gpu01", gpu(0), sequence=sequence)
                assert hub.report(reported, token=token).status == 200
                assert hub.request("GET", "/healthz").status == 200
        finally:
            gate.open()
        for query in queries:
            query.exception()  # on a slow machine some have timed out
        assert gate.most == MAX_QUERY_THREADS


def test_a_node_is_not_silent_because_the_hub_was_busy(tmp_path: Path) -> None:
    entered, released = threading.Event(), threading.Event()

    def block() -> None:
        entered.set()
        released.wait(60.0)

    with ThreadedHub(tmp_path / "state") as hub:
        hub.join_and_report(snapshot_now("gpu01", gpu(0), interval_seconds=INTERVAL_SECONDS))
        hub._loop.call_soon_threadsafe(block)
        entered.wait(60.0)
        blocked_until = time.time() + BLOCKED_SECONDS
        wait_until(lambda: time.time() > blocked_until)
        released.set()
        (node,) = hub.fleet().nodes
        assert not node.silent
        assert node.gpus[0].verdict.state == "free"
        history = hub.server.hub.history
        assert history is not None
        assert not history._recorders[node.node_id].silent
