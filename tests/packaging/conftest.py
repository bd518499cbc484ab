"""What several tests of the packages share: the wheel, and its dependencies as wheels."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.machines import require_program
from tests.packaging.cache import cache_folder, digest, make_once

PROJECT = Path(__file__).parents[2]
DEB_BUILDER = PROJECT / "packaging/deb/build.py"


@pytest.fixture(scope="session")
def shared_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder that all workers of this test run share."""
    own = tmp_path_factory.getbasetemp()
    return (own.parent if "PYTEST_XDIST_WORKER" in os.environ else own) / "packaging"


@pytest.fixture(scope="session")
def wheel(shared_folder: Path) -> Path:
    """The wheel of this tree."""

    def build(folder: Path) -> None:
        pip("wheel", "--no-deps", "--wheel-dir", str(folder), str(PROJECT))

    (built,) = make_once(shared_folder / "wheel", build).glob("*.whl")
    return built


@pytest.fixture(scope="session")
def wheelhouse() -> Path:
    """The dependencies of agent and hub as wheels, for Debian's Python."""
    version = f"3.{debian_python()}"
    lock = PROJECT / "requirements/lock/all.txt"

    def download(folder: Path) -> None:
        only = ("--require-hashes", "--no-deps", "--only-binary=:all:")
        target = (f"--python-version={version}", "--dest", str(folder))
        pip("download", *only, *target, "--requirement", str(lock))

    return make_once(cache_folder() / f"wheels-{digest(version, lock)}", download)


@pytest.fixture(scope="session")
def debs(wheel: Path, shared_folder: Path) -> Path:
    """A folder with the Debian packages of this tree, for Debian's Python alone."""
    require_program("dpkg-deb")

    def build(folder: Path) -> None:
        only = ("--pythons", f"3.{debian_python()}", "--compression", "none")
        command = [sys.executable, str(DEB_BUILDER), str(wheel), "--out", str(folder), *only]
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL)

    return make_once(shared_folder / "debs", build)


def debian_python() -> int:
    """The minor version of Debian's own Python."""
    code = "import sys; print(sys.version_info.minor)"
    return int(subprocess.check_output(["/usr/bin/python3", "-c", code]))


def pip(*arguments: str) -> None:
    """Run pip; fail with what it said."""
    command = [sys.executable, "-m", "pip", *arguments, "--quiet", "--disable-pip-version-check"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-2000:]
