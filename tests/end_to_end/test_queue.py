"""`fleet-smi run` and `wait` in the queue of a real hub, through the agent of a node."""

import os
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from fleet_smi.client.agent_socket import is_listening
from tests.cli.program import StartedPrograms, first_line, run_fleet_smi, run_json
from tests.end_to_end.programs import Lab, LoopbackHub, LoopbackMachine
from tests.machines import wait_until

HOLD = ("sh", "-c", "echo got $CUDA_VISIBLE_DEVICES; read line")


class Jobs:
    """Starts `fleet-smi run` on a node; each job runs until it is let go."""

    def __init__(self, env: dict[str, str]) -> None:
        self.env = env
        self._programs = StartedPrograms()
        self.close = self._programs.close

    def start(self, *flags: str, command: str = "run") -> subprocess.Popen[str]:
        arguments = [*flags, "--", *HOLD] if command == "run" else flags
        return self._programs.start("-m", "fleet_smi", command, *arguments, env=self.env)

    def start_program(self, program: str, env: dict[str, str]) -> subprocess.Popen[str]:
        return self._programs.start("-c", program, env=self.env | env)


def wait_until_said(process: subprocess.Popen[str], text: str) -> None:
    """Read what a job says until it says this; on a busy machine its node may be silent first."""
    assert process.stderr is not None
    assert any(text in said for said in process.stderr), text


@pytest.fixture
def jobs(lab: Lab, tmp_path: Path) -> Iterator[Jobs]:
    """A hub, and a node of two GPUs whose agent vouches for its users."""
    hub, node = LoopbackHub(lab), LoopbackMachine(lab, "node")
    socket = tmp_path / "agent.sock"
    node.env |= {
        "FLEET_SMI_AGENT_SOCKET": str(socket),
        "FLEET_SMI_NODE_LEASE_DIR": str(tmp_path / "leases"),
        "HOME": str(tmp_path),
        "XDG_STATE_HOME": str(tmp_path / "xdg"),
        "FLEET_SMI_HUB_STATE": str(tmp_path / "no-hub"),
    }
    node.start_agent(*hub.join_flags())
    wait_until(lambda: "node" in hub.reporting() and is_listening(str(socket)))
    made = Jobs(dict(node.env))
    made.hub = hub  # type: ignore[attr-defined]
    yield made
    run_fleet_smi("release", env=made.env)
    made.close()


def test_jobs_wait_in_the_queue_and_a_hub_that_is_away_stops_none(jobs: Jobs) -> None:
    env = jobs.env
    first, second = jobs.start(), jobs.start()
    assert sorted([first_line(first), first_line(second)]) == ["got 0", "got 1"]
    third = jobs.start("--note", "the third")
    wait_until_said(third, "place 1 in the queue of the hub; none free")
    fourth = jobs.start(command="wait")
    wait_until_said(fourth, "place 2 in the queue of the hub")
    listed = run_fleet_smi("queue", env=env)
    assert listed.returncode == 0, listed.stderr
    assert "behind an earlier request of the same person" in listed.stdout
    (row, other) = run_json("queue", env=env)["rows"]
    assert (row["own"], row["request"]["note"], other["place"]) == (True, "the third", 2)
    unmet = run_fleet_smi("free", "-n", "1", "--hub", jobs.hub.url, env=env)  # type: ignore[attr-defined]
    assert (unmet.returncode, unmet.stdout) == (1, "")

    # A hub that is killed and comes back still has them, and they have not noticed.
    jobs.hub.program.kill()  # type: ignore[attr-defined]
    jobs.hub.start()  # type: ignore[attr-defined]
    wait_until(lambda: len(run_json("queue", env=env)["rows"]) == 2)
    assert [each["id"] for each in run_json("queue", env=env)["rows"]] == [row["id"], other["id"]]

    # A job ends: the first of the queue gets its GPU, by the lock of the node.
    first.communicate("\n")
    assert first_line(third).startswith("got ")
    assert run_fleet_smi("queue", "cancel", other["id"], env=env).returncode == 0
    assert "the request was cancelled" in fourth.communicate()[1]
    assert fourth.returncode == 1
    wait_until(lambda: run_json("queue", env=env)["rows"] == [])
    second.communicate("\n")
    waited = run_fleet_smi("wait", "--then", "echo $FLEET_SMI_NODE $FLEET_SMI_GPUS", env=env)
    assert waited.stdout.startswith("node:")
    assert waited.stdout.splitlines()[1].split()[1] in ("0", "1")

    # A job that is over before the hub has seen it keeps nothing from others.
    assert run_fleet_smi("run", "--", "true", env=env).returncode == 0
    kinds = [each["request"].get("kind", "wait") for each in run_json("queue", env=env)["rows"]]
    assert "run" not in kinds

    # While the hub is away, a job waits on its machine alone.
    os.kill(jobs.hub.program.pid, signal.SIGKILL)  # type: ignore[attr-defined]
    last = jobs.start()
    wait_until_said(last, "waiting on this machine alone")
    assert first_line(last).startswith("got ")

    # Who waits there joins the queue of the hub when it is back, and takes its turn.
    patient = jobs.start("--note", "patient")
    wait_until_said(patient, "waiting on this machine alone")
    jobs.hub.start()  # type: ignore[attr-defined]
    wait_until_said(patient, "the hub is back: waiting in its queue again")
    wait_until(lambda: [row["place"] for row in run_json("queue", env=env)["rows"]] == [1])
    third.communicate("\n")
    assert first_line(patient).startswith("got ")


