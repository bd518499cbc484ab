"""Parser of the process list in a gpustat line: `alice:python/4711(2310M) bob:…`. Pure.

What an entry holds depends on gpustat's options. Without any it is the user alone; `-c` without
`-u` prints the command in the same place. The text does not say which of the two it is, so a file
is judged as a whole: if any such word is a well-known program, all of them are programs.
"""

import re
from collections.abc import Iterable, Iterator
from typing import NamedTuple

from fleet_smi.compat.gpustat.builders import build_process
from fleet_smi.model.snapshot import Process
from fleet_smi.model.units import KIB, MIB
from fleet_smi.wire.limits import MAX_ITEMS
from fleet_smi.wire.program_output import parse_int, parse_number

# Each entry ends in its memory. Commands may contain blanks and brackets, so the list cannot be
# split at either.
_MEMORY = re.compile(r"\(([0-9]{1,9}|\?{1,2})M\)(?= |$)", re.ASCII)
_PID = re.compile(r"/([0-9]{1,10}|--)$", re.ASCII)
_FULL = re.compile(
    r" ?[├└]─ +([0-9]{1,10}|--) +"
    r"\( *([0-9]{1,9}(?:\.[0-9]{1,6})?|--)%, +([0-9]{1,9}|\?)([KMGTP]?)B\): ?(.*)",
    re.ASCII,
)
_UNITS = {"": 1, "K": KIB, "M": MIB, "G": KIB * MIB, "T": MIB * MIB, "P": KIB * MIB * MIB}
_PROGRAM = re.compile(
    r"ray::|nvidia-|(?:i?python|pypy|jupyter|java|torchrun|Xorg|gnome-shell)[0-9.]*(?![a-z])"
)


class GpustatProcess(NamedTuple):
    """One process of the list; `label` is a user or a program, where only one is printed."""

    user: str | None
    command: str | None
    label: str | None
    pid: str | None
    memory: str


class FullCommandLine(NamedTuple):
    """A line below that of the GPU, printed with `-f`."""

    pid: str
    cpu_percent: str
    memory_bytes: int | None
    command: str


def parse_entries(text: str) -> Iterator[GpustatProcess]:
    """Parse the process list at the end of a line."""
    start = 0
    for match in _MEMORY.finditer(text):
        label, start = text[start : match.start()].strip(), match.end()
        yield _entry(label, match[1])


def parse_full_line(line: str) -> FullCommandLine | None:
    """Parse a line of `-f`; `None` if it is not one."""
    match = _FULL.fullmatch(line)
    if match is None:
        return None
    count = parse_int(match[3])
    memory = None if count is None else count * _UNITS[match[4]]
    return FullCommandLine(match[1], match[2], memory, match[5])


def labels_are_commands(entries: Iterable[GpustatProcess]) -> bool:
    """Whether the labels of this file are programs and not users."""
    return any(entry.label is not None and _PROGRAM.match(entry.label) for entry in entries)


def build_processes(
    entries: list[GpustatProcess], full_lines: list[FullCommandLine], *, as_commands: bool
) -> tuple[Process, ...]:
    """Build the processes of one GPU; the lines of `-f` come in the same order."""
    limited = entries[: MAX_ITEMS["processes"]]
    # Padded: a process may have no line of `-f`, but none may be dropped for that.
    lines = [*full_lines, *[None] * len(limited)]
    return tuple(
        _process(entry, line, as_command=as_commands)
        for entry, line in zip(limited, lines, strict=False)
    )


def _entry(label: str, memory: str) -> GpustatProcess:
    pid = _PID.search(label)
    rest = label[: pid.start()] if pid else label
    user, colon, command = rest.partition(":")
    pid_text = pid[1] if pid else None
    # "ray::train" is the title of a program, and user names have no spaces.
    if not colon or " " in user or command.startswith(":"):
        return GpustatProcess(None, None, rest, pid_text, memory)
    return GpustatProcess(user, command, None, pid_text, memory)


def _process(entry: GpustatProcess, full: FullCommandLine | None, *, as_command: bool) -> Process:
    user = entry.user if as_command or entry.label is None else entry.label
    name = entry.label if as_command and entry.label is not None else entry.command
    memory = parse_int(entry.memory)
    return build_process(
        user=user,
        name=name,
        command=None if full is None else full.command,
        pid=parse_int(entry.pid or (full.pid if full else None)),
        gpu_memory_bytes=None if memory is None else memory * MIB,
        **({} if full is None else _figures(full)),
    )


def _figures(full: FullCommandLine) -> dict[str, float | None]:
    return {"cpu_percent": parse_number(full.cpu_percent), "host_memory_bytes": full.memory_bytes}
