"""A node joins a hub that has a self-signed certificate, with the printed join command."""

import re
import shlex
from pathlib import Path

import pytest

from tests.cli.program import assert_error_line, run_fleet_smi
from tests.end_to_end.programs import Lab, LoopbackHub, LoopbackMachine
from tests.machines import wait_until


def children(pid: int) -> list[int]:
    return [int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


@pytest.fixture
def hub(lab: Lab) -> LoopbackHub:
    return LoopbackHub(lab, "--tls", "self-signed")


def join_line(hub: LoopbackHub) -> tuple[str, list[str]]:
    """Return the join token and the agent flags of the join command that the hub prints."""
    line = hub.command("join-command", "--installed", "--url", hub.url).stdout
    echo, token, pipe, program, command, *flags = shlex.split(line)
    assert (echo, pipe, program, command) == ("echo", "|", "fleet-smi", "agent")
    return token, flags


def join_flags(hub: LoopbackHub) -> list[str]:
    """Return the flags for an agent that reads the join token from a file."""
    token, flags = join_line(hub)
    file = hub.folder / "join-token"
    file.write_text(token)
    file.chmod(0o600)
    return [str(file) if flag == "-" else flag for flag in flags]


def without_join_file(flags: list[str]) -> list[str]:
    at = flags.index("--join-file")
    return [*flags[:at], *flags[at + 2 :]]


def join_once(lab: Lab, hub: LoopbackHub) -> tuple[LoopbackMachine, list[str]]:
    """Let a node join, and end its agent; return the flags for the next, without the token."""
    node, flags = LoopbackMachine(lab, "node"), join_flags(hub)
    agent = node.start_agent(*flags)
    wait_until(lambda: "node" in hub.reporting())
    agent.kill()
    wait_until(lambda: "node" not in hub.reporting())
    return node, without_join_file(flags)


def test_the_join_command_lets_a_node_join(lab: Lab, hub: LoopbackHub) -> None:
    node = LoopbackMachine(lab, "node")
    agent = node.start_agent(*join_flags(hub))
    wait_until(lambda: hub.latest_sequence("node") > 2)
    assert "fault=" not in agent.output


@pytest.mark.parametrize("way", ["standard input", "--join", "variable"])
def test_other_users_do_not_see_the_join_token_of_a_running_agent(
    lab: Lab, hub: LoopbackHub, way: str
) -> None:
    token, flags = join_line(hub)
    node = LoopbackMachine(lab, "node")
    others = without_join_file(flags)
    if way == "standard input":
        agent = node.start_agent(*flags, stdin=f"{token}\n")
    elif way == "--join":
        agent = node.start_agent("--join", token, *others)
    else:
        node.env["FLEET_SMI_AGENT_JOIN"] = token
        agent = node.start_agent(*others)
    wait_until(lambda: hub.latest_sequence("node") > 2)
    for pid in (agent.pid, *children(agent.pid)):
        for name in ("cmdline", "environ"):
            assert token.encode() not in Path(f"/proc/{pid}/{name}").read_bytes()
    assert ("warning: --join shows the token" in agent.output) == (way == "--join")
    assert token not in agent.output


def test_a_hub_with_a_new_name_knows_its_nodes(lab: Lab, hub: LoopbackHub) -> None:
    node, others = join_once(lab, hub)
    renamed = [flag.replace("127.0.0.1", "localhost") for flag in others]
    assert renamed != others
    agent = node.start_agent(*renamed)
    wait_until(lambda: "node" in hub.reporting())
    assert "is a known hub with a new URL" in agent.output


def test_a_joined_node_no_longer_needs_the_join_token(lab: Lab, hub: LoopbackHub) -> None:
    node, others = join_once(lab, hub)
    node.start_agent(*others)
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
