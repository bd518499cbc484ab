"""A node joins a hub that has a self-signed certificate, with the printed join command."""

import re
import shlex
from pathlib import Path

import pytest

from tests.cli.program import assert_error_line, run_fleet_smi
from tests.end_to_end.programs import Lab, LoopbackHub, LoopbackMachine
from tests.machines import wait_until


@pytest.fixture
def hub(lab: Lab) -> LoopbackHub:
    return LoopbackHub(lab, "--tls", "self-signed")


def join_flags(hub: LoopbackHub) -> list[str]:
    """Return the agent flags of the join command that the hub prints."""
    program, command, *flags = shlex.split(hub.command("join-command", "--url", hub.url).stdout)
    assert (program, command) == ("fleet-smi", "agent")
    return flags


def test_the_join_command_lets_a_node_join(lab: Lab, hub: LoopbackHub) -> None:
    node = LoopbackMachine(lab, "node")
    agent = node.start_agent(*join_flags(hub))
    wait_until(lambda: hub.latest_sequence("node") > 2)
    assert "fault=" not in agent.output


def test_a_joined_node_no_longer_needs_the_join_token(lab: Lab, hub: LoopbackHub) -> None:
    node, flags = LoopbackMachine(lab, "node"), join_flags(hub)
    first = node.start_agent(*flags)
    wait_until(lambda: "node" in hub.reporting())
    first.kill()
    wait_until(lambda: "node" not in hub.reporting())
    at = flags.index("--join")
    node.start_agent(*flags[:at], *flags[at + 2 :])
    wait_until(lambda: "node" in hub.reporting())


def test_an_agent_sends_nothing_to_a_hub_with_another_certificate(
    lab: Lab, hub: LoopbackHub
) -> None:
    node = LoopbackMachine(lab, "node")
    other = [re.sub("^sha256:.*", f"sha256:{'0' * 64}", flag) for flag in join_flags(hub)]
    agent = node.start_agent(*other)
    wait_until(lambda: "fault=Refused" in agent.output)
    assert "presents another certificate than the pinned one" in agent.output
    assert hub.node("node") is None
    assert hub.command("token", "list").stdout.count("never") == 1


def test_the_hubs_own_user_needs_no_fingerprint_and_others_do(
    hub: LoopbackHub, tmp_path: Path
) -> None:
    fingerprint = join_flags(hub)[-1]
    assert run_fleet_smi("--hub", hub.url, env=hub.env).returncode == 0
    other = hub.env | {"FLEET_SMI_HUB_STATE": str(tmp_path / "nothing")}
    assert_error_line(
        run_fleet_smi("--hub", hub.url, env=other), 3, "its certificate is not trusted"
    )
    pinned = other | {"FLEET_SMI_CLIENT_FINGERPRINT": fingerprint}
    assert run_fleet_smi("--hub", hub.url, env=pinned).returncode == 0
