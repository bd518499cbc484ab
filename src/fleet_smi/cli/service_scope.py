"""Where a service is installed: for the machine, by root, or for one user, by that user."""

import os
from pathlib import Path

from msgspec import Struct

from fleet_smi import paths
from fleet_smi.errors import Unmet
from fleet_smi.node.bindings import systemd


class ServiceScope(Struct, frozen=True):
    """The folders of units and environment files, and the `systemctl` that manages them."""

    unit_folder: str
    env_folder: str
    systemctl: tuple[str, ...]
    settings_environment: dict[str, str]
    """The variables by which the service finds its settings; it has no others of this shell."""
    is_user: bool = False
    packaged_unit_folder: str | None = None
    """Where a package of the distribution has its units; those in `unit_folder` override them."""

    def unit_path(self, name: str) -> str:
        """The path of a unit file."""
        return f"{self.unit_folder}/{name}"

    def has_packaged_unit(self, name: str) -> bool:
        """Whether a package of the distribution installed this unit."""
        folder = self.packaged_unit_folder
        return folder is not None and Path(folder, name).is_file()

    def env_path(self, role: str) -> str:
        """The path of the environment file; only its owner can read it: it may hold tokens."""
        return f"{self.env_folder}/{role}.env"


SYSTEM = ServiceScope(
    "/etc/systemd/system",
    "/etc/fleet-smi",
    ("systemctl",),
    {},
    packaged_unit_folder="/usr/lib/systemd/system",
)


def user_scope() -> ServiceScope:
    """The scope of this user; raise `Unmet` without a home folder."""
    environment = {
        name: os.environ[name] for name in ("HOME", "XDG_CONFIG_HOME") if os.environ.get(name)
    }
    settings_file = paths.user_settings_file(environment)
    if settings_file is None:
        raise Unmet("--user needs a home folder: HOME is not set")
    folder = Path(settings_file).parent
    units = str(folder.parent / "systemd/user")
    return ServiceScope(units, str(folder), ("systemctl", "--user"), environment, is_user=True)


def require_manager(scope: ServiceScope) -> None:
    """Raise `Unmet` unless the systemd of this scope runs and this user may change it."""
    if scope.is_user and os.geteuid() == 0:
        raise Unmet("--user installs it for the user who runs this: run it without sudo")
    if not scope.is_user and os.geteuid() != 0:
        raise Unmet(
            "this needs root: run it with sudo, install it for yourself with --user, "
            "or preview it with --dry-run"
        )
    if not (systemd.is_user_running() if scope.is_user else systemd.is_running()):
        owner = "for this user (log in on the machine itself)" if scope.is_user else "here"
        raise Unmet(
            f"systemd does not run {owner}: start `fleet-smi agent` or `fleet-smi hub` from "
            "your init system; --dry-run shows the systemd unit"
        )
