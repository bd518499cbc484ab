"""Users of a node act at the hub through its agent: the kernel says who they are."""

import json
import os
import pwd
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from fleet_smi.client.agent_socket import is_listening
from tests.end_to_end.programs import Lab, LoopbackHub, LoopbackMachine
from tests.machines import require_root, wait_until

# Python itself may be in a folder that only root can enter: all is imported as root.
ASK = """\
import os, sys
import msgspec
from fleet_smi.acting import acting_client

acting_client().session()
if len(sys.argv) > 1:
    os.setuid(int(sys.argv[1]))
print(msgspec.json.encode(acting_client().session()).decode())
"""


@pytest.fixture
def folder() -> Iterator[Path]:
    made = Path(tempfile.mkdtemp(prefix="fsmi-", dir="/tmp"))
    made.chmod(0o755)
    yield made
    shutil.rmtree(made)


def ask(socket: Path, *uid: int) -> dict[str, str]:
    """What the hub answers a user who asks through the agent."""
    env = {
        "PATH": os.environ["PATH"],
        "HOME": "/nonexistent",
        "PYTHONPATH": os.pathsep.join(sys.path),
        "FLEET_SMI_AGENT_SOCKET": str(socket),
    }
    done = subprocess.run(
        [sys.executable, "-c", ASK, *map(str, uid)],
        env=env,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    answer: dict[str, str] = json.loads(done.stdout)
    return answer


def answers(socket: Path) -> bool:
    try:
        return bool(ask(socket))
    except AssertionError:
        return False


def test_users_of_a_node_are_known_at_the_hub_by_what_the_kernel_says(
    lab: Lab, folder: Path
) -> None:
    require_root("become another user")
    hub, node, socket = LoopbackHub(lab), LoopbackMachine(lab, "node"), folder / "agent.sock"
    node.env["FLEET_SMI_AGENT_SOCKET"] = str(socket)
    agent = node.start_agent(*hub.join_flags())
    wait_until(lambda: "node" in hub.reporting() and is_listening(str(socket)))
    assert ask(socket) == {"name": "root", "role": "viewer", "how": "agent", "person": "root"}
    assert ask(socket, pwd.getpwnam("daemon").pw_uid)["person"] == "daemon"
    # A user without a name, as in a container, is known by the number.
    assert ask(socket, 54321)["person"] == "54321"

    # The hub comes back: the same agent goes on, with the credential that it has.
    hub.program.kill()
    hub.start()
    wait_until(lambda: answers(socket))

    # The agent comes back: the socket that the killed one left is replaced.
    agent.kill()
    assert socket.exists()
    again = node.start_agent("--to", hub.url)
    wait_until(lambda: answers(socket))
    assert ask(socket, 54321)["person"] == "54321"
    assert again.terminate()[0] == 0
    assert not socket.exists()
