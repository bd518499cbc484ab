"""What gpustat prints for eyes, 0.3 to 1.x: a header, one line a GPU, colours or none."""

import re
from typing import Any

from msgspec import Struct, field

from fleet_smi.compat.gpustat.builders import build_gpu, build_snapshot, unreadable_gpu
from fleet_smi.compat.gpustat.decode_processes import (
    FullCommandLine,
    GpustatProcess,
    build_processes,
    labels_are_commands,
    parse_entries,
    parse_full_line,
)
from fleet_smi.errors import TruncatedReport, Undecodable, Unreachable
from fleet_smi.model.safe_text import sanitize_text
from fleet_smi.model.snapshot import Gpu, Snapshot
from fleet_smi.model.units import MIB
from fleet_smi.wire.cli_text import excerpt, parse_int, parse_number
from fleet_smi.wire.limits import MAX_ITEMS

# Colours, the other codes with which terminals end them, and those of its watch mode.
_ESCAPES = re.compile(r"\x1b\[[0-?]*[ -/]*[@-~]|\x1b[()][0-9A-Za-z]|[\x0e\x0f]")
_N = r"(-?[0-9]{1,9}|\?{1,2})"
_GPU = re.compile(
    r"\[([0-9]{1,5})\] (?:(?P<name>.{0,160}?) {0,160}\|)?"
    rf" *(?P<heat>{_N}) ?[^\w\s]{{0,2}}C, +(?:(?P<fan>{_N}) ?%, +)?(?P<busy>{_N}) ?%"
    r"(?: \((?P<codec>[^()|]{0,80})\))?"
    rf"(?:, +(?P<draw>{_N})(?: / +(?P<limit>{_N}))? {{0,8}}W?)?"
    rf" +\| +(?P<used>{_N}) / +(?P<total>{_N}) ?Mi?B(?: \|(?P<rest>.*))?",
)
_INDEX = re.compile(r"\[([0-9]{1,5})\](?: |$)")
_CODEC = re.compile(rf"([ED]): *{_N}")
# The date is in the words of its locale; a time or a year is in all of them.
_HEADER = re.compile(r"(\S{1,128}) {2,}(?=.{0,160}?(?:[0-9]:[0-9]{2}|[0-9]{4}))\S.{0,160}")
_DRIVER = re.compile(r" {2}([0-9]{3}\.[0-9]{1,4}(?:\.[0-9]{1,4})?)$", re.ASCII)
# How gpustat-web tells that a host does not answer.
_FAILED = re.compile(r"\((\S{1,128})\) (.+)")
_NO_GPUS = "(No GPUs are available)"
_NOT_SUPPORTED = "Not Supported"
_TROUBLE = "Error on querying NVIDIA devices"


class _Row(Struct):
    """One GPU as its line tells it; without `told`, the line is not understood."""

    index: int
    line: str
    told: dict[str, str | None] | None
    listed: list[GpustatProcess] | None
    full: list[FullCommandLine] = field(default_factory=list)


class _Section(Struct):
    """What is told of one host; the name stands in the header, if there is one."""

    host: str | None = None
    driver: str | None = None
    rows: dict[int, _Row] = field(default_factory=dict)
    without_gpus: bool = False


def decode_text(text: str, host: str, taken_at: float) -> tuple[Snapshot | Unreachable, ...]:
    """What is printed of each host; `host` is whose it is, where it is of one alone."""
    if not text.endswith("\n"):
        raise TruncatedReport(f"breaks off: {_last_words(text)}")
    lines = [line.rstrip() for line in _ESCAPES.sub("", text).split("\n")]
    found, failures = _sections(lines)
    sections = [one for one in found if one.rows or one.without_gpus]
    if not sections and not failures:
        raise (
            TruncatedReport("breaks off after its header")
            if found
            else Undecodable(_no_gpustat(lines))
        )
    alone = len(sections) + len(failures) == 1
    listed = [entry for one in sections for row in one.rows.values() for entry in row.listed or ()]
    programs = labels_are_commands(listed)
    read = [
        _snapshot(one, host if alone or not one.host else one.host, taken_at, programs=programs)
        for one in sections
    ]
    return (*read, *failures)


