"""The chart and the plain manifests: valid, strict, and in line with hub, agent and images."""

import base64
import json
import re
import runpy
from collections.abc import Iterator
from typing import Any

import helm_python
import kubernetes_validate
import pytest
import yaml

import fleet_smi
from fleet_smi import config
from fleet_smi.cli.main import build_parser
from fleet_smi.server.app import load_endpoints
from tests.packaging.conftest import PROJECT

Manifest = dict[str, Any]
_RENDERER = runpy.run_path(str(PROJECT / "packaging/kubernetes/render.py"))
render, plain_manifests, CHART = (_RENDERER[n] for n in ("render", "plain_manifests", "CHART"))
CONTAINERFILE = (PROJECT / "packaging/container/Containerfile").read_text()
PORT = next(each.default.port for each in config.SETTINGS if each.name == "hub.listen")
USER = 65532
TOLERATION = {"key": "gpu", "operator": "Exists"}
SQL = {"ports": [{"protocol": "TCP", "port": 5432}]}
VALUES: dict[str, Manifest] = {
    "default": {},
    "everything": {
        "imagePullSecrets": [{"name": "registry"}],
        "joinToken": {"existingSecret": "our-join-token"},
        "hub": {
            "settings": '[hub]\nadmins = ["alice"]\n',
            "trustedProxies": ["10.1.0.0/16", "10.2.0.0/16"],
            "storage": {"className": "fast"},
            "nodeSelector": {"disk": "ssd"},
            "tolerations": [TOLERATION],
        },
        "agent": {
            "settings": '[node]\ncommands = "name"\n',
            "runtimeClassName": "nvidia",
            "nodeSelector": {"nvidia.com/gpu.present": "true"},
        },
        "ingress": {"enabled": True, "host": "gpu.example.org", "className": "nginx",
                    "tlsSecret": "gpu-tls", "annotations": {"a.example.org/b": "c"}},
        "networkPolicy": {"hubEgress": [SQL], "hubFrom": [{"podSelector": {}}]},
        "serviceMonitor": {"enabled": True, "tokenSecret": "metrics", "labels": {"team": "gpu"}},
    },
    "agents alone": {
        "hub": {"enabled": False},
        "agent": {"hubUrl": "https://gpuhub.example.org:443/gpus", "prepareStateFolder": False,
                  "fingerprint": f"sha256:{'0' * 64}"},
    },
    "a hub alone, with TLS": {
        "hub": {"tlsSecret": "hub-tls", "storage": {"existingClaim": "old"}},
        "agent": {"enabled": False},
        "networkPolicy": {"enabled": False},
    },
}  # fmt: skip


def manifests(values: Manifest) -> list[Manifest]:
    """The objects that the chart makes of these values."""
    files = [text for name, text in render(values).items() if name.endswith(".yaml")]
    return [each for text in files for each in yaml.safe_load_all(text) if each]


@pytest.fixture(params=VALUES)
def rendered(request: pytest.FixtureRequest) -> list[Manifest]:
    return manifests(VALUES[request.param])


def one(objects: list[Manifest], kind: str, component: str) -> Manifest:
    (found,) = [
        each for each in objects
        if each["kind"] == kind and each["metadata"]["name"] == f"fleet-smi-{component}"
    ]  # fmt: skip
    return found


def pods(objects: list[Manifest]) -> Iterator[Manifest]:
    for each in objects:
        if each["kind"] in ("Deployment", "DaemonSet"):
            yield each["spec"]["template"]["spec"]


def containers(pod: Manifest) -> list[Manifest]:
    return [*pod.get("initContainers", []), *pod["containers"]]


def kinds(objects: list[Manifest]) -> set[str]:
    return {each["kind"] for each in objects}


def test_every_object_is_valid(rendered: list[Manifest]) -> None:
    for each in rendered:
        if each["kind"] != "ServiceMonitor":  # of the Prometheus operator
            for version in ("1.25", "1.37"):
                kubernetes_validate.validate(each, version, strict=True)


