"""Wall time of whole commands, from start to exit."""

import ctypes
import os
import resource
import subprocess
import time
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from bench.peers import OURS, PEERS, NotAvailable, PeerTool, install, last_error
from bench.report import MeasurementSeries, Pair

_HANGS_SECONDS = 60.0
_PR_SET_CHILD_SUBREAPER = 36
_SLOW = 5  # slow programs, far from any budget: run in every fifth round only


@dataclass(frozen=True, kw_only=True)
class BenchCommand:
    """A command line of an installed program, run in every round or every Nth."""

    peer: PeerTool
    argv: tuple[str, ...]
    every: int = 1

    @property
    def label(self) -> str:
        return " ".join(self.argv)


def _command(peer: str, line: str, every: int = 1) -> BenchCommand:
    return BenchCommand(peer=PEERS[peer], argv=tuple(line.split()), every=every)


COMMANDS = (
    _command(OURS, "fleet-smi"),
    _command("nvitop", "nvitop -1"),
    _command(OURS, "fleet-smi free"),
    _command("nvitop", "nvisel"),
    _command(OURS, "fleet-smi free -n 1"),
    _command(OURS, "fleet-smi run -n 1 -- pwd"),
    _command(OURS, "fleet-smi who"),
    _command(OURS, "fleet-smi --json"),
    _command("gpustat", "gpustat", every=_SLOW),
    _command("nvgpu", "nvgpu list", every=_SLOW),
    _command("nvgpu", "nvgpu available", every=_SLOW),
)
PAIRS = (
    Pair(ours="fleet-smi", theirs="nvitop -1", budget=0.9),
    Pair(ours="fleet-smi free", theirs="nvisel", budget=0.8),
    Pair(ours="fleet-smi free -n 1", theirs="nvisel"),
    Pair(ours="fleet-smi run -n 1 -- pwd", theirs="fleet-smi free -n 1", budget=1.5),
    Pair(ours="fleet-smi who", theirs="nvitop -1"),
    Pair(ours="fleet-smi --json", theirs="nvitop -1"),
    Pair(ours="fleet-smi", theirs="gpustat"),
    Pair(ours="fleet-smi", theirs="nvgpu list"),
    Pair(ours="fleet-smi free", theirs="nvgpu available"),
)


def measure(environment: Mapping[str, str], rounds: int) -> list[MeasurementSeries]:
    """Measure all commands interleaved, so that disturbances affect all of them alike."""
    _adopt_orphans()
    notes = {command.label: _why_not(command, environment) for command in COMMANDS}
    runs = [command for command in COMMANDS if not notes[command.label]]
    wall: dict[str, list[float]] = {command.label: [] for command in COMMANDS}
    cpu: dict[str, list[float]] = {command.label: [] for command in COMMANDS}
    for turn in range(rounds):
        for command in _rotated(runs, turn):
            if turn % command.every:
                continue
            seconds, cpu_seconds = run_timed(_line(command), _environment(command, environment))
            wall[command.label].append(seconds)
            cpu[command.label].append(cpu_seconds)
    return [
        MeasurementSeries(label=label, values=tuple(wall[label]), cpu=tuple(cpu[label]), note=note)
        for label, note in notes.items()
    ]


def run_timed(argv: Iterable[str], environment: Mapping[str, str]) -> tuple[float, float]:
    """Return wall seconds of a program, and CPU seconds of it and its descendants."""
    words = list(argv)
    null = [
        (os.POSIX_SPAWN_OPEN, 0, os.devnull, os.O_RDONLY, 0),
        (os.POSIX_SPAWN_OPEN, 1, os.devnull, os.O_WRONLY, 0),
        (os.POSIX_SPAWN_OPEN, 2, os.devnull, os.O_WRONLY, 0),
    ]
    began = time.perf_counter()
    pid = os.posix_spawn(words[0], words, environment, file_actions=null, setpgroup=0)
    usage = os.wait4(pid, 0)[2]
    seconds = time.perf_counter() - began
    usages = [usage, *_left_behind(pid)]
    return seconds, sum(usage.ru_utime + usage.ru_stime for usage in usages)


def _left_behind(group: int) -> Iterator[resource.struct_rusage]:
    """Reap orphaned descendants; see `_adopt_orphans`."""
    while True:
        try:
            yield os.wait4(-group, 0)[2]
        except ChildProcessError:
            return


def _adopt_orphans() -> None:
    """Become a subreaper, so that the CPU time of orphaned descendants is counted."""
    ctypes.CDLL(None).prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


def _line(command: BenchCommand) -> list[str]:
    return [str(command.peer.program(command.argv[0])), *command.argv[1:]]


def _environment(command: BenchCommand, environment: Mapping[str, str]) -> dict[str, str]:
    return {**environment, **command.peer.environment()}


def _why_not(command: BenchCommand, environment: Mapping[str, str]) -> str:
    """Install it and run it once to warm up; return why it cannot be measured, if so."""
    try:
        install(command.peer)
    except NotAvailable as reason:
        return f"not available: {reason}"
    try:
        done = subprocess.run(
            _line(command),
            env=_environment(command, environment),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=_HANGS_SECONDS,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        return f"does not run: {error}"
    if done.returncode != 0 or not done.stdout.strip():
        return f"exit code {done.returncode}: {last_error(done.stdout + done.stderr)}"
    return ""


def _rotated(commands: list[BenchCommand], turn: int) -> list[BenchCommand]:
    # A command that follows a heavy one finds cold caches: rotate the order each round.
    start = turn % len(commands) if commands else 0
    return commands[start:] + commands[:start]