def _sections(lines: list[str]) -> tuple[list[_Section], list[Unreachable]]:
    sections: list[_Section] = []
    failures: list[Unreachable] = []
    row: _Row | None = None
    for line in lines:
        if _INDEX.match(line):
            sections = sections or [_Section()]
            row = _row(line)
            sections[-1].rows.setdefault(row.index, row)
        elif row is not None and (full := parse_full_line(line)) is not None:
            row.full.append(full)
        elif line.strip() == _NO_GPUS:
            sections = sections or [_Section()]
            sections[-1].without_gpus = True
        elif failed := _FAILED.fullmatch(line):
            failures.append(
                Unreachable(sanitize_text(failed[2], 300), sanitize_text(failed[1], 128))
            )
        elif header := _HEADER.fullmatch(line):
            driver = _DRIVER.search(line)
            sections.append(_Section(sanitize_text(header[1], 128), driver[1] if driver else None))
    return sections, failures


def _row(line: str) -> _Row:
    match = _GPU.match(line)
    if match is None:
        start = _INDEX.match(line)
        return _Row(int(start[1]) if start else 0, line, None, None)
    rest = match["rest"]
    unlisted = rest is None or rest.strip(" ()") == _NOT_SUPPORTED
    listed = None if unlisted else list(parse_entries(rest))
    return _Row(int(match[1]), line, match.groupdict(), listed)


def _snapshot(section: _Section, host: str, taken_at: float, *, programs: bool) -> Snapshot:
    rows = list(section.rows.values())[: MAX_ITEMS["gpus"]]
    gpus = [_gpu(row, programs=programs) for row in rows]
    return build_snapshot(host, taken_at, section.driver, gpus, _untold(rows))


def _gpu(row: _Row, *, programs: bool) -> Gpu:
    if row.told is None:
        return unreadable_gpu(row.index, f"its line is not understood: {row.line}")
    on_it = (
        None if row.listed is None else build_processes(row.listed, row.full, as_commands=programs)
    )
    return build_gpu(row.index, row.told["name"], _figures(row.told), on_it)


def _figures(told: dict[str, str | None]) -> dict[str, Any]:
    video = dict(_CODEC.findall(told["codec"] or ""))
    return {
        "temperature_celsius": parse_number(told["heat"]),
        "fan_percent": parse_number(told["fan"]),
        "busy_percent": parse_number(told["busy"]),
        "encoder_percent": parse_number(video.get("E")),
        "decoder_percent": parse_number(video.get("D")),
        "power_watts": parse_number(told["draw"]),
        "power_limit_watts": parse_number(told["limit"]),
        "memory_used_bytes": _bytes(told["used"]),
        "memory_total_bytes": _bytes(told["total"]),
    }


def _bytes(told: str | None) -> int | None:
    count = parse_int(told)
    return None if count is None else count * MIB


def _untold(rows: list[_Row]) -> list[str]:
    """What no line of it tells: some by its nature, some by the options it was called with."""
    told = [row.told for row in rows if row.told is not None]
    listed = [entry for row in rows for entry in row.listed or ()]
    by_option = {
        "power": all(each["draw"] is None for each in told),
        "fans": all(each["fan"] is None for each in told),
        "processes": bool(told) and all(each["rest"] is None for each in told),
        "pids": bool(listed) and not any(entry.pid for entry in listed),
    }
    return [
        "UUIDs",
        "clocks",
        "memory errors",
        "MIG",
        *(key for key, no in by_option.items() if no),
    ]


def _last_words(text: str) -> str:
    if re.search(r"\x1b\[?[0-9;]*$", text):
        return "its end is half an escape code"
    return f"its last line is {excerpt(_ESCAPES.sub('', text[-400:]).rsplit(chr(10), 1)[-1])!r}"


def _no_gpustat(lines: list[str]) -> str:
    for at, line in enumerate(lines):
        if line.startswith(_TROUBLE):
            return f"gpustat failed on it: {excerpt(chr(10).join(lines[at + 1 :]))}"
    return f"is no output of gpustat: {excerpt(chr(10).join(lines[:8]))}"
