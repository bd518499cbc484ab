"""The `ssh` source, through real servers on loopback."""

import asyncio
import os
import shutil
import signal
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from fleet_smi import __version__
from fleet_smi.errors import (
    DeliveryError,
    Refused,
    Undecodable,
    Unreachable,
    UnsupportedVersion,
    UsageError,
)
from fleet_smi.fleet.delivery import Delivery
from fleet_smi.hub.sources.ssh import SshSource
from fleet_smi.model.snapshot import Snapshot
from sim.scenario import GIB, Scenario, SimGpu, SimProcess, scenario_env
from tests.machines import UserProcesses, wait_until
from tests.sshd import SshNetwork
from tests.wire.parsers.vendor_samples import (
    amd_smi_outputs,
    install_program,
    xpu_smi_outputs,
)

PLAIN = {"PATH": "/usr/bin:/bin", "HOME": "/nonexistent"}


@pytest.fixture(autouse=True)
def runtime(monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Where the source has its private folder; empty again when a test ends."""
    folder = Path(tempfile.mkdtemp(prefix="t-"))
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(folder))
    yield folder
    assert list(folder.iterdir()) == []
    folder.rmdir()


@pytest.fixture
def hung(tmp_path: Path) -> Iterator[str]:
    """A command that never ends, until the test does."""
    pids = tmp_path / "hung"
    yield f"echo $$ >>{pids}; exec sleep 600"
    for pid in pids.read_text().split() if pids.exists() else ():
        os.kill(int(pid), signal.SIGKILL)


def poll_once(network: SshNetwork, *hosts: str, timeout_seconds: float = 10.0) -> list[Delivery]:
    source = SshSource(hosts, timeout_seconds=timeout_seconds, config=str(network.config))
    return list(asyncio.run(source.poll()))


def listen(
    source: SshSource,
    enough: Callable[[list[Delivery]], bool],
    meanwhile: Callable[[], None] = lambda: None,
) -> list[Delivery]:
    """What a source delivers until it is enough; it is cancelled then, and leaves no task."""
    came: list[Delivery] = []

    async def scenario() -> None:
        running = asyncio.create_task(source.run(came.append))
        async with asyncio.timeout(60):
            while not enough(came):
                await asyncio.sleep(0.01)
        meanwhile()
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)
        assert len(asyncio.all_tasks()) == 1

    asyncio.run(scenario())
    return came


def only(deliveries: list[Delivery]) -> Snapshot:
    (delivery,) = deliveries
    assert isinstance(delivery.result, Snapshot), delivery.result
    return delivery.result


def error(deliveries: list[Delivery]) -> DeliveryError:
    (delivery,) = deliveries
    assert isinstance(delivery.result, DeliveryError), delivery.result
    assert delivery.result.node == delivery.target
    return delivery.result


def programs(runtime: Path) -> list[str]:
    """The command lines of the ssh programs that run for a source, children or left alone."""
    found = []
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            raw = (folder / "cmdline").read_bytes()
        except OSError:  # it has ended
            continue
        command = raw.replace(b"\0", b" ").decode(errors="replace")
        if command.startswith("ssh") and str(runtime) in command:
            found.append(command)
    return found


def descriptors() -> set[str]:
    return {path.name for path in Path("/proc/self/fd").iterdir()}


def test_gpus_and_processes_are_read_completely(
    ssh_network: SshNetwork, sim_lib: Path, tmp_path: Path, people: UserProcesses
) -> None:
    pids = [people.start("sleep", "600", user=user) for user in ("nobody", "games")]
    holders = [SimProcess(pid=pid, memory=GIB, sm=40) for pid in pids]
    gpus = [SimGpu(memory_used=3 * GIB, util_gpu=80, processes=holders), SimGpu()]
    Scenario(gpus=gpus).write(tmp_path / "scenario")
    env = scenario_env(sim_lib, tmp_path / "scenario")
    env = {**PLAIN, **env, "PATH": f"{sim_lib}:/usr/bin:/bin"}
    ssh_network.add_host("gpu01", ssh_network.start_server(env=env))
    found = only(poll_once(ssh_network, "gpu01"))
    busy, idle = found.gpus
    assert (busy.memory_used_bytes, busy.busy_percent, idle.processes) == (3 * GIB, 80.0, ())
    sent = {(process.user, process.command) for process in busy.processes or ()}
    assert sent == {("nobody", "sleep 600"), ("games", "sleep 600")}
    assert found.name == os.uname().nodename
    assert abs(found.taken_at - time.time()) < 60
    assert {run.outcome for run in found.runs} == {"ok"}


def test_amd_and_intel_gpus_are_read_by_their_programs(
    ssh_network: SshNetwork, tmp_path: Path
) -> None:
    folder = tmp_path / "bin"
    install_program(folder, "amd-smi", amd_smi_outputs(os.getpid()))
    install_program(folder, "xpu-smi", xpu_smi_outputs(os.getpid()))
    env = {**PLAIN, "PATH": f"{folder}:/usr/bin:/bin"}
    ssh_network.add_host("gpu01", ssh_network.start_server(env=env))
    found = only(poll_once(ssh_network, "gpu01"))
    assert [(gpu.vendor, gpu.busy_percent) for gpu in found.gpus] == [
        ("amd", 87.0),
        ("intel", 33.0),
    ]
    for gpu in found.gpus:
        (process,) = gpu.processes or ()
        assert (process.pid, process.uid) == (os.getpid(), os.getuid())


def test_a_jump_host_of_ssh_config_is_used(ssh_network: SshNetwork) -> None:
    bastion = ssh_network.start_server()
    ssh_network.add_host("bastion", bastion)
    ssh_network.add_host("gpu01", ssh_network.start_server(env=PLAIN), "ProxyJump bastion")
    assert only(poll_once(ssh_network, "gpu01")).name == os.uname().nodename
    assert bastion.logins() == 1


def test_a_changed_host_key_is_refused_and_says_what_to_do(ssh_network: SshNetwork) -> None:
    server, former = ssh_network.start_server(), ssh_network.start_server()
    ssh_network.add_host("gpu01", server, known_hosts_line=former.known_host("gpu01"))
    failure = error(poll_once(ssh_network, "gpu01"))
    assert isinstance(failure, Refused)
    assert str(failure).startswith("gpu01: the host key of gpu01 has changed")
    assert f'ssh-keygen -f "{ssh_network.known_hosts}" -R "gpu01"' in str(failure)
    assert server.logins() == 0


@pytest.mark.parametrize("jump", [False, True])
def test_an_unknown_host_key_is_refused_whatever_ssh_config_says(
    ssh_network: SshNetwork, jump: bool
) -> None:
    unknown = ssh_network.start_server()
    ssh_network.add_host("new", unknown, "StrictHostKeyChecking no", known_hosts_line="")
    ssh_network.add_host("behind", ssh_network.start_server(), "ProxyJump new")
    before = ssh_network.known_hosts.read_text()
    failure = error(poll_once(ssh_network, "behind" if jump else "new"))
    assert isinstance(failure, Refused)
    assert "new is not in known_hosts: `fleet-smi ssh trust HOST` adds it" in str(failure)
    assert ssh_network.known_hosts.read_text() == before
    assert unknown.logins() == 0


def test_an_unauthorized_key_is_refused(ssh_network: SshNetwork) -> None:
    ssh_network.add_host("gpu01", ssh_network.start_server("DenyUsers *"))
    failure = error(poll_once(ssh_network, "gpu01"))
    assert isinstance(failure, Refused)
    assert "permission denied" in str(failure)


def test_a_missing_host_is_unreachable(ssh_network: SshNetwork) -> None:
    gone = ssh_network.start_server()
    ssh_network.add_host("gpu01", gone)
    gone.stop()
    failure = error(poll_once(ssh_network, "gpu01"))
    assert isinstance(failure, Unreachable)
    assert "connection refused" in str(failure)


def test_a_host_with_a_port_needs_no_ssh_config(ssh_network: SshNetwork) -> None:
    server = ssh_network.start_server(env=PLAIN)
    ssh_network.add_host("gpu01", server, known_hosts_line=server.known_host())
    assert only(poll_once(ssh_network, f"127.0.0.1:{server.port}")).name == os.uname().nodename


def test_a_hung_remote_command_times_out_and_leaves_no_process(
    ssh_network: SshNetwork, hung: str, runtime: Path
) -> None:
    ssh_network.add_host("gpu01", ssh_network.start_server(f"ForceCommand {hung}"))
    before = descriptors()
    failure = error(poll_once(ssh_network, "gpu01", timeout_seconds=1.5))
    assert isinstance(failure, Unreachable)
    assert str(failure) == "gpu01: did not answer in 1.5 s"
    assert programs(runtime) == []
    assert descriptors() == before


def test_an_unkillable_driver_is_a_failure_of_its_node(
    ssh_network: SshNetwork, hung: str, tmp_path: Path
) -> None:
    # A program that hangs in the kernel outlives its `timeout`, as this one does.
    for name in ("nvidia-smi", "timeout"):
        (tmp_path / name).write_text(f"#!/bin/sh\n{hung}\n")
        (tmp_path / name).chmod(0o755)
    env = {**PLAIN, "PATH": f"{tmp_path}:/usr/bin:/bin"}
    ssh_network.add_host("gpu01", ssh_network.start_server(env=env))
    found = only(poll_once(ssh_network, "gpu01", timeout_seconds=4.0))
    run = next(run for run in found.runs if run.name == "nvidia_smi")
    assert (run.outcome, run.fault) == ("failed", "not_answering")


@pytest.mark.parametrize(
    ("command", "kind", "message"),
    [
        ("echo This account is not available.; exit 1", Undecodable, "This account is not"),
        ("head -c 20000000 /dev/zero", Undecodable, "more than 8 MiB"),
        ("exit 255", Unreachable, "ssh failed"),
    ],
)
def test_output_that_is_not_a_report_has_its_own_error(
    ssh_network: SshNetwork, command: str, kind: type[DeliveryError], message: str
) -> None:
    ssh_network.add_host("gpu01", ssh_network.start_server(f"ForceCommand {command}"))
    before = descriptors()
    failure = error(poll_once(ssh_network, "gpu01"))
    assert type(failure) is kind
    assert message in str(failure)
    assert descriptors() == before


def test_output_of_the_login_is_ignored(ssh_network: SshNetwork) -> None:
    noisy = 'ForceCommand printf "Welcome to gpu01\\nno newline here"; exec sh'
    ssh_network.add_host("gpu01", ssh_network.start_server(noisy, env=PLAIN))
    assert only(poll_once(ssh_network, "gpu01")).name == os.uname().nodename


def test_an_installed_fleet_smi_is_used(ssh_network: SshNetwork) -> None:
    env = {**PLAIN, "PATH": f"{Path(sys.executable).parent}:/usr/bin:/bin"}
    ssh_network.add_host("gpu01", ssh_network.start_server(env=env))
    ssh_network.add_host("gpu02", ssh_network.start_server(env=PLAIN))
    installed, plain = (only(poll_once(ssh_network, host)) for host in ("gpu01", "gpu02"))
    assert (installed.agent_version, plain.agent_version) == (__version__, None)
    assert installed.node_id == plain.node_id


def test_a_report_of_a_newer_version_has_its_own_error(
    ssh_network: SshNetwork, tmp_path: Path
) -> None:
    (tmp_path / "fleet-smi").write_text('#!/bin/sh\necho \'{"version":99,"snapshots":[]}\'\n')
    (tmp_path / "fleet-smi").chmod(0o755)
    env = {**PLAIN, "PATH": f"{tmp_path}:/usr/bin:/bin"}
    ssh_network.add_host("gpu01", ssh_network.start_server(env=env))
    assert isinstance(error(poll_once(ssh_network, "gpu01")), UnsupportedVersion)


def test_fifty_hosts_are_polled_concurrently_up_to_the_limit(
    ssh_network: SshNetwork, runtime: Path
) -> None:
    server = ssh_network.start_server(env=PLAIN)
    hosts = [f"gpu{number:02}" for number in range(50)]
    for host in hosts:
        ssh_network.add_host(host, server)
    source = SshSource(hosts, concurrency=8, timeout_seconds=30, config=str(ssh_network.config))
    at_once: list[int] = []

    async def watch() -> None:
        while True:
            at_once.append(len(programs(runtime)))
            await asyncio.sleep(0.02)

    async def scenario() -> list[Delivery]:
        watching = asyncio.create_task(watch())
        deliveries = await source.poll()
        watching.cancel()
        return list(deliveries)

    deliveries = asyncio.run(scenario())
    assert [delivery.target for delivery in deliveries] == hosts
    assert all(isinstance(delivery.result, Snapshot) for delivery in deliveries)
    assert server.logins() == 50
    assert 1 < max(at_once) <= 8


def test_many_polls_share_one_connection_and_leave_nothing_behind(
    ssh_network: SshNetwork, runtime: Path
) -> None:
    servers = [ssh_network.start_server(env=PLAIN) for _ in range(2)]
    ssh_network.add_host("gpu00", servers[0])
    ssh_network.add_host("gpu01", servers[1], "ProxyJump gpu00")
    source = SshSource(["gpu00", "gpu01"], interval_seconds=0.1, config=str(ssh_network.config))
    before, threads = descriptors(), set(threading.enumerate())

    def five_of_each(came: list[Delivery]) -> bool:
        return all(sum(d.target == host for d in came) >= 5 for host in source.targets)

    def is_private_and_connected() -> None:
        (folder,) = runtime.iterdir()
        assert folder.stat().st_mode & 0o777 == 0o700
        assert sum("[mux]" in program for program in programs(runtime)) == 2

    came = [delivery.result for delivery in listen(source, five_of_each, is_private_and_connected)]
    assert all(isinstance(what, Snapshot) and what.interval_seconds == 0.1 for what in came)
    assert [server.logins() for server in servers] == [2, 1]  # its own, and as a jump host
    wait_until(lambda: programs(runtime) == [])
    assert descriptors() == before
    wait_until(lambda: set(threading.enumerate()) <= threads)


def test_a_folder_too_long_for_a_socket_is_not_used(
    ssh_network: SshNetwork, runtime: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    deep = tmp_path / ("d" * 60)
    deep.mkdir()
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(deep))
    monkeypatch.setattr(tempfile, "tempdir", str(runtime))
    server = ssh_network.start_server(env=PLAIN)
    ssh_network.add_host("gpu01", server)
    source = SshSource(["gpu01"], interval_seconds=0.1, config=str(ssh_network.config))
    came = listen(source, lambda came: len(came) >= 2)
    assert all(isinstance(delivery.result, Snapshot) for delivery in came)
    assert server.logins() == 1
    assert list(deep.iterdir()) == []


def test_a_hung_host_delays_no_other_and_ends_when_cancelled(
    ssh_network: SshNetwork, hung: str, runtime: Path
) -> None:
    ssh_network.add_host("slow", ssh_network.start_server(f"ForceCommand {hung}"))
    ssh_network.add_host("quick", ssh_network.start_server(env=PLAIN))
    source = SshSource(["slow", "quick"], interval_seconds=0.1, config=str(ssh_network.config))
    came = listen(source, lambda came: len(came) >= 4)
    assert {delivery.target for delivery in came} == {"quick"}
    wait_until(lambda: programs(runtime) == [])


def test_after_a_timeout_the_next_poll_opens_a_new_connection(
    ssh_network: SshNetwork, hung: str, tmp_path: Path
) -> None:
    well = tmp_path / "well"
    server = ssh_network.start_server(f"ForceCommand [ -e {well} ] && exec sh; {hung}", env=PLAIN)
    ssh_network.add_host("gpu01", server)
    source = SshSource(
        ["gpu01"], interval_seconds=0.1, timeout_seconds=1, config=str(ssh_network.config)
    )

    def one_of_each_kind(came: list[Delivery]) -> bool:
        if came:
            well.touch()
        return any(isinstance(delivery.result, Snapshot) for delivery in came)

    came = listen(source, one_of_each_kind)
    assert isinstance(came[0].result, Unreachable)
    assert server.logins() == len(came)


def test_a_host_that_looks_like_an_option_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="is not a host"):
        SshSource([f"-oProxyCommand=touch {tmp_path / 'x'}"])


def test_a_missing_ssh_config_is_an_error() -> None:
    with pytest.raises(UsageError, match="there is no ssh_config"):
        SshSource(["gpu01"], config="/nonexistent/config")


def test_a_missing_ssh_program_is_an_error(
    ssh_network: SshNetwork, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    ssh_network.add_host("gpu01", ssh_network.start_server())
    monkeypatch.setenv("PATH", str(tmp_path))
    assert shutil.which("ssh") is None
    assert "install the OpenSSH client" in str(error(poll_once(ssh_network, "gpu01")))
