"""`fleet-smi --format '{free}/{total}'`: numbers for prompts, of every kind of fleet."""

import os
import subprocess
import sys
import time
from contextlib import closing
from pathlib import Path

import pytest

from fleet_smi.cli.status_line import FIELDS, parse_line
from fleet_smi.client.hub import HubClient
from fleet_smi.errors import UsageError
from fleet_smi.model.queue.entries import QueueRequest
from fleet_smi.wire.report import encode_report, encode_snapshot
from tests.builders import gpu, process
from tests.cli.program import assert_error_line, run_fleet_smi
from tests.ports import free_port
from tests.server.routes.snapshots import snapshot_now
from tests.server.threaded_hub import ThreadedHub

ALL = "|".join(f"{{{name}}}" for name in FIELDS)


def test_this_machine_in_one_line(env: dict[str, str]) -> None:
    done = run_fleet_smi(
        "--format", "{free}/{total} {{{broken:>3}}} {mine:<3}{first_free}", env=env
    )
    assert (done.stdout, done.stderr) == ("1/3 {  1} 1  0\n", "")
    # What the filter selects is counted, not the whole machine.
    done = run_fleet_smi("--format", "{free}/{total} {place}", "--filter=-broken", env=env)
    assert done.stdout == "1/2 -\n"
    done = run_fleet_smi("--format", ALL, "--here", env=env)
    assert done.stdout == "3|1|0|1|0|0|1|0|0|1|0|1|0|0|-\n"
    unknown = run_fleet_smi("--format", "{free.__class__}", env=env)
    assert_error_line(unknown, 2, "unknown field {free.__class__}: there are total, free, leased")
    assert_error_line(run_fleet_smi("--format", "gpu", env=env), 2, "give gpustat, or a text")


@pytest.mark.parametrize(
    "template",
    ["{free", "free}", "{}", "{0}", "{free!r}", "{free:{total}}", "{free:999}", "{free:d}"],
)
def test_a_template_has_names_and_widths_only(template: str) -> None:
    with pytest.raises(UsageError, match="--format: "):
        parse_line(template)


def test_a_hub_and_a_folder_in_one_line(tmp_path: Path) -> None:
    env = os.environ | {"HOME": str(tmp_path)}
    busy = gpu(1, processes=(process(),), memory_used_bytes=60 << 30, busy_percent=90.0)
    machine = snapshot_now("gpu03", gpu(0), busy)
    folder = tmp_path / "status"
    folder.mkdir()
    (folder / "gpu03.fsmi").write_bytes(encode_report([encode_snapshot(machine)], time.time()))
    done = run_fleet_smi("--format", "{free}/{total} {nodes}", "--dir", str(folder), env=env)
    assert done.stdout == "1/2 1\n", done.stderr
    with ThreadedHub(tmp_path / "hub") as hub:
        hub.join_and_report(machine)
        token = hub.token("viewer", person="alice")
        with closing(HubClient(hub.url, token=token)) as client:
            client.join_queue(QueueRequest(count=2, keep_seconds=600.0))
        env["FLEET_SMI_CLIENT_TOKEN"] = token
        hub.wait_until_published()
        done = run_fleet_smi("--format", ALL, "--hub", hub.url, env=env)
        # Whose token it is, not who runs the command, says which GPUs are "mine".
        assert done.stdout == "2|1|0|1|0|0|0|0|0|1|0|1|0|gpu03:0|1\n", done.stderr
        done = run_fleet_smi("--format", "{free}", "--hub", hub.url, "-n", "^x", env=env)
        assert done.stdout == "0\n"
    # A prompt does not hang, and does not say 0 of what it does not know.
    away = f"http://127.0.0.1:{free_port()}"
    done = run_fleet_smi("--format", "{free}/{total:3}", "--hub", away, env=env)
    assert (done.returncode, done.stdout) == (3, "-/  -\n")
    assert done.stderr.count("\n") == 1
    # A bar that keeps the command running waits for the hub to come back.
    command = [sys.executable, "-m", "fleet_smi", "--format", "{free}", "--hub", away, "-i", "0.1"]
    with subprocess.Popen(command, env=env, stdout=subprocess.PIPE, text=True) as bar:
        assert bar.stdout is not None
        assert [bar.stdout.readline() for _ in range(2)] == ["-\n", "-\n"]
        bar.terminate()
    done = run_fleet_smi("--format", "{free}", "--dir", str(tmp_path / "none"), env=env)
    assert (done.returncode, done.stdout) == (3, "-\n")
