"""200 takers of 8 GPUs, and one that kills some of them all the time.

Run it for a minute: `python -m tests.node.leases.stress 200 8 60`.
"""

import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import NamedTuple

from fleet_smi.node.bindings.lease_files import list_files, open_folder
from fleet_smi.node.bindings.lease_lockers import read_locks


class StressResult(NamedTuple):
    """What happened: two holders of one GPU, takes, kills, and locks that were left."""

    collisions: list[str]
    takes: int
    kills: int
    locks_left: int


def run_stress(folder: Path, takers: int, gpus: int, seconds: float) -> StressResult:
    """Run takers, kill one at random again and again, start another, and count."""
    leases, marks = folder / "leases", folder / "marks"
    marks.mkdir()
    for each in (folder, marks):
        each.chmod(0o777)
    os.close(open_folder(str(leases)))  # of this user: root, where the takers are others
    command = [sys.executable, "-m", "tests.node.leases.taker", str(leases), str(marks), str(gpus)]
    deadline, kills = time.monotonic() + seconds, 0
    output = folder / "output"

    def start() -> subprocess.Popen[str]:
        left = str(max(0.0, deadline - time.monotonic()))
        with output.open("a") as file:
            return subprocess.Popen([*command, left], stdout=file, stderr=file, text=True)

    running = [start() for _ in range(takers)]
    while time.monotonic() < deadline:
        position = random.randrange(takers)
        victim = running[position]
        victim.send_signal(signal.SIGKILL)
        # Reaped before the next: a zombie must not look like a holder that is alive.
        victim.wait()
        kills += 1
        running[position] = start()
        time.sleep(0.05)
    for process in running:
        process.wait()
    takes = sum(len(file.read_text().splitlines()) for file in marks.glob("takes.*"))
    opened = open_folder(str(leases))
    locks = read_locks()
    left = sum(file.inode in locks for file in list_files(opened))
    os.close(opened)
    return StressResult(output.read_text().splitlines(), takes, kills, left)


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as name:
        print(run_stress(Path(name), int(sys.argv[1]), int(sys.argv[2]), float(sys.argv[3])))
