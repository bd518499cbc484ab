"""Simulated machines, real processes of several users, and preconditions of tests."""

import os
import pwd
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Self

import pytest
from msgspec.structs import replace

from fleet_smi.fleet.fleet import FleetState
from fleet_smi.model.fleet import FleetView, JudgedGpu, Verdict
from fleet_smi.model.snapshot import Snapshot
from fleet_smi.node.collectors import QUICK_SUBJECTS
from fleet_smi.node.reader import Deadlines, Reader
from fleet_smi.node.reader_process import spawn_worker
from fleet_smi.node.sampler import Sampler
from sim.scenario import Scenario, SimGpu, scenario_env

USERS = ("daemon", "games", "nobody")
"""Users that exist on every Debian and on most other systems."""
MISSING_FOLDER = "/proc/nonexistent"
"""A folder that not even root can create: as a home, fish would create `/nonexistent`."""


def wait_until(condition: Callable[[], bool], seconds: float = 60.0) -> None:
    """Poll a condition until it is true, less often the longer it takes; fail after `seconds`."""
    deadline, pause = time.monotonic() + seconds, 0.005
    while not condition():
        assert time.monotonic() < deadline, "it did not come true in time"
        time.sleep(pause)
        pause = min(1.5 * pause, 0.05)


def require_root(purpose: str = "start processes of other users") -> None:
    """Skip the test unless it runs as root; in CI, fail instead."""
    if os.geteuid() != 0:
        assert not os.environ.get("CI"), "CI must run as root: this test would be skipped"
        pytest.skip(f"only root can {purpose}")


def require_program(name: str) -> None:
    """Skip the test unless the program is installed; in CI, fail instead."""
    if shutil.which(name) is None:
        assert not os.environ.get("CI"), f"{name} is missing: this test would be skipped"
        pytest.skip(f"{name} is not installed")


@contextmanager
def small_disk(folder: Path, mebibytes: int) -> Iterator[Path]:
    """Mount a tmpfs of this size at `folder`, so that a test can fill it."""
    require_root("mount a file system")
    folder.mkdir(mode=0o700)
    size = f"size={mebibytes}m,mode=700"
    mount = ["mount", "-t", "tmpfs", "-o", size, "tmpfs", str(folder)]
    if subprocess.run(mount, capture_output=True, check=False).returncode:
        assert not os.environ.get("CI"), "CI must be able to mount: this would be skipped"
        pytest.skip("file systems cannot be mounted here")
    try:
        yield folder
    finally:
        # Lazily: a file that is still open would keep the folder busy.
        subprocess.run(["umount", "--lazy", str(folder)], check=True)


class UserProcesses:
    """Real processes, of the user who runs the tests or of other users."""

    def __init__(self) -> None:
        self._started: list[subprocess.Popen[bytes]] = []

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        for process in self._started:
            process.kill()
            process.wait()

    def start(self, *command: str | bytes, user: str | None = None) -> int:
        """Start a process that runs until the test ends; return its pid."""
        if user is not None:
            require_root()
        process = subprocess.Popen(
            command or ("sleep", "600"),
            user=pwd.getpwnam(user).pw_uid if user else None,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
        )
        self._started.append(process)
        # The kernel sets the arguments after it has closed the pipe that Popen waits for.
        arguments = Path(f"/proc/{process.pid}/cmdline")
        wait_until(lambda: process.poll() is not None or arguments.read_bytes() != b"")
        return process.pid

    def start_named(self, name: str, folder: Path, *arguments: str) -> int:
        """Start a process whose executable is called `name`; return its pid."""
        program = folder / name
        sleep = shutil.which("sleep")
        assert sleep is not None
        shutil.copy(sleep, program)
        return self.start(str(program), *(arguments or ("600",)))

    def start_zombie(self) -> int:
        """Start a process that exits and is never reaped by its parent; return its pid."""
        program = (
            "import os, signal; pid = os.fork()\nif pid: print(pid, flush=True); signal.pause()"
        )
        parent = subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE)
        self._started.append(parent)
        assert parent.stdout is not None
        with parent.stdout:
            pid = int(parent.stdout.readline())
        wait_until(lambda: process_state(pid) == "Z")
        return pid

    def stop(self, pid: int) -> None:
        """Kill one of the processes."""
        process = next(process for process in self._started if process.pid == pid)
        process.send_signal(signal.SIGKILL)
        process.wait()


def process_state(pid: int) -> str:
    """Return the state letter of a process, as in `/proc/<pid>/stat`."""
    # A process name may contain spaces and parentheses: the last ") " ends it.
    return Path(f"/proc/{pid}/stat").read_text().rpartition(") ")[2][0]


class SimulatedMachine:
    """A machine with a simulated driver; tests change its scenario and choose the time."""

    def __init__(self, lib_dir: Path, folder: Path) -> None:
        self._path = folder / "scenario"
        self.root = folder / "root"
        self.environment = scenario_env(lib_dir, self._path)
        self.start = time.time()
        self.deadlines = Deadlines()
        self._sampler: Sampler | None = None
        self._fleet = FleetState()

    def set_scenario(self, scenario: Scenario | SimGpu) -> None:
        """Change what the simulated driver reports."""
        if isinstance(scenario, SimGpu):
            scenario = Scenario(gpus=[scenario])
        scenario.write(self._path)

    def snapshot(self) -> Snapshot:
        """Read the machine as an agent does."""
        if self._sampler is None:
            root = str(self.root) if self.root.exists() else "/"
            reader = Reader(spawn_worker, self.deadlines)
            self._sampler = Sampler(reader, root=root, subjects=QUICK_SUBJECTS)
        return self._sampler.sample()

    def poll(self, at: float = 0.0, interval: float | None = None) -> FleetView:
        """Read the machine as if at `at` seconds after the start, and return the fleet."""
        now = self.start + at
        self._fleet.apply(replace(self.snapshot(), taken_at=now, interval_seconds=interval), now)
        return self._fleet.view(now)

    def view(self, at: float) -> FleetView:
        """Return the fleet `at` seconds after the start, without another reading."""
        return self._fleet.view(self.start + at)

    def gpu(self, at: float = 0.0) -> JudgedGpu:
        """Read the machine and return its first GPU, judged."""
        return self.poll(at).nodes[0].gpus[0]

    def verdict(self, at: float = 0.0) -> Verdict:
        """Read the machine and return the verdict on its first GPU."""
        return self.gpu(at).verdict

    def watch(self, seconds: float, step: float = 60.0) -> Verdict:
        """Read the machine every `step` seconds; return the verdict after `seconds`."""
        at = 0.0
        while at < seconds:
            self.poll(at)
            at += step
        return self.verdict(seconds)

    def close(self) -> None:
        """Stop the reader process."""
        if self._sampler is not None:
            self._sampler.close()
