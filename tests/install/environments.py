"""Virtual environments with a part of fleet-smi's dependencies, made once for all test runs.

`python -m tests.install.environments` makes them all, where the network is expected: at set-up.
"""

import fcntl
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from functools import cache
from hashlib import sha256
from pathlib import Path
from shutil import which

import pytest

PROJECT = Path(__file__).parents[2]
LOCKS = PROJECT / "requirements/lock"
VERSIONS = ("3.10", "3.11", "3.12", "3.13", "3.14")
"""The versions of Python that the light part supports."""
THIS_VERSION = f"{sys.version_info[0]}.{sys.version_info[1]}"
_FOLDER = PROJECT / "build/environments"


@cache
def find_python(version: str) -> str | None:
    """The interpreter of that version: the running one, on `PATH`, of pyenv or of uv."""
    return next((each for each in _candidates(version) if _version_of(each) == version), None)


def _candidates(version: str) -> Iterator[str]:
    yield getattr(sys, "_base_executable", sys.executable)
    if on_path := which(f"python{version}"):
        yield on_path
    home = Path.home()
    folders = (
        (Path(os.environ.get("PYENV_ROOT", home / ".pyenv")) / "versions", f"{version}.*"),
        (home / ".local/share/uv/python", f"cpython-{version}.*"),
        (Path("/opt/hostedtoolcache/Python"), f"{version}.*/*"),
    )
    for folder, pattern in folders:
        yield from map(str, folder.glob(f"{pattern}/bin/python{version}"))


def _version_of(python: str) -> str | None:
    # pyenv has a `python3.12` on PATH for every version, which fails unless that one is chosen.
    command = [python, "-I", "-c", "import sys; print('%d.%d' % sys.version_info[:2])"]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    except OSError:
        return None
    return done.stdout.strip() if done.returncode == 0 else None


def require_python(version: str) -> str:
    """The interpreter of that version; skip the test where this machine has none."""
    python = find_python(version)
    if python is None:
        pytest.skip(f"this machine has no Python {version}")
    return python


def make_environment(lock: str, version: str = THIS_VERSION) -> str:
    """The interpreter of an environment: this checkout and the packages of one lock file."""
    base, requirements = require_python(version), LOCKS / f"{lock}.txt"
    digest = sha256(f"{base}\0{requirements.read_text()}".encode()).hexdigest()[:12]
    folder = _FOLDER / f"{lock}-{version}-{digest}"
    folder.mkdir(parents=True, exist_ok=True)
    python, stamp = folder / "bin/python", folder / "complete"
    # Workers of pytest share it: the first one makes it, the others wait. The lock is beside the
    # folder, which is emptied first.
    with folder.with_name(f"{folder.name}.lock").open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        if not stamp.exists():
            _run([base, "-m", "venv", "--clear", "--without-pip", str(folder)])
            pip = [sys.executable, "-m", "pip", "--python", str(python), "install", "--quiet"]
            options = ("--disable-pip-version-check", "--require-hashes", "--no-deps")
            _run([*pip, *options, "-r", str(requirements)])
            packages = folder / f"lib/python{version}/site-packages"
            (packages / "fleet-smi.pth").write_text(f"{PROJECT / 'src'}\n")
            stamp.touch()
    return str(python)


def download_wheels() -> Path:
    """A folder with the wheels of the light part and of the build system, for use offline."""
    lock = LOCKS / "light.txt"
    build = re.findall(r"^hatchling==.*", (PROJECT / "requirements/dev.txt").read_text(), re.M)
    digest = sha256(f"{sys.executable}\0{build}\0{lock.read_text()}".encode()).hexdigest()[:12]
    folder = _FOLDER / f"wheels-{digest}"
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / "lock").open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        if not (folder / "complete").exists():
            pip = [sys.executable, "-m", "pip", "download", "--quiet", "-d", str(folder)]
            _run([*pip, "--require-hashes", "-r", str(lock)])
            _run([*pip, *build])
            (folder / "complete").touch()
    return folder


def _run(command: list[str]) -> None:
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, f"{command}: {done.stderr}"


def main() -> None:
    """Make every environment that this machine has an interpreter for; CI fetches the others."""
    missing = [version for version in VERSIONS if find_python(version) is None]
    if missing and os.environ.get("CI"):
        # Where they cannot be had, their tests are skipped.
        subprocess.run([sys.executable, "-m", "uv", "python", "install", *missing], check=False)
        find_python.cache_clear()
    for version in filter(find_python, VERSIONS):
        make_environment("light", version)
    make_environment("hub")
    download_wheels()


if __name__ == "__main__":
    main()
