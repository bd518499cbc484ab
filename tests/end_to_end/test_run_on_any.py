"""Jobs of several people through `run --on any`: all run, and no GPU has two at a time."""

import os
import subprocess
import sys
from collections import defaultdict
from contextlib import closing
from pathlib import Path

import msgspec

from fleet_smi.client.connection import HubConnection
from fleet_smi.hub.state_folder import read_local_admin_token
from tests.end_to_end.programs import Lab, LoopbackHub, LoopbackMachine
from tests.machines import wait_until
from tests.sshd import SshNetwork

JOB = """\
import os, time
began = time.time()
time.sleep(0.5)
device = os.environ["NODE"] + ":" + os.environ["CUDA_VISIBLE_DEVICES"]
open({log!r}, "a").write(f"{{device}} {{began}} {{time.time()}}\\n")
"""


def start_node(lab: Lab, hub: LoopbackHub, network: SshNetwork, name: str) -> None:
    """Start a node with two GPUs, its agent and its sshd."""
    node = LoopbackMachine(lab, name)
    node.env["FLEET_SMI_NODE_LEASE_DIR"] = str(lab.folder / f"{name}.leases")
    kept = ("LD_LIBRARY_PATH", "FLEET_SMI_SIM", "FLEET_SMI_NODE_LEASE_DIR")
    env = {key: node.env[key] for key in kept} | {
        "PATH": f"{Path(sys.executable).parent}:/usr/bin:/bin",
        "NODE": name,
    }
    # It is reached by the address that it reports, which is that of this machine.
    network.add_host("*", network.start_server(env=env))
    node.start_agent(*hub.join_flags())


def personal_token(hub: LoopbackHub, person: str) -> str:
    """Return a new token, which the hub accepts at once."""
    admin = read_local_admin_token(hub.state)
    with closing(HubConnection(hub.url, token=admin)) as connection:
        body = msgspec.json.encode({"role": "viewer", "person": person})
        response = connection.request(
            "POST", "/api/v1/tokens", body, {"Content-Type": "application/json"}
        )
    token: str = msgspec.json.decode(response.body)["token"]
    return token


def test_jobs_of_several_people_run_without_a_collision(lab: Lab, ssh_network: SshNetwork) -> None:
    hub = LoopbackHub(lab)
    start_node(lab, hub, ssh_network, "gpu-a")
    wait_until(lambda: hub.reporting() == {"gpu-a"})
    log = lab.folder / "jobs"
    log.touch()
    tokens = [personal_token(hub, person) for person in ("alice", "bob")]
    jobs = []
    for number in range(6):
        env = {
            "HOME": str(lab.folder),
            "PATH": os.environ["PATH"],
            "FLEET_SMI_CLIENT_HUB": hub.url,
            "FLEET_SMI_CLIENT_TOKEN": tokens[number % 2],
            "FLEET_SMI_HUB_STATE": str(lab.folder / "none"),
            "FLEET_SMI_HUB_SSH_CONFIG": str(ssh_network.config),
            "FLEET_SMI_AGENT_SOCKET": "off",
        }
        command = ["run", "--on", "any", "--", "python3", "-c", JOB.format(log=str(log))]
        jobs.append(
            subprocess.Popen(
                [sys.executable, "-m", "fleet_smi", *command],
                env=env,
                stdin=subprocess.DEVNULL,
                stderr=subprocess.PIPE,
                text=True,
            )
        )
    for job in jobs:
        _, errors = job.communicate(timeout=100)
        assert job.returncode == 0, errors
    uses = defaultdict(list)
    for line in log.read_text().splitlines():
        device, begun, ended = line.split()
        uses[device].append((float(begun), float(ended)))
    assert sum(map(len, uses.values())) == 6
    for each in uses.values():
        times = sorted(each)
        assert all(times[at][1] <= times[at + 1][0] for at in range(len(times) - 1)), uses
