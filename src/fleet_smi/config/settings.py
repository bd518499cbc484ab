"""The settings as typed structs, one per section; secrets are read from their files on demand.

A secret is the value of its own setting or, without one, the content of the file in `..._file`.
The `read_...` methods raise `UsageError` where that file cannot be read.
"""

import os
import stat
from typing import Literal

from msgspec import Struct

from fleet_smi.config.addresses import ListenAddress
from fleet_smi.config.value_types import PASSWORD, SECRET, ValueType
from fleet_smi.errors import UsageError
from fleet_smi.model.command_visibility import CommandVisibility
from fleet_smi.model.verdict.thresholds import Thresholds

_MAX_SECRET = 4096


class NodeSettings(Struct, frozen=True, kw_only=True):
    """This machine, and how much of it is reported."""

    name: str | None
    root: str
    labels: dict[str, str]
    commands: CommandVisibility
    driver_timeout: float
    driver_init_timeout: float
    lease_dir: str | None


class AgentSettings(Struct, frozen=True, kw_only=True):
    """How this machine reports."""

    to: str | None
    serve: ListenAddress | None
    serve_token: str | None
    serve_token_file: str | None
    hosts: tuple[str, ...]
    drop: str | None
    drop_mode: int
    drop_commands: CommandVisibility | None
    drop_format: Literal["report", "gpustat", "gpustat-text"]
    cluster_smi: ListenAddress | None
    get_status_password: str | None
    get_status_password_file: str | None
    interval: float
    join: str | None
    join_file: str | None
    fingerprint: str | None
    state: str
    spool: int
    socket: str | None

    def read_join_token(self) -> str | None:
        """The join token; `None` if none is set."""
        return self.join or _read_secret(self.join_file)

    def read_serve_token(self) -> str | None:
        """The token that a hub must send; `None` if none is set."""
        return self.serve_token or _read_secret(self.serve_token_file)

    def read_get_status_password(self) -> str | None:
        """The password of `POST /get-status`; `None` if none is set."""
        return self.get_status_password or _read_secret(self.get_status_password_file, PASSWORD)


class HubSettings(Struct, frozen=True, kw_only=True):
    """How the hub listens, which nodes it polls, and what it shows to whom."""

    listen: ListenAddress
    hosts: tuple[str, ...]
    base_path: str | None
    public_url: str | None
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
    pull_tokens_file: str | None
    files: tuple[str, ...]
    files_interval: float
    ssh: tuple[str, ...]
    ssh_hosts_file: str | None
    ssh_config: str | None
    ssh_interval: float
    ssh_key: str | None
    trusted_transports: tuple[str, ...]
    sites: dict[str, str]
    site_token: str | None
    site_token_file: str | None
    site_tokens_file: str | None
    site_fingerprints: dict[str, str]
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
    nodes_most: int
    node_budget: float
    queue_per_person: int
    queue_most: int
    history: str | None
    cluster: tuple[str, ...]
    cluster_token: str | None
    cluster_token_file: str | None
    cluster_open: bool
    history_keep_10s: float
    history_keep_1m: float
    history_keep_15m: float
    history_keep_ledger: float
    history_most: int
    energy_price: float | None
    currency: str | None
    remote_write: str | None
    remote_write_token: str | None
    remote_write_token_file: str | None
    remote_write_user: str | None
    remote_write_password: str | None
    remote_write_password_file: str | None
    remote_write_labels: dict[str, str]
    remote_write_interval: float
    remote_write_buffer: int
    otlp: str | None
    otlp_token: str | None
    otlp_token_file: str | None
    otlp_user: str | None
    otlp_header: str | None
    otlp_attributes: dict[str, str]
    otlp_interval: float
    otlp_buffer: int

    def read_cluster_token(self) -> str | None:
        """The token that NATS requires; `None` if none is set."""
        return self.cluster_token or _read_secret(self.cluster_token_file)

    def read_pull_token(self) -> str | None:
        """The token that agents require; `None` if none is set."""
        return self.pull_token or _read_secret(self.pull_token_file)

    def read_pull_tokens(self) -> dict[str, str]:
        """The tokens of single agents, by the target as it is in `pull`."""
        return _read_secrets(self.pull_tokens_file)

    def read_site_token(self) -> str | None:
        """The token for the hubs of sites; `None` if none is set."""
        return self.site_token or _read_secret(self.site_token_file)

    def read_site_tokens(self) -> dict[str, str]:
        """The tokens for single hubs, by the name of their site."""
        return _read_secrets(self.site_tokens_file)

    def read_node_info_password(self) -> str | None:
        """The password that nodes of gpu-cluster-monitor require; `None` if none is set."""
        return self.node_info_password or _read_secret(self.node_info_password_file)

    def read_get_status_password(self) -> str | None:
        """The password of `POST /get-status`; `None` if none is set."""
        return self.get_status_password or _read_secret(self.get_status_password_file, PASSWORD)

    def read_remote_write_token(self) -> str | None:
        """The token for the receiver of remote write; `None` if none is set."""
        return self.remote_write_token or _read_secret(self.remote_write_token_file)

    def read_remote_write_password(self) -> str | None:
        """The password of `remote_write_user`; `None` if none is set."""
        return self.remote_write_password or _read_secret(self.remote_write_password_file)

    def read_otlp_token(self) -> str | None:
        """The token for the receiver of OpenTelemetry metrics; `None` if none is set."""
        return self.otlp_token or _read_secret(self.otlp_token_file)