LEASE = """
import sys, fleet_smi
with fleet_smi.lease(1, timeout={timeout}) as gpus:
    print("got", gpus[0].index, flush=True)
    sys.stdin.readline()
"""


def test_a_job_leaves_what_others_have_booked_unless_it_is_told_to_ignore_that(jobs: Jobs) -> None:
    hub: LoopbackHub = jobs.hub  # type: ignore[attr-defined]
    # On the machine of the hub, its user is an administrator.
    book = ("reserve", "--node", "node", "-n", "1", "--for", "2h", "--user", "maria")
    done = run_fleet_smi(*book, "--hub", hub.url, env=hub.env)
    assert done.returncode == 0, done.stderr
    first = jobs.start()
    # A booking keeps the last free ones.
    assert first_line(first) == "got 0"
    # Every other way to take a lease here says so too; on a busy machine the node may be silent
    # for a moment, which is then said instead.
    hold, booked = ("free", "--hold", "5m"), "1 booked by maria"
    for command in (("run", "--nowait", "--", "true"), hold):
        wait_until(lambda: booked in run_fleet_smi(*command, env=jobs.env).stderr)  # noqa: B023
    program = LEASE.format(timeout=0)
    wait_until(lambda: booked in jobs.start_program(program, {}).communicate()[1])
    ignoring = jobs.start_program(LEASE.format(timeout="60, ignore_bookings=True"), {})
    assert first_line(ignoring) == "got 1"
    ignoring.communicate("\n")
    anyway = (*hold, "--ignore-bookings")
    wait_until(lambda: run_fleet_smi(*anyway, env=jobs.env).stdout == "1\n")
    assert run_fleet_smi("release", env=jobs.env).returncode == 0
    second = jobs.start("--ignore-bookings")
    assert first_line(second) == "got 1"
    listed = run_fleet_smi("reserve", "list", "--hub", hub.url, env=hub.env).stdout
    assert "maria" in listed

    # While the hub is away its bookings are not known, and nobody is stopped.
    first.communicate("\n")
    second.communicate("\n")
    hub.program.kill()
    held = run_fleet_smi(*hold, env=jobs.env)
    assert (held.returncode, held.stdout) == (0, "0\n"), held.stderr
    assert "waiting on this machine alone" in held.stderr
    leasing = jobs.start_program(program, {})
    assert first_line(leasing) == "got 1"
    assert "waiting on this machine alone" in leasing.communicate("\n")[1]


SHOW = ("/bin/sh", "-c", "echo $CUDA_VISIBLE_DEVICES; exit 7")


