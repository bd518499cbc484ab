"""Crontabs of gpustat on a shared disk, of gpustat-web, and of web-gpu-monitor."""

import re

from fleet_smi.compat.gpustat import settings
from fleet_smi.config.importer import SettingsImporter

SYSTEM_NAME = "crontab"
_TIMES = r"(?:[\d*][\d*/,-]*\s+){3}(?:[\w*][\w*/,-]*\s+){2}|@\w+\s+"
_LINE = re.compile(rf"\s*({_TIMES})(.+)")
_DROP = re.compile(
    r"\bgpustat\b[^>|;&]*>\s*(/[^\s$`]*)/(?:\$\(hostname[^)]*\)|`hostname[^`]*`|\$HOSTNAME)"
)
_JOIN = re.compile(r"\bcat\s+(/[^\s|;&>$`]+)")
_PAGE = re.compile(r"ansi2html|fetch_data\.py|render_website\.py")
_EVERY_FEW_MINUTES = re.compile(r"(?:\*|\*/(\d{1,2}))(?:\s+\*){4}\s+")
_STANDS_IN = "`fleet-smi render --out DIR` writes the page, from cron or with --every"
_NO_INTERVAL = "only every so many minutes is an interval: set agent.interval"
_ELSEWHERE = "gpustat does not write into a file that is named after its host"


def matches(name: str, text: str) -> bool:
    """Whether a line of it starts one of these programs at times."""
    found = (_LINE.fullmatch(line) for line in text.splitlines())
    return any(line and _is_ours(line[2]) for line in found)


def _is_ours(command: str) -> bool:
    calls = settings.find_arguments(command) is not None
    return calls or any(job.search(command) for job in (_DROP, _PAGE))


def import_file(text: str, importer: SettingsImporter) -> None:
    """A folder of gpustat's files becomes one to read, and one to drop into."""
    for number, line in enumerate(text.splitlines(), 1):
        if not line.strip() or line.lstrip().startswith("#"):
            continue
        match = _LINE.fullmatch(line)
        if match is None:
            importer.skip(f"line {number}", "it is no job of cron")
        else:
            _read_job(f"line {number}", match[1], match[2], importer)


def _read_job(where: str, times: str, command: str, into: SettingsImporter) -> None:
    """Take one job over, or tell why not."""
    if drop := _DROP.search(command):
        _take_drop(where, times, drop[1], into)
    elif (words := settings.find_arguments(command)) is not None:
        settings.import_command_line(f"{where}, ", words, into)
    elif _PAGE.search(command):
        if joined := _JOIN.search(command):
            into.extend_list(f"{where}, the files", "hub.files", [joined[1]])
        into.skip(f"{where}, the page", _STANDS_IN)
    else:
        is_close = re.search(r"\bgpustat\b", command)
        into.skip(where, _ELSEWHERE if is_close else "it has nothing to do with GPUs")


def _take_drop(where: str, times: str, folder: str, into: SettingsImporter) -> None:
    into.extend_list(f"{where}, the folder", "hub.files", [folder])
    into.set_value(f"{where}, the folder", "agent.drop", folder)
    into.set_value(f"{where}, the format", "agent.drop_format", "gpustat")
    if every := _EVERY_FEW_MINUTES.fullmatch(times):
        into.set_value(f"{where}, the times", "agent.interval", f"{every[1] or 1}min")
    else:
        into.skip(f"{where}, the times", _NO_INTERVAL)
