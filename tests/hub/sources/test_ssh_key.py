"""Logging in as web-gpu-monitor does: one account, one key, hosts that no ssh_config names."""

import asyncio
import os
import pwd
from pathlib import Path

import pytest

from fleet_smi.errors import Refused, UsageError
from fleet_smi.fleet.delivery import Delivery
from fleet_smi.hub.sources.ssh import SshSource
from fleet_smi.model.snapshot import Snapshot
from tests.sshd import Sshd, SshNetwork, make_key

USER = pwd.getpwuid(os.geteuid()).pw_name
PLAIN = {"PATH": "/usr/bin:/bin", "HOME": "/nonexistent"}


def ssh_config(network: SshNetwork, folder: Path, *servers: Sshd) -> str:
    """An ssh_config with a key that nobody lets in; the servers' host keys are known."""
    make_key(folder / "other_key")
    network.known_hosts.write_text("".join(server.known_host() for server in servers))
    config = folder / "plain_config"
    config.write_text(
        f"IdentityFile {folder / 'other_key'}\nUserKnownHostsFile {network.known_hosts}\n"
        "GlobalKnownHostsFile /dev/null\nUser nobody\n"
    )
    return str(config)


def poll_once(config: str, key: Path | None, *hosts: str) -> list[Delivery]:
    source = SshSource(hosts, config=config, key=None if key is None else str(key))
    return list(asyncio.run(source.poll()))


def test_the_configured_key_is_used_instead_of_the_users_own(
    ssh_network: SshNetwork, tmp_path: Path
) -> None:
    server = ssh_network.start_server(env=PLAIN)
    config, host = ssh_config(ssh_network, tmp_path, server), f"{USER}@127.0.0.1:{server.port}"
    (without,) = poll_once(config, None, host)
    (with_key,) = poll_once(config, ssh_network.key, host)
    assert isinstance(without.result, Refused)
    assert isinstance(with_key.result, Snapshot)


def test_an_unknown_host_key_is_refused_with_a_configured_key(
    ssh_network: SshNetwork, tmp_path: Path
) -> None:
    server = ssh_network.start_server(env=PLAIN)
    config = ssh_config(ssh_network, tmp_path)
    (delivery,) = poll_once(config, ssh_network.key, f"{USER}@127.0.0.1:{server.port}")
    assert isinstance(delivery.result, Refused)
    assert server.logins() == 0


def test_a_dead_host_does_not_disturb_the_connection_of_another(
    ssh_network: SshNetwork, tmp_path: Path
) -> None:
    alive, dead = ssh_network.start_server(env=PLAIN), ssh_network.start_server()
    dead.stop()
    config = ssh_config(ssh_network, tmp_path, alive, dead)
    hosts = [f"{USER}@127.0.0.1:{server.port}" for server in (dead, alive)]
    by_target = {one.target: one.result for one in poll_once(config, ssh_network.key, *hosts)}
    assert "connection refused" in str(by_target[hosts[0]])
    assert isinstance(by_target[hosts[1]], Snapshot)
    assert alive.logins() == 1


def test_a_missing_key_is_an_error() -> None:
    with pytest.raises(UsageError, match="there is no ssh key /nonexistent/key"):
        SshSource(["gpu01"], key="/nonexistent/key")
