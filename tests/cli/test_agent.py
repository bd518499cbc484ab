"""`fleet-smi agent` as a program: its outlets, a hung driver, a hub outage, shutdown."""

import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from http.client import HTTPConnection
from pathlib import Path

import pytest

from fleet_smi.model.snapshot import Snapshot
from fleet_smi.wire.report import decode_report
from sim.scenario import Scenario, SimGpu, SimProcess
from tests.cli.program import assert_error_line, run_fleet_smi
from tests.machines import UserProcesses, wait_until
from tests.node.fake_hub import FakeHub
from tests.ports import free_port
from tests.sim.fixtures import Simulated

TWO = Scenario(gpus=[SimGpu(), SimGpu()])
HUNG = Scenario(gpus=[SimGpu(), SimGpu(faults={"PowerUsage": "never"})])
Start = Callable[..., "subprocess.Popen[str]"]


@pytest.fixture
def sink() -> Iterator[FakeHub]:
    with FakeHub() as started:
        yield started


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Start]:
    """Start agents that are killed after the test."""
    started: list[subprocess.Popen[str]] = []

    def agent(*arguments: str, env: Mapping[str, str]) -> subprocess.Popen[str]:
        state = ("--state", str(tmp_path / "state"))
        started.append(
            subprocess.Popen(
                [sys.executable, "-m", "fleet_smi", "agent", *state, *arguments],
                env=dict(env),
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                text=True,
            )
        )
        return started[-1]

    yield agent
    for process in started:
        process.kill()
        process.communicate()


def decode_line(line: str | bytes) -> Snapshot:
    data = line.encode() if isinstance(line, str) else line
    (snapshot,) = decode_report(data, json=True).snapshots
    return snapshot


def next_report(agent: "subprocess.Popen[str]") -> Snapshot:
    assert agent.stdout is not None
    return decode_line(agent.stdout.readline())


def test_once_prints_one_report_as_one_line(simulated: Simulated) -> None:
    done = run_fleet_smi("agent", "--stdout", "--once", env=simulated(TWO))
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.count("\n") == 1
    assert len(decode_line(done.stdout).gpus) == 2


def test_once_leaves_one_file_in_the_folder(simulated: Simulated, tmp_path: Path) -> None:
    folder = tmp_path / "drop"
    folder.mkdir()
    flags = ("--drop", str(folder), "--drop-mode", "0600", "--once", "--jitter", "0.01")
    done = run_fleet_smi("agent", *flags, env=simulated(TWO))
    assert done.returncode == 0, done.stderr
    (written,) = folder.iterdir()
    assert written.suffix == ".fsmi"
    assert written.stat().st_mode & 0o777 == 0o600
    assert len(decode_report(written.read_bytes()).snapshots[0].gpus) == 2


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        ((), "no destination"),
        (("--to", "ftp://hub"), "is not a URL"),
        (("--serve", "0.0.0.0:0"), "--serve-token-file"),
        (("--serve", "7071", "--once"), "--once"),
        (("--drop", ".", "--drop-mode", "0777"), "--drop-mode"),
        (("--stdout", "--interval", "0"), "interval"),
        (("--stdout", "--jitter", "5"), "--once"),
    ],
)
def test_invalid_flags_are_refused_in_one_line(
    simulated: Simulated, flags: tuple[str, ...], message: str
) -> None:
    assert_error_line(run_fleet_smi("agent", *flags, env=simulated(TWO)), 2, message)


def test_an_outlet_given_by_flag_replaces_those_of_the_settings(
    simulated: Simulated, sink: FakeHub
) -> None:
    env = simulated(TWO) | {"FLEET_SMI_AGENT_TO": sink.url}
    assert run_fleet_smi("agent", "--stdout", "--once", env=env).returncode == 0
    assert sink.received == []


