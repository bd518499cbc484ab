"""`python -m bench.live_terminal`: CPU and output of `fleet-smi top`, beside nvitop on one machine.

Both run in a terminal of 120 × 40 and refresh every second: on a simulated machine of 8 GPUs at
the same time, then `top` alone before a hub with a simulated fleet (`--nodes N`, 2,000).
"""

import argparse
import fcntl
import os
import pty
import select
import signal
import struct
import sys
import termios
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

from bench.loaded_hub import fleet_smi_program, loaded_hub
from bench.machine import simulated_machine
from bench.peers import PEERS, NotAvailable, install, use_this_environment
from bench.report import format_table

_COLUMNS, _ROWS = 120, 40
_WARM_UP_SECONDS = 8.0
_TICKS = os.sysconf("SC_CLK_TCK")


class LiveProgram:
    """A program in a terminal of its own, whose output is read and counted."""

    def __init__(self, command: Sequence[str], environment: Mapping[str, str]) -> None:
        self.output_bytes = 0
        self._pid, self.terminal = pty.fork()
        if self._pid == 0:
            os.execvpe(command[0], list(command), dict(environment))
        size = struct.pack("HHHH", _ROWS, _COLUMNS, 0, 0)
        fcntl.ioctl(self.terminal, termios.TIOCSWINSZ, size)

    def read(self) -> None:
        """Read what it has drawn."""
        try:
            self.output_bytes += len(os.read(self.terminal, 1 << 16))
        except OSError:
            raise NotAvailable("a program has ended by itself") from None

    def cpu_seconds(self) -> float:
        """Return the CPU time of it and of the processes that it has started."""
        return sum([_cpu_seconds(pid) for pid in _session(self._pid)])

    def close(self) -> None:
        """End it."""
        os.close(self.terminal)
        for pid in _session(self._pid):
            os.kill(pid, signal.SIGKILL)
        os.waitpid(self._pid, 0)


def _session(leader: int) -> list[int]:
    """Return the processes of a session."""
    found = []
    for path in Path("/proc").glob("[0-9]*"):
        try:
            if os.getsid(int(path.name)) == leader:
                found.append(int(path.name))
        except OSError:
            continue
    return found


def _cpu_seconds(pid: int) -> float:
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(") ")[2].split()
    except OSError:
        return 0.0
    # Of itself, and of the children that it has waited for.
    return sum([int(field) for field in fields[11:15]]) / _TICKS


def _run(programs: Sequence[LiveProgram], seconds: float) -> None:
    """Read from all terminals for a time."""
    deadline = time.monotonic() + seconds
    by_terminal = {program.terminal: program for program in programs}
    while (left := deadline - time.monotonic()) > 0:
        for terminal in select.select([*by_terminal], [], [], left)[0]:
            by_terminal[terminal].read()


def measure(
    commands: Mapping[str, Sequence[str]], environment: Mapping[str, str], seconds: float
) -> list[tuple[str, str, str]]:
    """Return the label, the share of a core and the output of programs that run side by side."""
    env = {**environment, "TERM": "xterm-256color", "LANG": "C.UTF-8", "COLORTERM": "truecolor"}
    programs = {label: LiveProgram(command, env) for label, command in commands.items()}
    try:
        _run([*programs.values()], _WARM_UP_SECONDS)
        began = {label: (each.cpu_seconds(), each.output_bytes) for label, each in programs.items()}
        _run([*programs.values()], seconds)
        rows = []
        for label, each in programs.items():
            cpu, drawn = began[label]
            share = (each.cpu_seconds() - cpu) / seconds
            rate = (each.output_bytes - drawn) / seconds / 1000
            rows.append((label, f"{100 * share:.1f} % of a core", f"{rate:.1f} kB/s"))
        return rows
    finally:
        for each in programs.values():
            each.close()


def main() -> int:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__, allow_abbrev=False)
    parser.add_argument("--seconds", type=float, default=20.0)
    parser.add_argument("--nodes", type=int, default=2000)
    args = parser.parse_args()
    use_this_environment()
    try:
        install(PEERS["nvitop"])
        with simulated_machine() as environment:
            top = (fleet_smi_program(), "top", "--here", "-i", "1")
            nvitop = (
                str(PEERS["nvitop"].program("nvitop")),
                "--monitor",
                "full",
                "--interval",
                "1",
            )
            commands = {"fleet-smi top, 8 GPUs": top, "nvitop, 8 GPUs": nvitop}
            rows = measure(commands, environment, args.seconds)
            with loaded_hub(environment) as hub:
                load = hub.start_load(args.nodes, 8)
                for _ in range(3):
                    load.read_line()  # one every five seconds
                fleet = {f"fleet-smi top, {args.nodes} nodes": (*top[:2], "--hub", hub.url)}
                rows += measure(fleet, environment, args.seconds)
    except NotAvailable as error:
        print(f"not available: {error}", file=sys.stderr)
        return 1
    print(format_table([("program", "CPU", "output"), *rows]))
    return 0


if __name__ == "__main__":
    sys.exit(main())
