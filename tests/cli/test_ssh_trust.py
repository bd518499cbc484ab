"""`fleet-smi ssh trust` with real sshd servers."""

import os
import pty
import subprocess
import sys
from pathlib import Path

import pytest

from tests.cli.program import assert_error_line, run_fleet_smi
from tests.sshd import Sshd, make_key


@pytest.fixture
def env(tmp_path: Path) -> dict[str, str]:
    (tmp_path / ".ssh").mkdir()
    return {
        "HOME": str(tmp_path),
        "PATH": os.environ["PATH"],
        # ssh itself looks up the home folder of its user, not of this test.
        "FLEET_SMI_HUB_SSH_CONFIG": str(tmp_path / "config"),
    }


@pytest.fixture
def known_hosts(tmp_path: Path) -> Path:
    return tmp_path / ".ssh/known_hosts"


def servers(folder: Path, count: int = 2) -> list[Sshd]:
    """Start servers that an ssh_config names gpu1, gpu2 …"""
    make_key(folder / "key")
    started = [Sshd(folder / f"sshd{at}", folder / "key") for at in range(count)]
    lines = []
    for at, server in enumerate(started, 1):
        server.start()
        lines.append(f"Host gpu{at}\n  HostName 127.0.0.1\n  Port {server.port}\n")
    (folder / "config").write_text("".join(lines))
    return started


def fingerprint(server: Sshd, folder: Path) -> str:
    (folder / "one.pub").write_text(server.host_key)
    listed = ["ssh-keygen", "-lf", str(folder / "one.pub")]
    return subprocess.run(listed, capture_output=True, text=True, check=True).stdout.split()[1]


def test_new_keys_are_shown_and_added_once(
    tmp_path: Path, env: dict[str, str], known_hosts: Path
) -> None:
    started = servers(tmp_path)
    known_hosts.write_text("unfinished.example ssh-ed25519 AAAA")
    try:
        asked = run_fleet_smi("ssh", "trust", "gpu*", env=env)
        assert asked.returncode == 1
        assert "nothing was added" in asked.stderr
        for server in started:
            assert fingerprint(server, tmp_path) in asked.stdout
        assert known_hosts.read_text() == "unfinished.example ssh-ed25519 AAAA"
        done = run_fleet_smi("ssh", "trust", "gpu1,gpu2", "--yes", env=env)
        assert (done.returncode, done.stderr) == (0, "")
        for server in started:
            name = f"[127.0.0.1]:{server.port}"
            found = ["ssh-keygen", "-F", name, "-f", str(known_hosts)]
            assert server.host_key.split()[1].encode() in subprocess.check_output(found)
        again = run_fleet_smi("ssh", "trust", "gpu1", "--yes", env=env)
        assert (again.returncode, again.stdout) == (0, "gpu1  known already\n")
    finally:
        for server in started:
            server.stop()


def test_a_changed_key_and_a_silent_host_are_left_out(
    tmp_path: Path, env: dict[str, str], known_hosts: Path
) -> None:
    good, bad = servers(tmp_path)
    known_hosts.write_text(f"[127.0.0.1]:{bad.port} {good.host_key.rpartition(' ')[0]}\n")
    before = known_hosts.read_text()
    with (tmp_path / "config").open("a") as config:
        config.write("Host gpu3\n  HostName 127.0.0.1\n  Port 9\nHost gpu4\n  ProxyJump gpu1\n")
    try:
        done = run_fleet_smi("ssh", "trust", "gpu*", "--yes", env=env)
        assert done.returncode == 1
        assert "gpu2  CHANGED: has another key than known_hosts says" in done.stdout
        assert "gpu3  FAILED: did not answer with a host key" in done.stdout
        assert "gpu4  FAILED: is behind a jump host" in done.stdout
        added = known_hosts.read_text().removeprefix(before)
        assert f"[127.0.0.1]:{good.port} " in added
        assert f":{bad.port} " not in added
    finally:
        for server in (good, bad):
            server.stop()


@pytest.mark.parametrize(("answer", "code"), [(b"y\n", 0), (b"\n", 1)])
def test_it_asks_on_a_terminal(
    tmp_path: Path, env: dict[str, str], known_hosts: Path, answer: bytes, code: int
) -> None:
    (server,) = servers(tmp_path, 1)
    admin, terminal = pty.openpty()
    try:
        os.write(admin, answer)
        command = [sys.executable, "-m", "fleet_smi", "ssh", "trust", "gpu1"]
        done = subprocess.run(command, env=env, stdin=terminal, timeout=60, check=False)
        assert done.returncode == code
        assert known_hosts.exists() == (code == 0)
    finally:
        server.stop()
        os.close(admin)
        os.close(terminal)


def test_without_hosts_it_takes_those_of_the_hub(tmp_path: Path, env: dict[str, str]) -> None:
    del env["FLEET_SMI_HUB_SSH_CONFIG"]
    assert_error_line(run_fleet_smi("ssh", "trust", env=env), 2, "set hub.ssh")
    assert_error_line(run_fleet_smi("ssh", "trust", "-x", env=env), 2, "unrecognized")
    evil = run_fleet_smi("ssh", "trust", "--yes", "gpu1,-oProxyCommand=x", env=env)
    assert_error_line(evil, 2, "is not a host")