class ClientSettings(Struct, frozen=True, kw_only=True):
    """Which hub the commands use."""

    hub: str | None
    token: str | None
    token_file: str | None
    fingerprint: str | None

    def read_token(self) -> str | None:
        """The token for the hub; `None` if none is set."""
        return self.token or _read_secret(self.token_file)


class Settings(Struct, frozen=True, kw_only=True):
    """All settings of this run; durations in seconds, sizes in bytes."""

    node: NodeSettings
    agent: AgentSettings
    hub: HubSettings
    client: ClientSettings
    thresholds: Thresholds


def _read_secret(path: str | None, value_type: ValueType = SECRET) -> str | None:
    """Read a secret from its file, only when it is needed: not every user may read it."""
    if path is None:
        return None
    try:
        with open(path, encoding="ascii") as file:
            # Of the open file, not of the path, which may be replaced in between.
            if os.fstat(file.fileno()).st_mode & stat.S_IROTH:
                _warn_world_readable(path)
            # First the form of any secret, with its own message; the stricter type below.
            text = str(SECRET.parse(file.read(_MAX_SECRET)))
    except OSError as error:
        raise UsageError(f"the secret in {path} cannot be read: {error.strerror}") from None
    except ValueError:
        raise UsageError(f"{path} has no secret in it, or more than one line") from None
    try:
        return str(value_type.parse(text))
    except ValueError as error:
        raise UsageError(f"the password in {path} {error}") from None


def _read_secrets(path: str | None) -> dict[str, str]:
    """Read a file with a name and its secret in each line; # starts a comment."""
    if path is None:
        return {}
    try:
        with open(path, encoding="ascii") as file:
            if os.fstat(file.fileno()).st_mode & stat.S_IROTH:
                _warn_world_readable(path)
            lines = [line.partition("#")[0].split() for line in file]
        return {name: str(SECRET.parse(secret)) for name, secret in filter(None, lines)}
    except OSError as error:
        raise UsageError(f"the secrets in {path} cannot be read: {error.strerror}") from None
    except ValueError:
        raise UsageError(f"{path}: write a target and its token in each line") from None


def _warn_world_readable(path: str) -> None:
    import logging  # rarely needed, and slow to import

    message = 'warning="everybody on this machine can read %s: run `chmod o-r` on it"'
    logging.getLogger(__name__).warning(message, path)
