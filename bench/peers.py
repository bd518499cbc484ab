"""The measured programs, each in a virtual environment of its own, as a user would have it."""

import fcntl
import hashlib
import os
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
BUILD = ROOT / "build" / "bench"

OURS = "fleet-smi"
_INSTALL_SECONDS = 600
_PINS = ("run.txt", "dev.txt")
_MADE = {"__pycache__", "page"}  # by Python, and by the build of the page


class NotAvailable(Exception):
    """A program could not be installed here; the message says why, in one line."""


@dataclass(frozen=True, kw_only=True)
class PeerTool:
    """A program and what pip is asked for; `beside` is put in front of its own libraries."""

    name: str
    version: str
    extra_requirement: str | None = None

    @property
    def venv(self) -> Path:
        return BUILD / self.name

    @property
    def python(self) -> Path:
        return self.venv / "bin" / "python"

    @property
    def extra_folder(self) -> Path:
        return BUILD / f"{self.name}-beside"

    def program(self, name: str) -> Path:
        """The path of a program that the installation brought."""
        return self.venv / "bin" / name

    def environment(self) -> dict[str, str]:
        """What it needs in its environment beyond what every program gets."""
        return {"PYTHONPATH": str(self.extra_folder)} if self.extra_requirement else {}


PEERS = {
    peer.name: peer
    for peer in (
        PeerTool(name=OURS, version=""),
        PeerTool(name="nvitop", version="1.7.2"),
        PeerTool(name="gpustat", version="1.1.1"),
        # It decodes a name that newer bindings return as text, so it gets those of its time.
        PeerTool(name="nvgpu", version="0.9.0", extra_requirement="nvidia-ml-py3==7.352.0"),
    )
}


def clean_environment() -> dict[str, str]:
    """This environment without what would change how a Python program starts or what it says."""
    ours = ("PYTHON", "VIRTUAL_ENV", "FLEET_SMI_", "CUDA_", "NVITOP_", "COLUMNS", "LINES")
    return {key: value for key, value in os.environ.items() if not key.startswith(ours)}


def install(peer: PeerTool) -> None:
    """Make sure that it is installed and current; raise `NotAvailable` if it cannot be."""
    peer.venv.parent.mkdir(parents=True, exist_ok=True)
    with peer.venv.with_suffix(".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # tests run side by side
        _install(peer)


def _install(peer: PeerTool) -> None:
    stamp, wanted = peer.venv / "installed", fingerprint(peer)
    if stamp.exists() and stamp.read_text() == wanted:
        return
    stamp.unlink(missing_ok=True)
    if not peer.python.exists():
        _run(sys.executable, "-m", "venv", "--clear", str(peer.venv))
    pip = (str(peer.python), "-m", "pip", "install", "--quiet", "--disable-pip-version-check")
    if peer.name == OURS:
        pins = [f"--constraint={ROOT / 'requirements' / name}" for name in _PINS]
        _run(*pip, *pins, f"{ROOT}[zmq]")
    else:
        _run(*pip, f"{peer.name}=={peer.version}")
    if peer.extra_requirement:
        _run(*pip, "--upgrade", "--target", str(peer.extra_folder), peer.extra_requirement)
    stamp.write_text(wanted)


def fingerprint(peer: PeerTool) -> str:
    """What the installation was made from; another text means that it must be made anew."""
    parts = [peer.name, peer.version, peer.extra_requirement or "", sys.version]
    if peer.name == OURS:
        parts += [f"{path} {path.stat().st_mtime_ns}" for path in _sources()]
    return hashlib.sha256("\n".join(parts).encode()).hexdigest()


def _sources() -> Iterator[Path]:
    yield ROOT / "pyproject.toml"
    yield from (ROOT / "requirements" / name for name in _PINS)
    for folder in ("src", "web/src"):
        for path in sorted((ROOT / folder).rglob("*")):
            if path.is_file() and not _MADE.intersection(path.relative_to(ROOT).parts):
                yield path


def _run(*command: str) -> None:
    try:
        done = subprocess.run(
            command,
            env=clean_environment(),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=_INSTALL_SECONDS,
            check=False,
        )
    except subprocess.TimeoutExpired:
        raise NotAvailable(f"the installation took more than {_INSTALL_SECONDS} s") from None
    if done.returncode != 0:
        raise NotAvailable(last_error(done.stdout + done.stderr))


def last_error(text: str) -> str:
    """The line of an installer's or a program's output that says what went wrong."""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    errors = [line for line in lines if line.startswith("ERROR:")]
    said = (errors or lines or ["it did not say why"])[-1]
    return said.removeprefix("ERROR:").strip()[:120]
