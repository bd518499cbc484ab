"""The migration guide from web-gpu-monitor: its steps work."""

import os
import pwd
from pathlib import Path

import pytest

from tests.cli.program import run_fleet_smi
from tests.compat.migration_guide import migration_commands, migration_section
from tests.docs.pages import code_blocks
from tests.end_to_end.programs import Lab, LoopbackHub
from tests.machines import wait_until
from tests.sshd import SshNetwork

TITLE = "web-gpu-monitor"
MIGRATE = "fleet-smi migrate config.ini --out fleet-smi.toml"
ONCE = "fleet-smi render --config fleet-smi.toml --out /var/www/gpu-new"
EVERY = "fleet-smi render --config fleet-smi.toml --out /var/www/gpu-new --every 5m"
HUB = "fleet-smi hub --config fleet-smi.toml"
BEFORE = (
    "[common]\nuser = gpu_monitor\nhosts = gpu01.lab.example.org,gpu02.lab.example.org\n"
    "key_filename=/home/ubuntu/.ssh/gpu_monitor\n"
)
USER = pwd.getpwuid(os.geteuid()).pw_name


@pytest.fixture
def env(tmp_path: Path) -> dict[str, str]:
    return {"HOME": str(tmp_path), "PATH": os.environ["PATH"]}


def flags(command: str, folder: Path) -> list[str]:
    """A command's words, its files in a folder of this test."""
    message = command.split()[1:]
    places = ("config.ini", "fleet-smi.toml", "/var/www/gpu-new")
    return [str(folder / Path(word).name) if word in places else word for word in message]


def test_every_command_of_the_section_is_run_here_and_no_other() -> None:
    assert migration_commands(TITLE) == [MIGRATE, ONCE, EVERY, HUB]


def test_the_settings_are_what_becomes_of_such_a_file(env: dict[str, str], tmp_path: Path) -> None:
    (tmp_path / "config.ini").write_text(BEFORE)
    done = run_fleet_smi(*flags(MIGRATE, tmp_path), env=env)
    assert done.returncode == 0, done.stderr
    (written,) = code_blocks(migration_section(TITLE), "toml")
    assert (tmp_path / "fleet-smi.toml").read_text().endswith(written)


def test_its_hosts_are_on_a_page_and_in_a_hub_without_being_touched(
    ssh_network: SshNetwork,
    lab: Lab,
    env: dict[str, str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    server = ssh_network.start_server(env={"PATH": "/usr/bin:/bin"})
    ssh_network.known_hosts.write_text(server.known_host())
    config = tmp_path / "plain_config"
    config.write_text(f"UserKnownHostsFile {ssh_network.known_hosts}\nIdentityAgent none\n")
    env["FLEET_SMI_HUB_SSH_CONFIG"] = str(config)
    hosts = f"127.0.0.1:{server.port},127.0.0.1:1"
    before = BEFORE.replace("gpu_monitor\nhosts", f"{USER}\nhosts")
    before = before.replace("gpu01.lab.example.org,gpu02.lab.example.org", hosts)
    before = before.replace("/home/ubuntu/.ssh/gpu_monitor", str(ssh_network.key))
    (tmp_path / "config.ini").write_text(before)
    for command in (MIGRATE, ONCE):
        done = run_fleet_smi(*flags(command, tmp_path), env=env)
        assert done.returncode == 0, done.stderr

    page = tmp_path / "gpu-new" / "index.html"
    assert "1 of 2 nodes" in page.read_text("utf-8")
    page.unlink()
    lab.start(*flags(EVERY, tmp_path), env=env, log=tmp_path / "every.log")
    wait_until(page.exists)

    monkeypatch.setenv("FLEET_SMI_HUB_SSH_CONFIG", str(config))
    hub = LoopbackHub(lab, *flags(HUB, tmp_path)[1:])
    wait_until(lambda: hub.reporting() == {os.uname().nodename})
