"""Decoder of gpustat's text output, 0.3 to 1.x: a header and one line per GPU. Pure."""

import re
from typing import Any

from msgspec import Struct, field

from fleet_smi.compat.gpustat.builders import (
    QUERY_ERROR_TEXT,
    build_gpu,
    build_snapshot,
    failed_run,
    unreadable_gpu,
)
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
from fleet_smi.wire.limits import MAX_ITEMS
from fleet_smi.wire.program_output import excerpt, parse_int, parse_number

# Colours, other terminal codes that reset them, and those of gpustat's watch mode.
_ESCAPES = re.compile(r"\x1b\[[0-?]*[ -/]*[@-~]|\x1b[()][0-9A-Za-z]|[\x0e\x0f]")
# Wildcards before the end are bounded: a hostile line must not cause quadratic backtracking.
_N = r"(-?[0-9]{1,9}|\?{1,2})"
_GPU = re.compile(
    r"\[([0-9]{1,5})\] (?:(?P<name>.{0,160}?) {0,160}\|)?"
    rf" *(?P<temperature>{_N}) ?[^\w\s]{{0,2}}C, +(?:(?P<fan>{_N}) ?%, +)?(?P<busy>{_N}) ?%"
    r"(?: \((?P<codec>[^()|]{0,80})\))?"
    rf"(?:, +(?P<draw>{_N})(?: / +(?P<limit>{_N}))? {{0,8}}W?)?"
    rf" +\| +(?P<used>{_N}) / +(?P<total>{_N}) ?Mi?B(?: \|(?P<rest>.*))?",
)
_INDEX = re.compile(r"\[([0-9]{1,5})\](?: |$)")
_CODEC = re.compile(rf"([ED]): *{_N}")
# The date depends on the locale, but every locale has a time or a year.
_HEADER = re.compile(r"(\S{1,128}) {2,}(?=.{0,160}?(?:[0-9]:[0-9]{2}|[0-9]{4}))\S.{0,160}")
_DRIVER = re.compile(r" {2}([0-9]{3}\.[0-9]{1,4}(?:\.[0-9]{1,4})?)$", re.ASCII)
# How gpustat-web prints a host that does not answer.
_FAILED = re.compile(r"\((\S{1,128})\) (.+)")
_NO_GPUS = "(No GPUs are available)"
_NOT_SUPPORTED = "Not Supported"
_NOT_FOUND = re.compile(r"\bgpustat: (?:command )?not found$")
# The reason follows in the same line or, in gpustat's own message, in the next one.
_FAILED_QUERY = re.compile(rf"{re.escape(QUERY_ERROR_TEXT)}(?:: (.+))?.*")


class _Row(Struct):
    """One GPU by its line; without `fields` the line could not be parsed."""

    index: int
    line: str
    fields: dict[str, str | None] | None
    listed: list[GpustatProcess] | None
    full: list[FullCommandLine] = field(default_factory=list)


class _Section(Struct):
    """The lines of one host; its name is in the header, if there is one."""

    host: str | None = None
    driver: str | None = None
    rows: dict[int, _Row] = field(default_factory=dict)
    without_gpus: bool = False
    error: str | None = None


def decode_text(text: str, host: str, taken_at: float) -> tuple[Snapshot | Unreachable, ...]:
    """Decode each host of the text; `host` is the name where there is only one.

    Raise `TruncatedReport` if the text breaks off, `Undecodable` if it is not of gpustat.
    """
    # gpustat ends its output with a newline: without one, the file is still being written.
    if not text.endswith("\n"):
        raise TruncatedReport(f"breaks off: {_describe_end(text)}")
    lines = [line.rstrip() for line in _ESCAPES.sub("", text).split("\n")]
    headed, failures = _sections(lines)
    sections = [
        section for section in headed if section.rows or section.without_gpus or section.error
    ]
    if not sections and not failures:
        raise (
            TruncatedReport("breaks off after its header")
            if headed
            else Undecodable(_describe_other(lines))
        )
    is_single = len(sections) + len(failures) == 1
    rows = [row for section in sections for row in section.rows.values()]
    # Over all hosts of the text, which were printed with the same options.
    as_commands = labels_are_commands(entry for row in rows for entry in row.listed or ())
    snapshots = [
        _snapshot(
            section,
            host if is_single or not section.host else section.host,
            taken_at,
            as_commands=as_commands,
        )
        for section in sections
    ]
    return (*snapshots, *failures)


