"""Checks that a state folder is the one of a hub which the user of a command can manage."""

import os
from pathlib import Path

from fleet_smi.cli.service_scope import SYSTEM
from fleet_smi.cli.systemd_units import STATE_DIR, unit_name
from fleet_smi.errors import Unmet
from fleet_smi.hub.state_folder import LOCK_FILE
from fleet_smi.paths import state_folder, user_name

_SYSTEM_STATE = f"{STATE_DIR}/hub"


def require_own_hub(folder: Path, action: str, *, is_named: bool) -> None:
    """Raise `Unmet` where only root can manage the hub that is meant: the one of this machine.

    `is_named` says that the user gave the folder. Without this check, a user beside the hub's
    service would get tokens in a folder of their own, which no hub reads.
    """
    if os.geteuid() == 0:
        return
    sudo = f"run `sudo fleet-smi hub {action} …`"
    owner = _owner(folder)
    if owner not in (None, os.geteuid(), 0):
        raise Unmet(f"{folder} belongs to {user_name(owner or 0)}: {sudo}")
    has_own_hub = is_named or str(folder) != _default_folder() or has_run_hub(folder)
    if not has_own_hub and has_system_hub():
        raise Unmet(
            f"the hub of this machine keeps its state in {_SYSTEM_STATE}: {sudo}, "
            "or name the folder of a hub of your own with --state"
        )


def has_run_hub(folder: Path) -> bool:
    """Whether a hub has ever run in this folder: only a hub makes the lock."""
    try:
        return (folder / LOCK_FILE).exists()
    except PermissionError:  # then the folder is not this user's, which is said elsewhere
        return True


def _default_folder() -> str:
    return f"{state_folder(os.environ)}/hub"


def has_system_hub() -> bool:
    """Whether root has installed or run a hub on this machine."""
    name = unit_name("hub")
    has_unit = Path(SYSTEM.unit_path(name)).exists() or SYSTEM.has_packaged_unit(name)
    return has_unit or Path(_SYSTEM_STATE).exists()


def _owner(folder: Path) -> int | None:
    try:
        return folder.stat().st_uid
    except OSError:
        return None
