"""`GET /metrics`: valid for Prometheus, without labels of high cardinality."""

from prometheus_client.parser import text_string_to_metric_families

from tests.server.threaded_hub import ThreadedHub


def test_metrics_are_valid_for_prometheus(hub: ThreadedHub) -> None:
    families = {
        family.name: family
        for family in text_string_to_metric_families(hub.request("GET", "/metrics").body.decode())
    }
    states = {each.labels["state"]: each.value for each in families["fleet_smi_gpus"].samples}
    assert (states["free"], states["busy"]) == (2.0, 3.0)
    labels = {
        name for family in families.values() for each in family.samples for name in each.labels
    }
    assert not labels & {"pid", "command"}
