"""Installations: packages, disk space, seconds and start-up time with and without the hub."""

import subprocess
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from tempfile import TemporaryDirectory

from bench.peers import ROOT, NotAvailable, clean_environment, last_error
from bench.report import format_table
from bench.wall_time import run_timed
from release.dist import build

EXTRAS = ("", "[hub]", "[hub,top]", "[all]")
_STARTS = 15
_MEGABYTE = 1e6


def measure(environment: Mapping[str, str]) -> str:
    """Install the wheel of this checkout into empty environments; return a table."""
    rows = [["pip install", "packages", "MB", "seconds", "fleet-smi ms", "--version ms"]]
    with TemporaryDirectory(prefix="fleet-smi-bench-") as folder:
        wheel = build("wheel", ROOT, Path(folder))
        for extras in EXTRAS:
            try:
                figures = _install(Path(folder) / f"with-{extras}", f"{wheel}{extras}", environment)
            except NotAvailable as reason:
                figures = [f"not available: {reason}"]
            rows.append([f"fleet-smi{extras}", *figures])
    return format_table(rows)


def _install(venv: Path, requirement: str, environment: Mapping[str, str]) -> list[str]:
    _run(sys.executable, "-m", "venv", str(venv))
    (packages,) = venv.glob("lib/python*/site-packages")
    empty = _size(packages)
    began = time.monotonic()
    _run(str(venv / "bin/pip"), "install", "--quiet", "--disable-pip-version-check", requirement)
    seconds = time.monotonic() - began
    # pip and, before Python 3.12, setuptools are there before.
    installed = [each for each in packages.glob("*.dist-info") if not _is_tool(each.name)]
    program = str(venv / "bin/fleet-smi")
    return [
        str(len(installed)),
        f"{(_size(packages) - empty) / _MEGABYTE:.1f}",
        f"{seconds:.1f}",
        *(f"{_start(line, environment):.0f}" for line in ([program], [program, "--version"])),
    ]


def _start(line: list[str], environment: Mapping[str, str]) -> float:
    """The shortest of several runs, in milliseconds."""
    return 1000 * min(run_timed(line, environment)[0] for _ in range(_STARTS))


def _size(folder: Path) -> int:
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())


def _is_tool(name: str) -> bool:
    return name.startswith(("pip-", "setuptools-"))


def _run(*command: str) -> None:
    done = subprocess.run(
        command, env=clean_environment(), capture_output=True, text=True, check=False
    )
    if done.returncode != 0:
        raise NotAvailable(last_error(done.stderr))
