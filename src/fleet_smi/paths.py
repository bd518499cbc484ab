"""Paths of settings files and state folders. Imports little: quick commands load it first."""

import os
from collections.abc import Mapping
from contextlib import suppress

from fleet_smi.errors import FleetError, StateError, UsageError

_OTHERS_MAY_WRITE = 0o022
SYSTEM_SETTINGS_FILE = "/etc/fleet-smi/fleet-smi.toml"
_SYSTEM_RUNTIME_FOLDER = "/run/fleet-smi"
_SOCKET = "agent.sock"


def user_settings_file(environment: Mapping[str, str]) -> str | None:
    """This user's settings file; `None` without a home folder."""
    folder = environment.get("XDG_CONFIG_HOME")
    if not folder and environment.get("HOME"):
        folder = os.path.join(environment["HOME"], ".config")
    return os.path.join(folder, "fleet-smi/fleet-smi.toml") if folder else None


def settings_files(environment: Mapping[str, str]) -> list[str]:
    """The settings files to read, the lowest precedence first.

    Raise `UsageError` where a file that is named explicitly does not exist.
    """
    named = environment.get("FLEET_SMI_CONFIG")
    # A file named explicitly replaces the others; it is not merged with them.
    if named:
        if not os.path.isfile(named):
            raise UsageError(f"--config or FLEET_SMI_CONFIG names {named}, which is not a file")
        return [named]
    return [
        path
        for path in (SYSTEM_SETTINGS_FILE, user_settings_file(environment))
        if path and os.path.isfile(path)
    ]


def state_folder(environment: Mapping[str, str]) -> str:
    """The folder for saved state: the system's for root, else the user's own."""
    if os.geteuid() == 0:
        return "/var/lib/fleet-smi"
    home = environment.get("XDG_STATE_HOME")
    return os.path.join(home or os.path.expanduser("~/.local/state"), "fleet-smi")


def login_file(environment: Mapping[str, str]) -> str:
    """The file with the logins of this user at hubs; of root too, in its home folder."""
    home = environment.get("XDG_STATE_HOME") or os.path.expanduser("~/.local/state")
    return os.path.join(home, "fleet-smi", "login.json")


def agent_socket(environment: Mapping[str, str]) -> str | None:
    """Where an agent of this user listens for local commands; `None` without a runtime folder."""
    # What systemd made for the agent's own service, and not for one that it was started by.
    given = environment.get("RUNTIME_DIRECTORY", "").partition(":")[0]
    if os.path.basename(given) == "fleet-smi":
        return os.path.join(given, _SOCKET)
    if os.geteuid() == 0:
        return os.path.join(_SYSTEM_RUNTIME_FOLDER, _SOCKET)
    return _user_socket(environment)


def agent_sockets(environment: Mapping[str, str]) -> list[str]:
    """Where a command looks for an agent: the machine's first, then one of this user."""
    own = _user_socket(environment)
    return [os.path.join(_SYSTEM_RUNTIME_FOLDER, _SOCKET), *([] if own is None else [own])]


def _user_socket(environment: Mapping[str, str]) -> str | None:
    folder = environment.get("XDG_RUNTIME_DIR")
    return os.path.join(folder, "fleet-smi", _SOCKET) if folder else None


def ensure_private_folder(path: str, error_type: type[FleetError] = StateError) -> None:
    """Create the folder if it is missing; raise `error_type` if another user may write to it."""
    # Not pathlib: importing it costs the agent memory.
    try:
        make_folder(path)
        status = os.stat(path)
    except OSError as error:
        raise error_type(
            f"{path} cannot be used for state: {error.strerror}; give another --state"
        ) from None
    # The owner of a folder can put links in it, which lead whoever writes there elsewhere.
    if status.st_uid not in (os.geteuid(), 0):
        name = user_name(status.st_uid)
        raise error_type(f"{path} belongs to {name}: run this as {name}, or give another --state")
    if status.st_mode & _OTHERS_MAY_WRITE:
        raise error_type(f"others may write to {path}: run `chmod go-w {path}` first")


def make_folder(path: str) -> None:
    """Create a folder for this user alone, and those above it, which nobody else may change."""
    # `os.makedirs` makes those above it as the umask has it: for some users, their group's too.
    missing = []
    above = os.path.dirname(path)
    while above and not os.path.isdir(above):
        missing.append(above)
        above = os.path.dirname(above)
    for each in reversed(missing):
        with suppress(FileExistsError):
            os.mkdir(each, 0o755)
    try:
        os.mkdir(path, 0o700)
    except FileExistsError:
        if not os.path.isdir(path):
            raise


def user_name(uid: int) -> str:
    """The name of a user, or the number where it has none."""
    import pwd

    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        return str(uid)
