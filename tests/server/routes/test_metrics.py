"""`GET /metrics`: valid for Prometheus, without labels of high cardinality."""

import gzip
from urllib.request import Request, urlopen

import pytest
from prometheus_client import Metric
from prometheus_client.parser import text_string_to_metric_families

from tests.server.threaded_hub import ThreadedHub


def families_of(hub: ThreadedHub, path: str = "/metrics") -> dict[str, Metric]:
    text = hub.request("GET", path).body.decode()
    return {family.name: family for family in text_string_to_metric_families(text)}


def test_metrics_are_valid_for_prometheus(hub: ThreadedHub) -> None:
    families = families_of(hub)
    assert all(family.documentation for family in families.values())
    states = {each.labels["state"]: each.value for each in families["fleet_smi_gpus"].samples}
    assert (states["free"], states["busy"]) == (2.0, 3.0)
    labels = {
        name for family in families.values() for each in family.samples for name in each.labels
    }
    assert not labels & {"pid", "command"}


def test_metrics_are_compressed_for_a_client_that_accepts_it(hub: ThreadedHub) -> None:
    with urlopen(Request(f"{hub.url}/metrics", headers={"Accept-Encoding": "gzip"})) as packed:
        body, headers = packed.read(), packed.headers
    assert headers["content-encoding"] == "gzip"
    assert "Accept-Encoding" in headers["vary"]
    assert b"fleet_smi_gpu_state" in gzip.decompress(body)
    with urlopen(f"{hub.url}/metrics") as plain:
        assert len(body) < len(plain.read()) / 3


@pytest.mark.parametrize(
    ("include", "present", "absent"),
    [
        ("", {"fleet_smi_gpus", "fleet_smi_hub_listeners"}, {"gpu", "node", "user", "mig_uuid"}),
        ("nodes", {"fleet_smi_node_up"}, {"gpu", "user", "mig_uuid"}),
        ("users,gpus", {"fleet_smi_user_gpus", "fleet_smi_gpu_state"}, {"mig_uuid"}),
    ],
)
def test_the_number_of_series_is_a_choice(
    hub: ThreadedHub, include: str, present: set[str], absent: set[str]
) -> None:
    families = families_of(hub, f"/metrics?include={include}")
    assert present <= families.keys()
    labels = {
        name for family in families.values() for each in family.samples for name in each.labels
    }
    assert not labels & absent


def test_an_unknown_group_of_series_is_an_error(hub: ThreadedHub) -> None:
    answer = hub.request("GET", "/metrics?include=processes")
    assert answer.status == 400
    assert b"nodes, gpus, instances, users" in answer.body
