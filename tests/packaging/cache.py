"""Folders that are made once: for all workers of a test run, or for all runs on this machine."""

import fcntl
import hashlib
import os
import shutil
from collections.abc import Callable
from pathlib import Path


def cache_folder() -> Path:
    """Where test runs leave what takes long to make, such as the files of a clean Debian."""
    home = os.environ.get("XDG_CACHE_HOME") or Path("~/.cache").expanduser()
    return Path(home, "fleet-smi-tests")


def digest(*parts: str | Path) -> str:
    """A short hash of texts and of the contents of files."""
    sha = hashlib.sha256()
    for part in parts:
        sha.update((part.read_bytes() if isinstance(part, Path) else part.encode()) + b"\0")
    return sha.hexdigest()[:12]


def make_once(folder: Path, make: Callable[[Path], None]) -> Path:
    """Return the folder; the first who asks makes it, and the others wait for that."""
    folder.parent.mkdir(parents=True, exist_ok=True)
    with folder.with_name(f"{folder.name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not folder.exists():
            draft = folder.with_name(f"{folder.name}.draft")
            shutil.rmtree(draft, ignore_errors=True)
            draft.mkdir()
            make(draft)
            draft.rename(folder)
    return folder