def test_what_no_node_could_ever_meet_is_refused_at_once(jobs: Jobs) -> None:
    hub: LoopbackHub = jobs.hub  # type: ignore[attr-defined]
    done = run_fleet_smi("wait", "-n", "3", env=jobs.env)
    assert (done.returncode, done.stdout) == (2, "")
    assert "no node of this fleet could ever meet 3 × any" in done.stderr
    viewer = hub.command("token", "add", "--role", "viewer").stdout.strip()
    looking = jobs.env | {"FLEET_SMI_CLIENT_HUB": hub.url, "FLEET_SMI_CLIENT_TOKEN": viewer}
    # The hub reads what another process has changed every second.
    wait_until(lambda: run_fleet_smi("free", env=looking).returncode == 0)
    for command, env in (
        (("wait", "--on", "gpu99"), jobs.env),
        (("run", "--on", "gpu99", "--", "true"), jobs.env),
        (("wait", "--on", "gpu99"), looking),
    ):
        unknown = run_fleet_smi(*command, env=env)
        assert unknown.returncode == 2
        assert unknown.stderr.endswith("no node is named gpu99: see `fleet-smi nodes`\n")


def test_on_this_machine_a_job_needs_no_ssh_and_one_that_is_ended_leaves_the_queue(
    jobs: Jobs,
) -> None:
    env = jobs.env | {"PATH": "/nonexistent"}  # where there is no ssh
    done = run_fleet_smi("run", "--on", "node", "-n", "2", "--", *SHOW, env=env)
    assert (done.returncode, done.stdout) == (7, "0,1\n"), done.stderr
    assert "on node, which is this machine" in done.stderr
    holder = jobs.start("-n", "2")
    assert first_line(holder) == "got 0,1"
    waiting = [
        (jobs.start("--on", "any"), signal.SIGTERM),
        (jobs.start(), signal.SIGTERM),
        (jobs.start(command="wait"), signal.SIGHUP),
    ]
    for process, _ in waiting:
        wait_until_said(process, "in the queue of the hub")
    assert len(run_json("queue", env=env)["rows"]) == 3
    for process, number in waiting:
        process.send_signal(number)
        process.communicate()
        assert process.returncode == -number
    assert run_json("queue", env=env)["rows"] == []
    holder.communicate("\n")


PROGRAM = """
import sys, fleet_smi
fleet = fleet_smi.Fleet({url!r})
with fleet.lease(1, note="notebook") as gpus:
    print("got", gpus[0].index, flush=True)
    sys.stdin.readline()
print("given back", len(fleet.view().nodes))
"""


def test_a_program_takes_its_turn_by_the_login_of_its_user(jobs: Jobs) -> None:
    hub: LoopbackHub = jobs.hub  # type: ignore[attr-defined]

    def start(**env: str) -> subprocess.Popen[str]:
        return jobs.start_program(PROGRAM.format(url=hub.url), env)

    # Without one, the hub does not know who asks.
    viewer = hub.command("token", "add", "--role", "viewer").stdout.strip()
    refused = start(FLEET_SMI_CLIENT_TOKEN=viewer)
    # The hub reads what another process has changed every second: perhaps it knows it not yet.
    errors = refused.communicate()[1]
    assert "fleet_smi.errors.NoPerson" in errors or "fleet_smi.errors.Refused" in errors
    token = hub.command("token", "add", "--role", "viewer", "--person", "alice").stdout.strip()
    file = Path(jobs.env["HOME"], "token")
    file.write_text(token)
    login = ("login", "--hub", hub.url, "--token-file", str(file))
    # The hub reads what another process has changed every second.
    wait_until(lambda: run_fleet_smi(*login, env=jobs.env).returncode == 0)
    first, second, third = start(), start(), start()
    taken = [first, second, third]

    found: list[Any] = []

    def is_waiting() -> bool:
        rows: list[Any] = run_json("queue", env=jobs.env)["rows"]
        # Kept from this response: why it waits may read otherwise a moment later.
        found[:] = [row for row in rows if row["place"] == 1 and row["why"].startswith("none free")]
        return len(found) == 1

    wait_until(is_waiting)
    assert (found[0]["person"], found[0]["request"]["note"]) == ("alice", "notebook")
    for process in taken:
        assert process.stdin is not None
        process.stdin.write("\n")
        process.stdin.flush()
    for process in taken:
        written, errors = process.communicate()
        assert (written.count("got"), written.count("given back 1")) == (1, 1), errors