def test_without_flags_the_outlets_of_the_settings_are_used(
    simulated: Simulated, sink: FakeHub, tmp_path: Path
) -> None:
    settings = {"FLEET_SMI_AGENT_TO": sink.url, "FLEET_SMI_AGENT_STATE": str(tmp_path)}
    done = run_fleet_smi("agent", "--once", env=simulated(TWO) | settings)
    assert done.returncode == 0, done.stderr
    assert [each.sequence for each in sink.received] == [1]


def test_serve_accepts_only_the_host_names_in_the_settings(
    simulated: Simulated, start: Start
) -> None:
    port = free_port()
    env = {**simulated(TWO), "FLEET_SMI_AGENT_HOSTS": "gpu-alias.example.org"}
    start("--serve", str(port), env=env)

    def status(host: str) -> int:
        connection = HTTPConnection("127.0.0.1", port, timeout=60)
        try:
            connection.request("GET", "/healthz", headers={"Host": host})
            return connection.getresponse().status
        except ConnectionRefusedError:
            return 0
        finally:
            connection.close()

    wait_until(lambda: status("gpu-alias.example.org") == 200)
    assert status("another.example.org") == 421


def test_once_fails_in_one_line_if_the_hub_is_unreachable(
    simulated: Simulated, sink: FakeHub, tmp_path: Path
) -> None:
    sink.kill()
    flags = ("--to", sink.url, "--once", "--state", str(tmp_path))
    assert_error_line(run_fleet_smi("agent", *flags, env=simulated(TWO)), 3, "connection refused")


def test_command_lines_are_sent_only_as_the_setting_allows(
    simulated: Simulated, people: UserProcesses
) -> None:
    pid = people.start("sleep", "599")
    env = simulated(Scenario(gpus=[SimGpu(processes=[SimProcess(pid=pid, memory=1 << 30)])]))
    for setting, command in (("full", "sleep 599"), ("name", None)):
        set_so = env | {"FLEET_SMI_NODE_COMMANDS": setting}
        done = run_fleet_smi("agent", "--stdout", "--once", env=set_so)
        (process,) = decode_line(done.stdout).gpus[0].processes or ()
        assert (process.name, process.command) == ("sleep", command)


def test_reports_of_one_run_are_numbered_from_1(simulated: Simulated, start: Start) -> None:
    agent = start("--stdout", "--interval", "0.1", env=simulated(TWO))
    reports = [next_report(agent) for _ in range(5)]
    assert [each.sequence for each in reports] == [1, 2, 3, 4, 5]
    assert len({each.run_id for each in reports}) == 1
    assert reports[0].run_id


def test_no_sample_is_lost_during_a_hub_outage(
    simulated: Simulated, start: Start, sink: FakeHub
) -> None:
    agent = start("--to", sink.url, "--interval", "0.1", env=simulated(TWO))
    wait_until(lambda: len(sink.sequences()) >= 3)
    sink.stores_reports = False
    wait_until(lambda: len(sink.sequences()) >= 6)
    sink.kill()
    lost = max(sink.sequences())
    end_of_outage = time.monotonic() + 1.5
    wait_until(lambda: time.monotonic() > end_of_outage)
    sink.stores_reports = True
    sink.start()
    wait_until(lambda: max(sink.sequences(), default=0) > lost + 20)
    agent.terminate()
    agent.wait(60)
    assert sink.sequences() == set(range(1, max(sink.sequences()) + 1))
    assert agent.stderr is not None
    assert agent.stderr.read().count("fault=Unreachable") <= 2


def test_unsent_samples_of_a_killed_agent_are_sent_by_the_next(
    simulated: Simulated, start: Start, sink: FakeHub, tmp_path: Path
) -> None:
    sink.kill()
    first = start("--to", sink.url, "--interval", "0.1", env=simulated(TWO))
    spool = tmp_path / "state" / "spool"
    wait_until(lambda: spool.exists() and any(path.stat().st_size for path in spool.iterdir()))
    first.kill()
    first.wait()
    sink.start()
    start("--to", sink.url, "--interval", "0.1", env=simulated(TWO))
    wait_until(lambda: len({each.run_id for each in sink.received}) == 2)
    assert (
        min(each.sequence for each in sink.received if each.run_id == sink.received[0].run_id) == 1
    )


