"""Boards and rules on a real Prometheus that scrapes a hub with the demo fleet."""

import asyncio
import subprocess
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from math import isfinite
from pathlib import Path

import pytest

from fleet_smi.simulation.demo import SILENT_AFTER_SECONDS, demo_fleet
from fleet_smi.simulation.load_generator import LoadGenerator
from fleet_smi.simulation.scenario import last_hour
from monitoring.boards import BOARDS, FOLDER, queries, render
from tests.machines import require_program, wait_until
from tests.monitoring.test_alerts import RULES
from tests.series_stores import SeriesStore, series_store
from tests.server.threaded_hub import ThreadedHub

# What Grafana fills in: "All", a node with a GPU that is held, and the chosen time.
VARIABLES = {
    "$__range": "1h",
    "$__interval_ms": "2000",
    "$__interval": "2s",
    "$node": ".*",
    "$model": ".*",
    "$user": ".*",
}
NODE = VARIABLES | {"$node": "hgx01"}


@contextmanager
def demo_load(hub: ThreadedHub) -> Iterator[None]:
    """Let the demo fleet report to a hub, with its last hour and a node that is silent soon."""
    began = time.time() - SILENT_AFTER_SECONDS + 4.0
    scenario = demo_fleet(seed=1, start=began, interval_seconds=0.5)
    load = LoadGenerator(scenario, hub.url, join_token=hub.token("join"), backfill=last_hour)
    loop = asyncio.new_event_loop()
    task = loop.create_task(load.run())
    thread = threading.Thread(target=lambda: loop.run_until_complete(asyncio.wait([task])))
    thread.start()
    try:
        yield
    finally:
        loop.call_soon_threadsafe(task.cancel)
        thread.join()
        loop.close()


def test_queries_rules_and_metrics_on_a_real_prometheus(tmp_path: Path) -> None:
    with ThreadedHub(tmp_path / "hub") as hub:
        configuration = f"""
global: {{scrape_interval: 1s, evaluation_interval: 1s}}
rule_files: [{RULES}]
scrape_configs: [{{job_name: fleet-smi, static_configs: [{{targets: ["{hub.url[7:]}"]}}]}}]
"""
        with (
            demo_load(hub),
            series_store("prometheus", tmp_path / "store", configuration=configuration) as store,
        ):
            states = "count by (state) (fleet_smi_gpu_state)"
            expected = {"busy", "free", "held", "ghost", "broken", "unknown"}
            wait_until(lambda: {one["state"] for one, _ in store.query(states)} >= expected)
            wait_until(lambda: bool(store.query("fleet_smi_node_up == 0")))
            for name in BOARDS:
                assert_queries_return_data(store, name)
            assert_rules_are_evaluated(store)
            assert_promtool_accepts(hub.request("GET", "/metrics").body)


def assert_queries_return_data(store: SeriesStore, name: str) -> None:
    values = NODE if name == "node" else VARIABLES
    for title, query in queries(BOARDS[name]()):
        filled = query
        for variable, text in values.items():
            filled = filled.replace(variable, text)
        assert "$" not in filled, query
        assert _comes(store, filled), (name, title, filled)
        assert all(isfinite(value) for _, value in store.query(filled)), (title, filled)


def assert_rules_are_evaluated(store: SeriesStore) -> None:
    def rules() -> dict[str, dict[str, str]]:
        groups = store.api("rules")["groups"]
        return {rule["name"]: rule for group in groups for rule in group["rules"]}

    wait_until(lambda: {rule["health"] for rule in rules().values()} == {"ok"})
    expected = {
        "FleetSmiGpuLost": "pending",
        "FleetSmiNodeSilent": "pending",
        "FleetSmiHubDown": "inactive",
    }
    wait_until(lambda: {name: rules()[name]["state"] for name in expected} == expected)


def assert_promtool_accepts(metrics: bytes) -> None:
    require_program("promtool")
    for arguments, given in ((["metrics"], metrics), (["rules", str(RULES)], b"")):
        done = subprocess.run(
            ["promtool", "check", *arguments], input=given, capture_output=True, check=False
        )
        assert done.returncode == 0, done.stdout + done.stderr


def _comes(store: SeriesStore, query: str) -> bool:
    """Whether a query returns data soon: some need two scrapes."""
    try:
        wait_until(lambda: bool(store.query(query)), seconds=30)
    except AssertionError:
        return False
    return True


@pytest.mark.parametrize("name", BOARDS)
def test_a_board_is_up_to_date_and_names_no_data_source_of_ours(name: str) -> None:
    text = (FOLDER / f"{name}.json").read_text(encoding="utf-8")
    assert text == render(BOARDS[name]()), "run `python monitoring/boards.py`"
    assert text.count('"uid"') - 1 == text.count('"uid": "${datasource}"')
    assert "grid" in text
