"""What the settings table says for this run, as values with names and types."""

import os
import stat
from typing import Literal

from msgspec import Struct

from fleet_smi.config.addresses import ListenAddress
from fleet_smi.config.value_types import PASSWORD, SECRET, ValueType
from fleet_smi.errors import UsageError
from fleet_smi.model.command_visibility import CommandVisibility
from fleet_smi.model.verdict.thresholds import Thresholds

_LONGEST_SECRET = 4096


class NodeSettings(Struct, frozen=True, kw_only=True):
    """This machine, and what of it may be told."""

    name: str | None
    root: str
    labels: dict[str, str]
    commands: CommandVisibility


class AgentSettings(Struct, frozen=True, kw_only=True):
    """How this machine reports."""

    to: str | None
    serve: ListenAddress | None
    serve_token: str | None
    serve_token_file: str | None
    hosts: tuple[str, ...]
    drop: str | None
    drop_mode: int
    drop_format: Literal["report", "gpustat"]
    cluster_smi: ListenAddress | None
    get_status_password: str | None
    get_status_password_file: str | None
    interval: float
    join: str | None
    join_file: str | None
    fingerprint: str | None
    state: str
    spool: int

    def read_join_token(self) -> str | None:
        """The token to join with, from its file where it is in one."""
        return self.join or _secret_in(self.join_file)

    def read_serve_token(self) -> str | None:
        """The token that a hub must show, from its file where it is in one."""
        return self.serve_token or _secret_in(self.serve_token_file)

    def read_get_status_password(self) -> str | None:
        """The password of `POST /get-status`, from its file where it is in one."""
        return self.get_status_password or _secret_in(self.get_status_password_file, PASSWORD)


class HubSettings(Struct, frozen=True, kw_only=True):
    """How the hub listens, whom it asks, and what it tells whom."""

    listen: ListenAddress
    hosts: tuple[str, ...]
    state: str
    tls: Literal["self-signed"] | None
    tls_cert: str | None
    tls_key: str | None
    insecure_open: bool
    interval: float | None
    include_self: bool
    pull: tuple[str, ...]
    pull_interval: float
    pull_token: str | None
    pull_token_file: str | None
    files: tuple[str, ...]
    files_interval: float
    ssh: tuple[str, ...]
    ssh_hosts_file: str | None
    ssh_config: str | None
    ssh_interval: float
    ssh_key: str | None
    nvgpu: tuple[str, ...]
    nvgpu_interval: float
    node_info: tuple[str, ...]
    node_info_interval: float
    node_info_password: str | None
    node_info_password_file: str | None
    cluster_smi_nodes: ListenAddress | None
    cluster_smi_clients: ListenAddress | None
    cluster_smi_open: bool
    cluster_smi_routers: tuple[str, ...]
    cluster_smi_interval: float
    get_status_password: str | None
    get_status_password_file: str | None
    trusted_proxies: tuple[str, ...]
    user_header: str | None
    admins: tuple[str, ...]
    commands_for_viewers: CommandVisibility
    commands_for_admins: CommandVisibility
    stream_interval: float
    remember_interval: float
    history: str | None
    history_keep_10s: float
    history_keep_1m: float
    history_keep_15m: float
    history_keep_ledger: float
    history_most: int
    energy_price: float | None
    currency: str | None

    def read_pull_token(self) -> str | None:
        """The token that agents want to see, from its file where it is in one."""
        return self.pull_token or _secret_in(self.pull_token_file)

    def read_node_info_password(self) -> str | None:
        """The password that nodes of gpu-cluster-monitor want, from its file if it is in one."""
        return self.node_info_password or _secret_in(self.node_info_password_file)

    def read_get_status_password(self) -> str | None:
        """The password of `POST /get-status`, from its file where it is in one."""
        return self.get_status_password or _secret_in(self.get_status_password_file, PASSWORD)


class ClientSettings(Struct, frozen=True, kw_only=True):
    """Which hub the commands ask."""

    hub: str | None
    token: str | None
    token_file: str | None
    fingerprint: str | None

    def read_token(self) -> str | None:
        """The token to show the hub, from its file where it is in one."""
        return self.token or _secret_in(self.token_file)


class Settings(Struct, frozen=True, kw_only=True):
    """What the table says for this run; lengths of time in seconds, sizes in bytes."""

    node: NodeSettings
    agent: AgentSettings
    hub: HubSettings
    client: ClientSettings
    thresholds: Thresholds


def _secret_in(path: str | None, kind: ValueType = SECRET) -> str | None:
    """A secret from its file: read when it is needed, for not every user may."""
    if path is None:
        return None
    try:
        with open(path, encoding="ascii") as file:
            if os.fstat(file.fileno()).st_mode & stat.S_IROTH:
                _warn_of_readers(path)
            written = str(SECRET.parse(file.read(_LONGEST_SECRET)))
    except OSError as error:
        raise UsageError(f"the token in {path} cannot be read: {error.strerror}") from None
    except ValueError:
        raise UsageError(f"{path} has no token in it, or more than one line") from None
    try:
        return str(kind.parse(written))
    except ValueError as error:
        raise UsageError(f"the password in {path} {error}") from None


def _warn_of_readers(path: str) -> None:
    import logging  # seldom needed, and slow to load

    words = 'warning="everybody on this machine can read %s: run `chmod o-r` on it"'
    logging.getLogger(__name__).warning(words, path)
