"""`make lock`: pin the tested versions of all dependencies, with the hashes of their files.

The direct ones are pinned by hand in `requirements/run.txt` and `dev.txt`; uv finds the others.
"""

import re
import subprocess
import sys
from pathlib import Path

PROJECT = Path(__file__).parents[1]
FOLDER = PROJECT / "requirements/lock"
LOCKS: dict[str, tuple[str, tuple[str, ...]]] = {
    "light": ("3.10", ()),
    "hub": ("3.11", ("hub",)),
    "all": ("3.11", ("all",)),
}
"""Each file, the oldest Python that it is for, and the extras whose packages it has."""
_HEAD = "# Made by `make lock`: the tested versions, for `pip install --require-hashes -r`.\n"
_PIN = re.compile(r"^([a-z0-9.-]+)==([^ ;\\]+)(?: ; (.+?))? *\\?$", re.MULTILINE)


def main() -> None:
    """Write every file anew."""
    FOLDER.mkdir(exist_ok=True)
    for name, (python, extras) in LOCKS.items():
        (FOLDER / f"{name}.txt").write_text(_HEAD + compile_lock(python, extras))


def compile_lock(python: str, extras: tuple[str, ...]) -> str:
    """The packages of these extras with their dependencies, for every platform and Python."""
    flags = ("--universal", "--python-version", python, "--generate-hashes")
    quiet = (
        "--quiet",
        "--no-header",
        "--no-annotate",
        "--no-emit-index-url",
        "--no-python-downloads",
    )
    constraints = (f"--constraints=requirements/{name}.txt" for name in ("run", "dev"))
    chosen = (f"--extra={extra}" for extra in extras)
    uv = [sys.executable, "-m", "uv", "pip", "compile", "pyproject.toml"]
    done = subprocess.run(
        [*uv, *flags, *quiet, *constraints, *chosen],
        cwd=PROJECT,
        check=True,
        stdout=subprocess.PIPE,
        text=True,
    )
    return done.stdout


def pinned_versions(name: str) -> dict[str, str]:
    """The version of each package in a lock file, of those for the running Python and platform."""
    from packaging.markers import Marker

    found = _PIN.findall((FOLDER / f"{name}.txt").read_text())
    return {
        package: version for package, version, marker in found
        if not marker or Marker(marker).evaluate()
    }  # fmt: skip


if __name__ == "__main__":
    try:
        main()
    except subprocess.CalledProcessError as error:
        sys.exit(error.returncode)
