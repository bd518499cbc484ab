"""Signals to processes: the right process, its owner's alone, here and over ssh."""

import os
import time
from pathlib import Path

import pytest

from fleet_smi.model.fleet import NodeView
from fleet_smi.terminal.top.requests import SendSignal
from fleet_smi.terminal.top.signals import deliver_signal
from tests.machines import UserProcesses, wait_until
from tests.sshd import SshNetwork
from tests.terminal import samples


def request(pid: int, **fields: object) -> SendSignal:
    known: dict[str, object] = {
        "signal": "TERM",
        "node_id": "id-gpu01",
        "pid": pid,
        "started_at": time.time(),
        "user": "alice",
        "uid": os.geteuid(),
    }
    return SendSignal(**(known | fields))  # type: ignore[arg-type]


def has_ended(pid: int) -> bool:
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] in "ZX"


def test_the_process_that_was_shown_is_ended(people: UserProcesses) -> None:
    pid = people.start()
    assert deliver_signal(request(pid), None, is_local=True) == f"process {pid} was asked to end"
    wait_until(lambda: has_ended(pid))


def test_another_process_with_the_same_number_is_left_alone(people: UserProcesses) -> None:
    pid = people.start()
    stale = request(pid, started_at=time.time() - 3600)
    assert "another one has its number now" in deliver_signal(stale, None, is_local=True)
    assert not has_ended(pid)


def test_a_process_of_somebody_else_needs_root(
    people: UserProcesses, monkeypatch: pytest.MonkeyPatch
) -> None:
    pid = people.start()
    monkeypatch.setattr(os, "geteuid", lambda: 4711)
    refused = deliver_signal(request(pid, uid=0), None, is_local=True)
    assert refused == f"process {pid} is alice's: only its owner or root can do that"
    assert not has_ended(pid)


def test_a_process_that_has_ended_is_named() -> None:
    pid = int(Path("/proc/sys/kernel/pid_max").read_text()) - 1
    assert deliver_signal(request(pid), None, is_local=True) == f"process {pid} has ended"


def test_the_node_that_is_this_machine_needs_no_ssh(people: UserProcesses) -> None:
    boot_id = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    node = samples.node("gpu01", boot_id=boot_id, ssh_host="nowhere.invalid")
    pid = people.start()
    assert "was killed" in deliver_signal(request(pid, signal="KILL"), node, is_local=False)


def over_ssh(network: SshNetwork, sent: SendSignal, host: str = "node") -> str:
    node: NodeView = samples.node("gpu01", ssh_host=host)
    return deliver_signal(sent, node, is_local=False, ssh_config=str(network.config))


def test_over_ssh_it_is_the_same(ssh_network: SshNetwork, people: UserProcesses) -> None:
    ssh_network.add_host("node", ssh_network.start_server())
    pid = people.start()
    stale = request(pid, started_at=time.time() - 3600)
    assert "another one has its number now" in over_ssh(ssh_network, stale)
    assert not has_ended(pid)
    assert over_ssh(ssh_network, request(pid)) == f"process {pid} was asked to end"
    wait_until(lambda: has_ended(pid))


def test_a_host_that_cannot_be_reached_is_named(ssh_network: SshNetwork) -> None:
    assert "ssh nowhere.invalid" in over_ssh(ssh_network, request(1), "nowhere.invalid")
    assert "is not the name of a host" in over_ssh(ssh_network, request(1), "-oProxyCommand=x")
