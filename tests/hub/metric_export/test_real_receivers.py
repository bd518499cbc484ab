"""Remote write of a real hub into real stores of series."""

import random
import time
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest
from msgspec.structs import replace
from prometheus_client.parser import text_string_to_metric_families

from fleet_smi.model.snapshot import Snapshot
from fleet_smi.simulation.large_fleet import large_fleet
from tests.builders import gpu, instance, snapshot
from tests.machines import wait_until
from tests.series_stores import KINDS, SeriesStore, StoreKind, series_store
from tests.server.threaded_hub import ThreadedHub

NODES, GPUS, VALUES = 6, 4, 100
# They differ from one moment to the next.
MOVING = ("fleet_smi_node_age_seconds", "fleet_smi_gpu_idle_seconds", "fleet_smi_hub_")
LABELS = "site=berlin,Zone=b"


@pytest.fixture(params=KINDS)
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[SeriesStore]:
    kind: StoreKind = request.param
    with series_store(kind, tmp_path / "store") as running:
        yield running


def writing_hub(folder: Path, store: SeriesStore) -> ThreadedHub:
    return ThreadedHub(
        folder,
        hub__remote_write=store.write_url,
        hub__remote_write_interval="0.2s",
        hub__remote_write_labels=LABELS,
    )


def machines(start: float) -> list[Snapshot]:
    """Nodes with jobs on them, and one with an odd name and a MIG instance."""
    fleet = large_fleet(NODES, GPUS, seed=1, start=start, interval_seconds=60.0)
    odd = snapshot(
        gpu(instances=(instance(),), name='A "quoted" \\ GPU'),
        node_id="odd",
        name="größe {x}",
        taken_at=start,
        interval_seconds=60.0,
    )
    return [*(fleet.snapshot(index, start, 1) for index in range(NODES)), odd]


def published(hub: ThreadedHub) -> list[tuple[str, dict[str, str], float]]:
    """The samples of `/metrics` that stay as they are while nobody reports."""
    text = hub.request("GET", "/metrics").body.decode()
    return [
        (sample.name, {key: value for key, value in sample.labels.items() if value}, sample.value)
        for family in text_string_to_metric_families(text)
        for sample in family.samples
        if not sample.name.startswith(MOVING)
    ]


def wait_until_sent(hub: ThreadedHub) -> None:
    """Wait until all that was reported before is sent.

    Not by queries: VictoriaMetrics remembers for seconds that it has found no such series.
    """
    writer = hub.server.exporters["remote_write"]
    sent = "remote_write_samples_total"
    enough = writer.counts()[sent] + 3 * hub.request("GET", "/metrics").body.count(b"\n")
    wait_until(lambda: writer.counts()[sent] > enough)


def test_values_queried_by_promql_equal_those_of_the_hub(
    tmp_path: Path, store: SeriesStore
) -> None:
    with writing_hub(tmp_path / "hub", store) as hub:
        for each in machines(time.time()):
            hub.join_and_report(each)
        samples = published(hub)
        extra = {"site": "berlin", "Zone": "b"}
        wait_until_sent(hub)
        wait_until(lambda: store.value("fleet_smi_nodes", extra) == NODES + 1)
        chosen = random.Random(14).sample(samples, VALUES)
        # Of every metric that there is, too.
        chosen += {name: sample for sample in samples if (name := sample[0])}.values()
        # VictoriaMetrics stores 15 digits: 28.6 / 100 comes back as 0.286.
        found = [f"{store.value(name, labels | extra):.15g}" for name, labels, _ in chosen]
        assert found == [f"{value:.15g}" for _, _, value in chosen]
    names = {name for name, _, _ in samples}
    assert "fleet_smi_mig_state" in names
    assert "fleet_smi_user_gpus" in names


def test_a_node_that_is_removed_or_silent_ends_its_series(
    tmp_path: Path, store: SeriesStore
) -> None:
    temperature, state = "fleet_smi_gpu_temperature_celsius", "fleet_smi_gpu_state"
    removed, silent = (
        snapshot(gpu(), node_id=name, name=name, taken_at=time.time()) for name in ("gone", "still")
    )
    with writing_hub(tmp_path / "hub", store) as hub:
        hub.join_and_report(replace(removed, interval_seconds=60.0))
        token = hub.join_and_report(replace(silent, interval_seconds=60.0))
        wait_until_sent(hub)
        wait_until(lambda: len(store.query(temperature)) == 2)
        admin = hub.token("admin")
        assert hub.request("DELETE", "/api/v1/nodes/gone", token=admin).status == 204
        wait_until(lambda: [one["node"] for one, _ in store.query(temperature)] == ["still"])
        assert store.query('{node_id="gone"}') == []
        hub.report(
            replace(silent, sequence=2, taken_at=time.time(), interval_seconds=0.1), token=token
        )
        wait_until(lambda: store.value("fleet_smi_node_up", {"node_id": "still"}) == 0)
        wait_until(lambda: store.query(temperature) == [])
        wait_until(lambda: [labels["state"] for labels, _ in store.query(state)] == ["unknown"])


def test_what_could_not_be_sent_arrives_later(tmp_path: Path, store: SeriesStore) -> None:
    node = snapshot(gpu(), node_id="a", name="a", taken_at=time.time(), interval_seconds=60.0)

    def problems(hub: ThreadedHub) -> list[str]:
        listed = msgspec.json.decode(hub.request("GET", "/api/v1/nodes").body)
        return [each["kind"] for each in listed["problems"]]

    with writing_hub(tmp_path / "hub", store) as hub:
        hub.join_and_report(node)
        wait_until_sent(hub)
        wait_until(lambda: bool(store.query("fleet_smi_node_up")))
        store.stop()
        wait_until(lambda: problems(hub) == ["remote_write"])
        away_at = time.time()
        wait_until(lambda: time.time() > away_at + 1)
    # Also over a restart of the hub.
    with writing_hub(tmp_path / "hub", store) as hub:
        store.start()
        wait_until(lambda: bool(store.query("count_over_time(fleet_smi_node_up[1s])", away_at + 1)))
        wait_until(lambda: problems(hub) == [])
        counts = {name: value for name, _, value in _hub_counts(hub)}
        assert counts["fleet_smi_hub_remote_write_dropped_samples_total"] == 0


def _hub_counts(hub: ThreadedHub) -> list[tuple[str, dict[str, str], float]]:
    text = hub.request("GET", "/metrics?include=").body.decode()
    return [
        (sample.name, sample.labels, sample.value)
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    ]
