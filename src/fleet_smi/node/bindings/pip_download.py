"""Run `pip download`: fetch the wheel of a project for another Python or platform."""

import subprocess
import sys

from fleet_smi.errors import Unmet

_SECONDS = 120.0
_GLIBC = ("manylinux_2_17", "manylinux2014", "manylinux_2_28", "manylinux_2_34")
_MUSL = ("musllinux_1_1", "musllinux_1_2")


def download_wheel(requirement: str, python: str, machine: str, folder: str) -> bool:
    """Download a wheel into `folder`; return false if the package index has none that fits.

    `python` is a version like "3.10", `machine` like "x86_64", or "x86_64-musl" for Alpine. Raise
    `Unmet` where pip cannot be run, or no package index answers.
    """
    name, _, libc = machine.partition("-")
    tags = [f"{tag}_{name}" for tag in (_MUSL if libc == "musl" else _GLIBC)]
    platforms = [word for tag in tags for word in ("--platform", tag)]
    tag = f"cp{python.replace('.', '')}"
    target = ["--implementation", "cp", "--python-version", python, "--abi", tag, *platforms]
    pip = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--no-cache-dir"]
    command = [*pip, "--retries", "1", "--only-binary", ":all:", "--dest", folder, *target]
    try:
        done = subprocess.run(
            [*command, requirement],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=_SECONDS,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise Unmet(f"pip cannot be run: {error}") from None
    if "No module named pip" in done.stderr:
        raise Unmet(
            "pip is not installed here: install it (`sudo apt install python3-pip`), or download "
            "the wheels on another machine and give their folder with --from"
        )
    if done.returncode and "from versions: none" in done.stderr and "Connection" in done.stderr:
        raise Unmet(
            "no package index answers: download the wheels on a machine with internet, and give "
            "their folder with --from"
        )
    return done.returncode == 0