def _sections(lines: list[str]) -> tuple[list[_Section], list[Unreachable]]:
    sections: list[_Section] = []
    failures: list[Unreachable] = []
    row: _Row | None = None
    for line in lines:
        if _INDEX.match(line):
            sections = sections or [_Section()]
            row = _row(line)
            # A GPU that is listed twice counts once, by its first line.
            sections[-1].rows.setdefault(row.index, row)
        elif row is not None and (full := parse_full_line(line)) is not None:
            row.full.append(full)
        elif line.strip() == _NO_GPUS:
            sections = sections or [_Section()]
            sections[-1].without_gpus = True
        elif sections and (query := _FAILED_QUERY.match(line)):
            sections[-1].error = query[1] or ""
        elif sections and sections[-1].error == "":
            sections[-1].error = line
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


def _snapshot(section: _Section, host: str, taken_at: float, *, as_commands: bool) -> Snapshot:
    rows = list(section.rows.values())[: MAX_ITEMS["gpus"]]
    gpus = [_gpu(row, as_commands=as_commands) for row in rows]
    failed = [] if section.error is None else [failed_run(section.error)]
    return build_snapshot(host, taken_at, section.driver, gpus, _missing(rows), failed)


def _gpu(row: _Row, *, as_commands: bool) -> Gpu:
    if row.fields is None:
        return unreadable_gpu(row.index, f"its line cannot be parsed: {row.line}")
    processes = (
        None
        if row.listed is None
        else build_processes(row.listed, row.full, as_commands=as_commands)
    )
    return build_gpu(row.index, row.fields["name"], _figures(row.fields), processes)


def _figures(fields: dict[str, str | None]) -> dict[str, Any]:
    video = dict(_CODEC.findall(fields["codec"] or ""))
    return {
        "temperature_celsius": parse_number(fields["temperature"]),
        "fan_percent": parse_number(fields["fan"]),
        "busy_percent": parse_number(fields["busy"]),
        "encoder_percent": parse_number(video.get("E")),
        "decoder_percent": parse_number(video.get("D")),
        "power_watts": parse_number(fields["draw"]),
        "power_limit_watts": parse_number(fields["limit"]),
        "memory_used_bytes": _bytes(fields["used"]),
        "memory_total_bytes": _bytes(fields["total"]),
    }


def _bytes(mib: str | None) -> int | None:
    count = parse_int(mib)
    return None if count is None else count * MIB


def _missing(rows: list[_Row]) -> list[str]:
    """List what the text lacks, by its format or by the options that gpustat was called with."""
    parsed = [row.fields for row in rows if row.fields is not None]
    listed = [entry for row in rows for entry in row.listed or ()]
    by_option = {
        "power": all(fields["draw"] is None for fields in parsed),
        "fans": all(fields["fan"] is None for fields in parsed),
        "processes": bool(parsed) and all(fields["rest"] is None for fields in parsed),
        "pids": bool(listed) and not any(entry.pid for entry in listed),
    }
    return [
        "UUIDs",
        "clocks",
        "memory errors",
        "MIG",
        *(name for name, is_missing in by_option.items() if is_missing),
    ]


def _describe_end(text: str) -> str:
    is_escape = re.search(r"\x1b\[?[0-9;]*$", text) is not None
    return "it ends in half an escape code" if is_escape else "its last line has no end"


def _describe_other(lines: list[str]) -> str:
    """Say what a text is that is not of gpustat; never what is in it, which may be a secret."""
    for number, line in enumerate(lines):
        if line.startswith(QUERY_ERROR_TEXT):
            return f"gpustat failed on it: {excerpt(chr(10).join(lines[number + 1 :]))}"
        if _NOT_FOUND.search(line):
            return "its writer's shell says `gpustat: command not found`"
    return "is not output of gpustat"
