"""A process that takes and releases leases of random GPUs until it is ended; for stress tests.

While it holds a GPU it owns a file that only one process can create: a second holder finds it.
"""

import os
import random
import sys
import time
from pathlib import Path

from fleet_smi.node.bindings import lease_files, lease_locks

_PF_EXITING = 0x4
_FIRST_UID, _USERS = 20_000, 3


def _is_alive(pid: str) -> bool:
    """Whether a process can still do something: one that is ending has lost its locks."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return False
    return fields[0] not in "ZX" and not int(fields[6]) & _PF_EXITING


def main(folder_path: str, marks: Path, gpus: int, seconds: float) -> None:
    """Take, mark, hold for a moment, release; append every take to the log of this process."""
    if os.geteuid() == 0:
        # Several users: each has files of their own, and locks those of all.
        os.setuid(_FIRST_UID + os.getpid() % _USERS)
    folder = lease_files.open_folder(folder_path)
    chance = random.Random(os.getpid())
    deadline = time.monotonic() + seconds
    with (marks / f"takes.{os.getpid()}").open("w", buffering=1) as log:
        while time.monotonic() < deadline:
            number = chance.randrange(gpus)
            lock = lease_locks.try_take(folder, f"GPU-{number}", {"command": "taker"})
            if lock is None:
                time.sleep(chance.uniform(0.002, 0.02))
                continue
            # Who was killed leaves its mark; its pid tells that it is gone.
            mark = marks / f"holder.{number}"
            other = mark.read_text() if mark.exists() else ""
            if other and _is_alive(other):
                print(f"GPU {number}: held by {other} and {os.getpid()}", flush=True)
            # Another user may have left the mark that it replaces.
            mark.unlink(missing_ok=True)
            mark.write_text(str(os.getpid()))
            log.write(f"{number}\n")
            time.sleep(chance.uniform(0.0, 0.005))
            mark.unlink(missing_ok=True)
            lock.release()


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]), int(sys.argv[3]), float(sys.argv[4]))
