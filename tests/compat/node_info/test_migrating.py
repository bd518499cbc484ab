"""The migration guide from gpu-cluster-monitor: its steps work."""

from pathlib import Path

import msgspec
import pytest

from fleet_smi.model.snapshot import Snapshot
from sim.scenario import Scenario, SimGpu
from tests.compat.masters import read_main_status
from tests.compat.migration_guide import migration_commands, run_curl, write_section_settings
from tests.end_to_end.programs import Lab, LoopbackHub
from tests.machines import wait_until
from tests.ports import free_port
from tests.sim.fixtures import Simulated

TITLE = "gpu-cluster-monitor"
HUB = "fleet-smi hub"
EXPORT = "export FLEET_SMI_AGENT_GET_STATUS_PASSWORD_FILE=/etc/fleet-smi/get-status-password"
SERVE = "fleet-smi agent --serve :7080 --serve-token-file /etc/fleet-smi/serve-token"
VIEWER = 'curl -H "Authorization: Bearer $TOKEN" http://gpuhub:7070/get-status'
PASSWORD = (
    'curl -H "Content-Type: application/json" -d "{\\"passwd\\": \\"$PASSWORD\\"}" '
    "http://gpuhub:7070/get-status"
)


def test_every_command_of_the_section_is_run_here_and_no_other() -> None:
    assert migration_commands(TITLE) == [HUB, EXPORT, SERVE, VIEWER, PASSWORD]


def test_in_place_of_a_node_and_of_the_main_node_the_old_requests_are_answered(
    lab: Lab, simulated: Simulated, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    secrets = {"get-status-password": "old-sesame", "serve-token": "t" * 40}
    for name, value in secrets.items():
        (tmp_path / name).write_text(f"{value}\n")
    port = free_port()
    flags = SERVE.replace("/etc/fleet-smi", str(tmp_path)).replace(":7080", f":{port}").split()[1:]
    name, _, path = EXPORT.removeprefix("export ").partition("=")
    env = simulated(Scenario(gpus=[SimGpu()])) | {
        name: path.replace("/etc/fleet-smi", str(tmp_path))
    }
    lab.start(*flags, env=env, log=lab.folder / "log")

    places = {
        "192.168.0.1": f"127.0.0.1:{port}",
        "192.168.0.2:7080": f"127.0.0.1:{free_port()}",
        "/etc/fleet-smi/node-info-password": str(tmp_path / "get-status-password"),
    }
    settings = write_section_settings(TITLE, places, tmp_path)
    monkeypatch.setenv("FLEET_SMI_HUB_GET_STATUS_PASSWORD", "open-sesame")
    hub = LoopbackHub(lab, "--config", settings)
    wait_until(lambda: bool(hub.reporting()))
    wrong = msgspec.json.decode(run_curl(PASSWORD, hub.url, PASSWORD="8888"))
    assert wrong["error"]["code"] == "bad_password"
    output = run_curl(PASSWORD, hub.url, PASSWORD="open-sesame")
    kinds = [isinstance(each, Snapshot) for each in read_main_status(output)]
    assert sorted(kinds) == [False, True]
    token = hub.command("token", "add", "--role", "viewer").stdout.strip()
    wait_until(lambda: run_curl(VIEWER, hub.url, TOKEN=token).startswith(b'{"Nodes"'))
