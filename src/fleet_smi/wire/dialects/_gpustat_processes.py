"""The end of a line of gpustat: `alice:python/4711(2310M) bob:…`, by whatever options.

With none it is the user alone; `-c` without `-u` puts the command in its place, and the text
does not say which of the two it is. So a file is asked as a whole: where any such word is a
well-known program, all of them are programs.
"""

import re
from collections.abc import Iterable, Iterator
from typing import NamedTuple

from fleet_smi.model.snapshot import Process
from fleet_smi.model.units import KIB, MIB
from fleet_smi.wire.bounds import MOST
from fleet_smi.wire.dialects._gpustat_parts import process_of
from fleet_smi.wire.printed import number, whole

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


class Entry(NamedTuple):
    """One process of the list; `word` is a user or a program, where only one is told."""

    user: str | None
    command: str | None
    word: str | None
    pid: str | None
    memory: str


class Full(NamedTuple):
    """A line below the GPU's own, with `-f`."""

    pid: str
    cpu_percent: str
    memory_bytes: int | None
    command: str


def entries(text: str) -> Iterator[Entry]:
    """The processes that the end of a line lists."""
    start = 0
    for match in _MEMORY.finditer(text):
        label, start = text[start : match.start()].strip(), match.end()
        yield _entry(label, match[1])


def full_line(line: str) -> Full | None:
    """A line of `-f`, if it is one."""
    match = _FULL.fullmatch(line)
    if match is None:
        return None
    count = whole(match[3])
    memory = None if count is None else count * _UNITS[match[4]]
    return Full(match[1], match[2], memory, match[5])


def are_programs(listed: Iterable[Entry]) -> bool:
    """Whether what stands alone is what runs, and not who runs it."""
    return any(entry.word is not None and _PROGRAM.match(entry.word) for entry in listed)


def processes(listed: list[Entry], full: list[Full], *, programs: bool) -> tuple[Process, ...]:
    """The processes of one GPU; the lines of `-f` come in the same order."""
    several = listed[: MOST["processes"]]
    lines = [*full, *[None] * len(several)]
    return tuple(
        _process(entry, line, programs=programs)
        for entry, line in zip(several, lines, strict=False)
    )


def _entry(label: str, memory: str) -> Entry:
    pid = _PID.search(label)
    rest = label[: pid.start()] if pid else label
    user, colon, command = rest.partition(":")
    number_ = pid[1] if pid else None
    # "ray::train" is a program's title, and a user's name has no blank in it.
    if not colon or " " in user or command.startswith(":"):
        return Entry(None, None, rest, number_, memory)
    return Entry(user, command, None, number_, memory)


def _process(entry: Entry, full: Full | None, *, programs: bool) -> Process:
    user = entry.user if programs or entry.word is None else entry.word
    name = entry.word if programs and entry.word is not None else entry.command
    memory = whole(entry.memory)
    told_of_full = {} if full is None else _figures(full)
    return process_of(
        user=user,
        name=name,
        command=None if full is None else full.command,
        pid=whole(entry.pid or (full.pid if full else None)),
        gpu_memory_bytes=None if memory is None else memory * MIB,
        **told_of_full,
    )


def _figures(full: Full) -> dict[str, float | None]:
    return {"cpu_percent": number(full.cpu_percent), "host_memory_bytes": full.memory_bytes}
