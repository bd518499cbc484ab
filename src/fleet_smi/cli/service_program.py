"""The program that a service runs: this installation, by absolute path."""

import sys
from collections.abc import Sequence
from pathlib import Path

import fleet_smi
from fleet_smi.errors import Unmet
from fleet_smi.node.bindings.agent_installer import CURRENT

_SEARCHABLE = 0o001  # on a folder, execute permission is permission to enter it


def own_program() -> tuple[str, ...]:
    """Return the command line of this installation, by absolute path."""
    script = current_program(Path(sys.executable).with_name("fleet-smi"))
    return (str(script),) if script.is_file() else (sys.executable, "-m", "fleet_smi")


def current_program(script: Path) -> Path:
    """The same program by the link to the current version, where a hub has installed it."""
    prefix = script.parents[2]
    linked = prefix / CURRENT
    is_current = linked.is_symlink() and linked.resolve() == script.parents[1].resolve()
    return linked / "bin" / script.name if is_current else script


def program_files() -> tuple[str, ...]:
    """Return the files the service's user must reach: interpreter, package and command."""
    return (str(Path(sys.executable).resolve()), fleet_smi.__file__, own_program()[0])


def require_reachable(files: Sequence[str]) -> None:
    """Raise `Unmet` if a file is in a folder that other users may not enter."""
    for file in files:
        for folder in Path(file).parents:
            if not folder.stat().st_mode & _SEARCHABLE:
                raise Unmet(
                    f"the service cannot run {file}: {folder} is closed to other users; "
                    "install fleet-smi where all can read it, like a venv in /opt/fleet-smi"
                )
