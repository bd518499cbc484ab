"""Settings import of crontabs that run gpustat to a shared folder, gpustat-web or a page."""

import re

from fleet_smi.compat.gpustat import settings
from fleet_smi.config.importer import SettingsImporter

SYSTEM_NAME = "crontab"
# Minute, hour and day are numbers; month and weekday may be names. Or a nickname like @hourly.
_TIMES = r"(?:[\d*][\d*/,-]*\s+){3}(?:[\w*][\w*/,-]*\s+){2}|@\w+\s+"
_LINE = re.compile(rf"\s*({_TIMES})(.+)")
_WRITE_TO_FOLDER = re.compile(
    r"\bgpustat\b[^>|;&]*>\s*(/[^\s$`]*)/(?:\$\(hostname[^)]*\)|`hostname[^`]*`|\$HOSTNAME)"
)
_READ_FOLDER = re.compile(r"\bcat\s+(/[^\s|;&>$`]+)")
_RENDER_PAGE = re.compile(r"ansi2html|fetch_data\.py|render_website\.py")
_EVERY_FEW_MINUTES = re.compile(r"(?:\*|\*/(\d{1,2}))(?:\s+\*){4}\s+")
_PAGE_HINT = "`fleet-smi render --out DIR` writes the page, from cron or with --every"
_NO_INTERVAL = "only `*/N` minutes is an interval: set agent.interval"
_OTHER_FILE = "gpustat does not write to a file named after its host"


def matches(name: str, text: str) -> bool:
    """Whether a line schedules one of these programs."""
    jobs = (_LINE.fullmatch(line) for line in text.splitlines())
    return any(line and _is_ours(line[2]) for line in jobs)


def _is_ours(command: str) -> bool:
    calls = settings.find_arguments(command) is not None
    return calls or any(job.search(command) for job in (_WRITE_TO_FOLDER, _RENDER_PAGE))


def import_file(text: str, importer: SettingsImporter) -> None:
    """Import a folder of gpustat's files as one to read and one to write to."""
    for number, line in enumerate(text.splitlines(), 1):
        if not line.strip() or line.lstrip().startswith("#"):
            continue
        match = _LINE.fullmatch(line)
        if match is None:
            importer.skip(f"line {number}", "not a cron job")
        else:
            _import_job(f"line {number}", match[1], match[2], importer)


def _import_job(location: str, times: str, command: str, importer: SettingsImporter) -> None:
    """Import one job, or note why not."""
    if folder := _WRITE_TO_FOLDER.search(command):
        writes_json = "--json" in folder[0]
        _import_folder(location, times, folder[1], importer, writes_json=writes_json)
    elif (arguments := settings.find_arguments(command)) is not None:
        settings.import_command_line(f"{location}, ", arguments, importer)
    elif _RENDER_PAGE.search(command):
        if files := _READ_FOLDER.search(command):
            importer.extend_list(f"{location}, the files", "hub.files", [files[1]])
        importer.skip(f"{location}, the page", _PAGE_HINT)
    else:
        mentions_gpustat = re.search(r"\bgpustat\b", command)
        importer.skip(location, _OTHER_FILE if mentions_gpustat else "unrelated to GPUs")


def _import_folder(
    location: str, times: str, folder: str, importer: SettingsImporter, *, writes_json: bool
) -> None:
    importer.extend_list(f"{location}, the folder", "hub.files", [folder])
    importer.set_value(f"{location}, the folder", "agent.drop", folder)
    # What the page made of this folder expects: the same text, or the same JSON.
    file_format = "gpustat" if writes_json else "gpustat-text"
    importer.set_value(f"{location}, the format", "agent.drop_format", file_format)
    if step := _EVERY_FEW_MINUTES.fullmatch(times):
        importer.set_value(f"{location}, the times", "agent.interval", f"{step[1] or 1}min")
    else:
        importer.skip(f"{location}, the times", _NO_INTERVAL)