def test_reports_go_on_and_name_the_fault_while_the_driver_hangs(
    simulated: Simulated, start: Start
) -> None:
    env = simulated(TWO) | {"FLEET_SMI_NODE_DRIVER_TIMEOUT": "8s"}
    agent = start("--stdout", "--interval", "0.2", env=env)
    assert [gpu.fault for gpu in next_report(agent).gpus] == [None, None]
    simulated(HUNG)
    for detail in ("driver slow: ", "driver not answering"):
        while not all(
            gpu.fault is not None and gpu.fault.detail.startswith(detail)
            for gpu in next_report(agent).gpus
        ):
            pass
    # It is slow to answer, but answers: the reader that has waited goes on.
    simulated(TWO)
    while any(gpu.fault for gpu in next_report(agent).gpus):
        pass


@pytest.mark.parametrize("ending", [signal.SIGTERM, signal.SIGINT])
def test_it_stops_while_the_driver_hangs(
    simulated: Simulated, start: Start, ending: signal.Signals
) -> None:
    agent = start("--stdout", env=simulated(HUNG))
    wait_until(lambda: is_handling(agent.pid, signal.SIGTERM))
    agent.send_signal(ending)
    assert agent.wait(60) == 0


def test_the_reader_process_ends_with_the_agent_after_a_hang(
    simulated: Simulated, start: Start
) -> None:
    agent = start("--stdout", "--interval", "0.2", env=simulated(HUNG))
    next_report(agent)
    wait_until(lambda: bool(children_of(agent.pid)))  # a reader process has taken over
    (reader,) = children_of(agent.pid)
    agent.terminate()
    assert agent.wait(60) == 0
    wait_until(lambda: not Path(f"/proc/{reader}").exists())


def test_it_stops_while_the_hub_hangs_and_saves_unsent_samples(
    simulated: Simulated, start: Start, sink: FakeHub
) -> None:
    sink.hanging.set()
    env = simulated(TWO)
    agent = start("--to", sink.url, "--interval", "0.1", env=env)
    wait_until(lambda: len(threads_of(agent.pid)) > 2)  # its own, the reader and the sender
    agent.terminate()
    assert agent.wait(60) == 0
    sink.hanging.clear()
    start("--to", sink.url, env=env)
    wait_until(lambda: len({each.run_id for each in sink.received}) == 2)


def test_a_second_agent_with_the_same_state_is_refused(
    simulated: Simulated, start: Start, sink: FakeHub, tmp_path: Path
) -> None:
    env = simulated(TWO)
    start("--to", sink.url, env=env)
    wait_until(lambda: bool(sink.received))
    flags = ("--to", sink.url, "--state", str(tmp_path / "state"))
    assert_error_line(run_fleet_smi("agent", *flags, env=env), 2, "another agent")


def children_of(pid: int) -> list[int]:
    return [int(word) for word in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


def threads_of(pid: int) -> list[Path]:
    return list(Path(f"/proc/{pid}/task").iterdir())


def is_handling(pid: int, number: signal.Signals) -> bool:
    """Whether the process has installed a handler for that signal."""
    status = Path(f"/proc/{pid}/status").read_text()
    caught = int(status.partition("SigCgt:")[2].split()[0], 16)
    return bool(caught >> (number - 1) & 1)


def test_its_state_folder_must_be_private(
    tmp_path: Path, simulated: Simulated, sink: FakeHub
) -> None:
    state = tmp_path / "above" / "state"
    flags = ("--to", sink.url, "--once", "--state", str(state))
    assert run_fleet_smi("agent", *flags, env=simulated(TWO)).returncode == 0
    assert state.stat().st_mode & 0o777 == 0o700
    state.chmod(0o777)
    assert_error_line(run_fleet_smi("agent", *flags, env=simulated(TWO)), 2, f"chmod go-w {state}")