def test_the_chart_has_no_fault_and_the_version_of_the_package() -> None:
    assert helm_python.lint(CHART, strict=True)["errors"] == []
    with helm_python.Chart.load(CHART) as chart:
        assert chart.metadata["appVersion"] == chart.version == fleet_smi.__version__
        for part in ("hub", "agent"):
            assert chart.values[part]["image"] == f"fleet-smi-{part}:{fleet_smi.__version__}"
        schema: Manifest = json.loads(json.dumps(chart.schema))
        assert set(schema["properties"]) - {"global"} == set(chart.values)


def test_everything_is_there() -> None:
    assert kinds(manifests(VALUES["everything"])) == {
        "ConfigMap", "DaemonSet", "Deployment", "Ingress", "NetworkPolicy",
        "PersistentVolumeClaim", "Service", "ServiceMonitor",
    }  # fmt: skip
    assert "Secret" in kinds(manifests({}))
    assert kinds(manifests(VALUES["agents alone"])) == {"DaemonSet", "NetworkPolicy", "Secret"}


def test_the_plain_manifests_are_those_of_the_chart() -> None:
    text = _RENDERER["MANIFESTS"].read_text()
    assert text == plain_manifests(), "run `python packaging/kubernetes/render.py`"
    assert "helm" not in text.replace("packaging/helm", "").lower()
    for each in yaml.safe_load_all(text):
        kubernetes_validate.validate(each, "1.37", strict=True)


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"hubb": {}}, "hubb"),
        ({"agent": {"fingerprint": "abc"}}, "fingerprint"),
        ({"ingress": {"enabled": True}}, "ingress.host: name the host"),
        ({"hub": {"enabled": False}}, "agent.hubUrl: name the hub"),
        ({"serviceMonitor": {"enabled": True}}, "serviceMonitor.tokenSecret: name the secret"),
    ],
)
def test_a_mistake_in_the_values_is_named(values: Manifest, message: str) -> None:
    with pytest.raises(helm_python.HelmError, match=message):
        render(values)


