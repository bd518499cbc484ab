"""The steps that install or remove a service: files to write or remove, programs to run."""

import shlex
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NamedTuple

from fleet_smi.cli.atomic_write import write_file
from fleet_smi.errors import Unmet


class WriteFile(NamedTuple):
    """A file to write."""

    path: str
    text: str
    mode: int


class RemoveFile(NamedTuple):
    """A file to remove, if it exists."""

    path: str


class RunCommand(NamedTuple):
    """A program to run; `failure` is the error if it fails, by default what it printed."""

    command: Sequence[str]
    failure: str | None = None


Step = WriteFile | RemoveFile | RunCommand


def run_steps(
    steps: Sequence[Step], run_command: Callable[[Sequence[str]], None], root: Path = Path("/")
) -> None:
    """Run the steps in order, with files below `root`; stop at the first failure."""
    for step in steps:
        if isinstance(step, RunCommand):
            _run_command(step, run_command)
            continue
        path = root / step.path.removeprefix("/")
        if isinstance(step, WriteFile):
            write_file(path, step.text, step.mode, replace=True)
        else:
            path.unlink(missing_ok=True)


def _run_command(step: RunCommand, run_command: Callable[[Sequence[str]], None]) -> None:
    try:
        run_command(step.command)
    except Unmet:
        if step.failure is None:
            raise
        raise Unmet(step.failure) from None


def describe_step(step: Step) -> str:
    """Return a step as `--dry-run` prints it."""
    if isinstance(step, RunCommand):
        return f"# run\n{shlex.join(step.command)}\n\n"
    if isinstance(step, RemoveFile):
        return f"# remove {step.path}\n\n"
    # A file that only root may read holds a token: a preview is often pasted elsewhere.
    secret = step.mode & 0o077 == 0
    text = "(holds a token: not shown)\n" if secret else step.text
    return f"# write {step.path} (mode {step.mode:04o})\n{text}\n"
