"""The files of a clean Debian machine, of this machine's release, made with mmdebstrap."""

import os
import platform
import subprocess
from pathlib import Path

import pytest

from tests.machines import require_program, require_root
from tests.packaging.cache import cache_folder, digest, make_once

PACKAGES = (
    # What every machine has, and what the packages and images of fleet-smi need.
    *("systemd-sysv", "dbus", "iproute2", "procps", "curl"),
    *("python3", "python3-venv", "python3-apt", "adduser"),
)
_LEAVE_OUT = ("doc", "locale", "man", "info")


def clean_debian() -> Path:
    """Return the root folder of a clean Debian; it must not be changed. Needs root."""
    require_root("make the files of a clean Debian")
    require_program("mmdebstrap")
    release = platform.freedesktop_os_release()
    if release.get("ID") != "debian":
        assert not os.environ.get("CI"), "CI must run on Debian: this test would be skipped"
        pytest.skip("a clean Debian is made from the package sources of a Debian machine")
    suite = release["VERSION_CODENAME"]
    name = f"debian-{digest(suite, *PACKAGES)}"
    return make_once(cache_folder() / name, lambda folder: _make(suite, folder))


def _make(suite: str, folder: Path) -> None:
    etc = Path("/etc/apt")
    sources = [etc / "sources.list", *sorted((etc / "sources.list.d").glob("*debian*.sources"))]
    done = subprocess.run(
        [
            *("mmdebstrap", "--quiet", "--variant=minbase", "--format=directory"),
            f"--include={','.join(PACKAGES)}",
            *(f"--dpkgopt=path-exclude=/usr/share/{each}/*" for each in _LEAVE_OUT),
            *(suite, str(folder), *(str(path) for path in sources if path.is_file())),
        ],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-2000:]