def test_containers_have_no_privilege_but_those_that_are_needed(rendered: list[Manifest]) -> None:
    for pod in pods(rendered):
        assert pod["securityContext"]["runAsNonRoot"] is True
        assert pod["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
        assert pod["automountServiceAccountToken"] is pod["enableServiceLinks"] is False
        is_agent = pod["containers"][0]["name"] == "agent"
        assert [pod.get(key, False) for key in ("hostPID", "hostNetwork", "hostIPC")] == [
            is_agent, False, False,
        ]  # fmt: skip
        for each in containers(pod):
            context = dict(each["securityContext"])
            if each["name"] == "state-folder":
                assert context.pop("runAsUser") == 0
                assert context.pop("runAsNonRoot") is False
                assert context["capabilities"].pop("add") == ["CHOWN"]
                assert [mount["name"] for mount in each["volumeMounts"]] == ["state"]
            assert context == {
                "allowPrivilegeEscalation": False,
                "readOnlyRootFilesystem": True,
                "capabilities": {"drop": ["ALL"]},
            }
        hostly = {volume["name"] for volume in pod["volumes"] if "hostPath" in volume}
        assert bool(hostly) is is_agent
        writable = [
            m["name"] for m in pod["containers"][0]["volumeMounts"] if not m.get("readOnly")
        ]
        assert set(writable) <= {"state", "tmp"}


def test_variables_and_commands_are_those_of_fleet_smi(rendered: list[Manifest]) -> None:
    for pod in pods(rendered):
        for each in containers(pod):
            environment = {item["name"]: item.get("value", "gpu01") for item in each.get("env", [])}
            config.resolve(environment).raise_if_invalid()
            known = {setting.environment_variable for setting in config.SETTINGS}
            assert set(environment) <= known
            if "args" in each:
                build_parser(each["args"][0]).parse_args(each["args"][1:])
    for each in rendered:
        if each["kind"] == "ConfigMap":
            assert each["data"]["fleet-smi.toml"].startswith("[")


def test_users_ports_and_folders_are_those_of_the_images(rendered: list[Manifest]) -> None:
    assert re.findall(r"^USER (.+)$", CONTAINERFILE, re.MULTILINE) == [f"{USER}:{USER}"] * 2
    assert re.findall(r"^EXPOSE (.+)$", CONTAINERFILE, re.MULTILINE) == [str(PORT)]
    states = re.findall(r"FLEET_SMI_(?:HUB|AGENT)_STATE=(\S+)", CONTAINERFILE)
    for pod in pods(rendered):
        context = pod["securityContext"]
        assert {context[key] for key in ("runAsUser", "runAsGroup", "fsGroup")} == {USER}
        (main,) = pod["containers"]
        mounts = {mount["name"]: mount["mountPath"] for mount in main["volumeMounts"]}
        assert f"{mounts['state']}/{main['name']}" in states
        declared = {volume["name"] for volume in pod["volumes"]}
        used = {mount["name"] for each in containers(pod) for mount in each["volumeMounts"]}
        assert used == declared
        assert [port["containerPort"] for port in main.get("ports", [])] in ([], [PORT])
        paths = {endpoint.path for endpoint in load_endpoints()}
        for probe in ("startupProbe", "readinessProbe", "livenessProbe"):
            assert probe not in main or main[probe]["httpGet"]["path"] in paths


def test_agents_reach_their_hub_through_the_policies() -> None:
    objects = manifests({})
    hub = one(objects, "Deployment", "hub")["spec"]["template"]
    agent = one(objects, "DaemonSet", "agent")["spec"]["template"]
    service = one(objects, "Service", "hub")["spec"]
    environment = {
        item["name"]: item.get("value") for item in agent["spec"]["containers"][0]["env"]
    }
    assert environment["FLEET_SMI_AGENT_TO"] == f"http://fleet-smi-hub.fleet-smi.svc:{PORT}"
    hub_environment = {item["name"]: item["value"] for item in hub["spec"]["containers"][0]["env"]}
    assert "fleet-smi-hub.fleet-smi.svc" in hub_environment["FLEET_SMI_HUB_HOSTS"].split(",")
    assert service["selector"].items() <= hub["metadata"]["labels"].items()
    assert [port["port"] for port in service["ports"]] == [PORT]
    hub_policy = one(objects, "NetworkPolicy", "hub")["spec"]
    agent_policy = one(objects, "NetworkPolicy", "agent")["spec"]
    (let_in,) = hub_policy["ingress"]
    (from_agents,) = let_in["from"]
    labels = from_agents["podSelector"]["matchLabels"]
    assert labels.items() <= agent["metadata"]["labels"].items()
    assert agent_policy["ingress"] == []
    _, to_hub = agent_policy["egress"]
    wanted = to_hub["to"][0]["podSelector"]["matchLabels"]
    assert wanted.items() <= hub["metadata"]["labels"].items()
    assert let_in["ports"] == to_hub["ports"] == [{"protocol": "TCP", "port": PORT}]
    elsewhere = one(manifests(VALUES["agents alone"]), "NetworkPolicy", "agent")["spec"]
    assert elsewhere["egress"][1]["ports"] == [{"protocol": "TCP", "port": 443}]


def test_hub_and_agents_share_one_join_token() -> None:
    for values, name in (({}, "fleet-smi-join"), (VALUES["everything"], "our-join-token")):
        objects = manifests(values)
        for pod in pods(objects):
            volumes = {volume["name"]: volume for volume in pod["volumes"]}
            assert volumes["join-token"]["secret"]["secretName"] == name
    token = base64.b64decode(one(manifests({}), "Secret", "join")["data"]["token"]).decode()
    assert re.fullmatch(r"fsmi_join_[A-Za-z0-9]{32,}", token)


def test_prometheus_reads_the_metrics_as_a_viewer() -> None:
    objects = manifests(VALUES["everything"])
    monitor = one(objects, "ServiceMonitor", "hub")
    (endpoint,) = monitor["spec"]["endpoints"]
    assert endpoint["authorization"]["credentials"] == {"name": "metrics", "key": "token"}
    assert endpoint["path"] in {each.path for each in load_endpoints()}
    service = one(objects, "Service", "hub")
    assert (
        monitor["spec"]["selector"]["matchLabels"].items() <= service["metadata"]["labels"].items()
    )
    assert endpoint["port"] in {port["name"] for port in service["spec"]["ports"]}
    hub = one(objects, "Deployment", "hub")["spec"]["template"]["spec"]
    assert [each["name"] for each in hub["initContainers"]] == ["join-token", "viewer-token"]
