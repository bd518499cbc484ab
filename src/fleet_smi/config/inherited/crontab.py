"""Crontab lines of gpustat on a shared disk, and of web-gpu-monitor."""

import re

from fleet_smi.config.inherited.taking import Taking

SYSTEM = "crontab"
_LINE = re.compile(r"\s*((?:[\d*/,-]+\s+){5}|@\w+\s+)(.+)")
_DROP = re.compile(
    r"\bgpustat\b[^>|;&]*>\s*(/[^\s$`]*)/(?:\$\(hostname[^)]*\)|`hostname[^`]*`|\$HOSTNAME)"
)
_JOIN = re.compile(r"\bcat\s+(/[^\s|;&>$`]+)")
_PAGE = re.compile(r"ansi2html|fetch_data\.py|render_website\.py")
_EVERY_FEW_MINUTES = re.compile(r"(?:\*|\*/(\d{1,2}))(?:\s+\*){4}\s+")
_STANDS_IN = "`fleet-smi render --out DIR` writes the page, from cron or with --every"


def looks_like(name: str, text: str) -> bool:
    """Whether a line of it starts one of these programs at times."""
    found = (_LINE.fullmatch(line) for line in text.splitlines())
    return any(line and (_DROP.search(line[2]) or _PAGE.search(line[2])) for line in found)


def read(text: str, into: Taking) -> None:
    """A folder of gpustat's files becomes one to read, and one to drop into."""
    for number, line in enumerate(text.splitlines(), 1):
        if not line.strip() or line.lstrip().startswith("#"):
            continue
        match = _LINE.fullmatch(line)
        if match is None or not _read_job(match[1], match[2], into):
            into.leave(f"line {number}", "it has nothing to do with GPUs")


def _read_job(times: str, command: str, into: Taking) -> bool:
    """Take one job over; false where it is none of these."""
    if drop := _DROP.search(command):
        into.take_all("the folder", "hub.files", [drop[1]])
        into.take("the folder", "agent.drop", drop[1])
        into.take("the format", "agent.drop_format", "gpustat")
        if every := _EVERY_FEW_MINUTES.fullmatch(times):
            into.take("the times", "agent.interval", f"{every[1] or 1}min")
        return True
    if not _PAGE.search(command):
        return False
    if joined := _JOIN.search(command):
        into.take_all("the files", "hub.files", [joined[1]])
    into.leave("the page", _STANDS_IN)
    return True
