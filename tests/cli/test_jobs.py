"""`fleet-smi run --detach` and `fleet-smi jobs`: jobs that outlive the session."""

import fcntl
import json
import os
import subprocess
from pathlib import Path
from typing import Any

import pytest

from sim.scenario import Scenario, SimGpu
from tests.cli.program import assert_error_line, run_fleet_smi
from tests.machines import wait_until
from tests.node.leases.held import held_uuids
from tests.sim.fixtures import Simulated


@pytest.fixture
def env(simulated: Simulated, tmp_path: Path) -> dict[str, str]:
    return simulated(Scenario(gpus=[SimGpu()])) | {
        "FLEET_SMI_NODE_LEASE_DIR": str(tmp_path / "leases"),
        "XDG_STATE_HOME": str(tmp_path / "state"),
    }


def start(env: dict[str, str], script: str, *flags: str) -> Path:
    """Start a detached job; return its log file."""
    done = run_fleet_smi("run", "--detach", *flags, "--", "sh", "-c", script, env=env)
    assert done.returncode == 0, done.stderr
    return Path(done.stdout.partition(": ")[2].strip())


def jobs(env: dict[str, str]) -> list[dict[str, Any]]:
    listed: list[dict[str, Any]] = json.loads(run_fleet_smi("jobs", "--json", env=env).stdout)[
        "jobs"
    ]
    return listed


def test_a_detached_job_writes_a_log_and_its_exit_code(env: dict[str, str]) -> None:
    log = start(env, "echo on $CUDA_VISIBLE_DEVICES; exit 4", "--note", "night")
    attached = run_fleet_smi("jobs", "attach", "1", env=env)
    assert (attached.returncode, attached.stdout) == (4, "on 0\n")
    assert log.read_text() == "on 0\n"
    assert log.stat().st_mode & 0o77 == 0
    (job,) = jobs(env)
    assert (job["state"], job["exit_code"], job["gpus"], job["note"]) == ("ended", 4, [0], "night")
    assert "ended 4" in run_fleet_smi("jobs", env=env).stdout


def test_jobs_wait_their_turn_and_can_be_cancelled(env: dict[str, str], tmp_path: Path) -> None:
    start(env, "trap 'exit 9' TERM; echo up; while :; do sleep 0.05; done")
    wait_until(lambda: jobs(env)[0]["state"] == "running")
    start(env, "echo second")
    assert [job["state"] for job in jobs(env)] == ["waiting", "running"]
    wait_until(lambda: Path(jobs(env)[1]["log"]).read_text() == "up\n")
    assert run_fleet_smi("jobs", "cancel", "1", env=env).returncode == 0
    assert run_fleet_smi("jobs", "attach", "1", env=env).returncode == 9
    second = run_fleet_smi("jobs", "attach", "2", env=env)
    assert second.returncode == 0 and second.stdout.endswith("second\n")
    assert held_uuids(tmp_path / "leases") == []


def test_a_killed_job_is_not_called_running(env: dict[str, str], tmp_path: Path) -> None:
    start(env, "exec sleep 60")
    wait_until(lambda: jobs(env)[0]["state"] == "running")
    assert run_fleet_smi("jobs", "cancel", "1", "--kill", env=env).returncode == 0
    wait_until(lambda: jobs(env)[0]["state"] == "killed")
    assert held_uuids(tmp_path / "leases") == []
    done = run_fleet_smi("jobs", "cancel", "1", env=env)
    assert_error_line(done, 1, "has ended already")


def test_a_job_has_a_session_of_its_own_and_ends_by_a_named_signal(env: dict[str, str]) -> None:
    start(env, "exec sleep 60")
    wait_until(lambda: jobs(env)[0]["state"] == "running")
    pid = jobs(env)[0]["pid"]
    assert os.getsid(pid) == pid
    assert Path(f"/proc/{pid}/fd/0").readlink() == Path(os.devnull)
    assert run_fleet_smi("jobs", "cancel", "1", env=env).returncode == 0
    wait_until(lambda: "ended SIGTERM" in run_fleet_smi("jobs", env=env).stdout)


@pytest.mark.parametrize(
    ("arguments", "code", "text"),
    [
        (["jobs", "attach", "7"], 2, "no job 7 of yours here"),
        (["run", "--detach", "-n", "0", "--", "true"], 2, "must be 1 to"),
    ],
)
def test_a_mistake_is_one_line(
    env: dict[str, str], arguments: list[str], code: int, text: str
) -> None:
    assert_error_line(run_fleet_smi(*arguments, env=env), code, text)
    assert "no detached jobs" in run_fleet_smi("jobs", env=env).stdout


def test_a_job_of_another_machine_with_the_same_home_is_not_listed_and_nothing_is_killed_for_it(
    env: dict[str, str],
) -> None:
    log = start(env, "sleep 600")
    wait_until(lambda: jobs(env)[0]["state"] == "running")
    (mine,) = jobs(env)
    other = log.parent.parent / "another-machine"
    other.mkdir(mode=0o700)
    (other / "7.json").write_bytes(log.with_suffix(".json").read_bytes())
    assert [job["number"] for job in jobs(env)] == [mine["number"]]
    # One that has the same name, or a container: the pid is that of another process here.
    record = log.with_name("8.json")
    bystander = subprocess.Popen(["sleep", "600"], start_new_session=True)
    record.write_text(json.dumps({**mine, "number": 8, "pid": bystander.pid}))
    with record.open() as held, bystander:
        fcntl.flock(held, fcntl.LOCK_EX)
        for flags in ((), ("--kill",)):
            refused = run_fleet_smi("jobs", "cancel", "8", *flags, env=env)
            assert_error_line(refused, 1, "runs elsewhere")
        assert bystander.poll() is None
        bystander.kill()
    assert run_fleet_smi("jobs", "cancel", "1", "--kill", env=env).returncode == 0


def test_what_a_job_writes_is_its_users_alone_whatever_the_umask_is(env: dict[str, str]) -> None:
    before = os.umask(0)
    try:
        log = start(env, "echo secret")
    finally:
        os.umask(before)
    wait_until(lambda: jobs(env)[0]["state"] == "ended")
    for path, allowed in ((log, 0o600), (log.with_suffix(".json"), 0o600), (log.parent, 0o700)):
        assert path.stat().st_mode & 0o777 == allowed, path
    for above in (log.parents[1], log.parents[2]):
        assert not above.stat().st_mode & 0o022, above
