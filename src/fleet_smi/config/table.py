"""The settings table: every setting, its kind, its default and what it means in one line."""

from typing import Any

from msgspec import Struct

from fleet_smi.config import value_types
from fleet_smi.config.addresses import ListenAddress
from fleet_smi.config.value_types import ValueType
from fleet_smi.model.units import GIB, MIB
from fleet_smi.model.verdict.thresholds import DEFAULT_THRESHOLDS as LAW


class Setting(Struct, frozen=True):
    """One row of the table; `section.key` in the file, `FLEET_SMI_SECTION_KEY` outside."""

    section: str
    key: str
    value_type: ValueType
    default: Any
    description: str
    example: Any = None
    """What could stand there, for a setting whose default is nothing."""

    @property
    def name(self) -> str:
        return f"{self.section}.{self.key}"

    @property
    def environment_variable(self) -> str:
        return f"FLEET_SMI_{self.section}_{self.key}".upper()

    @property
    def is_secret(self) -> bool:
        return self.value_type in (value_types.SECRET, value_types.PASSWORD)


def _secret(
    section: str, key: str, meaning: str, kind: ValueType = value_types.SECRET
) -> tuple[Setting, Setting]:
    """A secret has two rows: itself, and the file that it may be in instead."""
    file = f"/etc/fleet-smi/{key.replace('_', '-')}"
    return (
        Setting(section, key, kind, None, meaning, "the-token"),
        Setting(section, f"{key}_file", value_types.PATH, None, f"a file with {meaning}", file),
    )


_OFF = False
_HOUR, _DAY = 3600.0, 86400.0
_WORDS = "how much of command lines is told: full, name or hidden"
_ROUTER, _NODES, _CLIENTS = (
    ListenAddress("old", 9080),
    ListenAddress("", 9080),
    ListenAddress("", 9081),
)
_GET_STATUS = "the password of POST /get-status, served if set"
_PIN = "the hub's certificate, from its join line"

SETTINGS: tuple[Setting, ...] = (
    Setting("node", "name", value_types.NAME, None, "the name of this machine", "gpu01"),
    Setting("node", "root", value_types.FOLDER, "/", "where /proc and /sys are found"),
    Setting("node", "labels", value_types.LABELS, {}, "labels of this machine", {"rack": "a"}),
    Setting("node", "commands", value_types.COMMANDS, "full", _WORDS),
    Setting("agent", "to", value_types.URL, None, "the hub to report to", "https://hub:7070"),
    Setting(
        "agent", "serve", value_types.ADDRESS, None, "where hubs may ask", ListenAddress("", 7071)
    ),
    *_secret("agent", "serve_token", "the token that a hub must show to ask"),
    Setting(
        "agent", "hosts", value_types.HOSTS, (), "more names it is asked by", ("gpu-a.example.org",)
    ),
    Setting("agent", "drop", value_types.PATH, None, "a folder for reports", "/nfs/gpu-status"),
    Setting("agent", "drop_mode", value_types.MODE, 0o644, "the mode of files in that folder"),
    Setting(
        "agent",
        "drop_format",
        value_types.DROP_FORMAT,
        "report",
        "what is in them: report, gpustat",
    ),
    Setting(
        "agent",
        "cluster_smi",
        value_types.ADDRESS,
        None,
        "a router of cluster-smi to tell",
        _ROUTER,
    ),
    *_secret("agent", "get_status_password", _GET_STATUS, value_types.PASSWORD),
    Setting("agent", "interval", value_types.INTERVAL, 2.0, "how often to look and report"),
    *_secret("agent", "join", "the token to join the hub with"),
    Setting("agent", "fingerprint", value_types.FINGERPRINT, None, _PIN, f"sha256:{'0' * 64}"),
    Setting("agent", "state", value_types.PATH, None, "what it keeps", "/var/lib/fleet-smi/agent"),
    Setting("agent", "spool", value_types.SIZE, 32 * MIB, "how much to keep while the hub is away"),
    Setting(
        "hub", "listen", value_types.ADDRESS, ListenAddress("127.0.0.1", 7070), "where to listen"
    ),
    Setting(
        "hub", "hosts", value_types.HOSTS, (), "more names it is called by", ("gpu.example.org",)
    ),
    Setting("hub", "state", value_types.PATH, None, "what it keeps", "/var/lib/fleet-smi/hub"),
    Setting("hub", "tls", value_types.TLS, None, "a certificate of its own making", "self-signed"),
    Setting(
        "hub", "tls_cert", value_types.PATH, None, "its certificate", "/etc/fleet-smi/cert.pem"
    ),
    Setting("hub", "tls_key", value_types.PATH, None, "the key of that", "/etc/fleet-smi/key.pem"),
    Setting("hub", "insecure_open", value_types.BOOLEAN, _OFF, "open to all who reach it"),
    Setting("hub", "interval", value_types.INTERVAL, None, "what agents are asked for", 10.0),
    Setting("hub", "include_self", value_types.BOOLEAN, _OFF, "its own machine is in the fleet"),
    Setting("hub", "pull", value_types.TARGETS, (), "agents to ask", ("gpu01:7071", "gpu02:7071")),
    Setting("hub", "pull_interval", value_types.INTERVAL, 2.0, "how often to ask them"),
    *_secret("hub", "pull_token", "the token that these agents want to see"),
    Setting("hub", "files", value_types.PATHS, (), "folders with reports", ("/nfs/gpu-status",)),
    Setting("hub", "files_interval", value_types.INTERVAL, 5.0, "how often to look into them"),
    Setting("hub", "ssh", value_types.SSH_HOSTS, (), "hosts to reach by ssh", ("gpu03", "lab-*")),
    Setting(
        "hub", "ssh_hosts_file", value_types.PATH, None, "a list of such hosts", "/etc/hosts.txt"
    ),
    Setting(
        "hub", "ssh_config", value_types.PATH, None, "ssh's own settings", "/etc/ssh/ssh_config"
    ),
    Setting("hub", "ssh_interval", value_types.INTERVAL, 10.0, "how often to look at them"),
    Setting(
        "hub", "ssh_key", value_types.PATH, None, "the key to log in with", "/etc/fleet-smi/ssh-key"
    ),
    Setting("hub", "nvgpu", value_types.TARGETS, (), "agents of nvgpu to ask", ("gpu04:1080",)),
    Setting("hub", "nvgpu_interval", value_types.INTERVAL, 5.0, "how often to ask them"),
    Setting(
        "hub", "node_info", value_types.TARGETS, (), "nodes of gpu-cluster-monitor", ("gpu05:7080",)
    ),
    Setting("hub", "node_info_interval", value_types.INTERVAL, 4.0, "how often to ask them"),
    *_secret("hub", "node_info_password", "the password that these nodes want"),
    Setting("hub", "cluster_smi_nodes", value_types.ADDRESS, None, "where its nodes push", _NODES),
    Setting(
        "hub", "cluster_smi_clients", value_types.ADDRESS, None, "where its clients ask", _CLIENTS
    ),
    Setting(
        "hub", "cluster_smi_open", value_types.BOOLEAN, _OFF, "these two to all who reach them"
    ),
    Setting(
        "hub", "cluster_smi_routers", value_types.TARGETS, (), "its routers to ask", ("old:9081",)
    ),
    Setting("hub", "cluster_smi_interval", value_types.INTERVAL, 3.0, "how often to ask them"),
    *_secret("hub", "get_status_password", _GET_STATUS, value_types.PASSWORD),
    Setting(
        "hub", "trusted_proxies", value_types.NETWORKS, (), "proxies to believe", ("127.0.0.1/32",)
    ),
    Setting(
        "hub", "user_header", value_types.HEADER, None, "the user, told by them", "X-Remote-User"
    ),
    Setting("hub", "admins", value_types.NAMES, (), "such users who are admins", ("alice",)),
    Setting("hub", "commands_for_viewers", value_types.COMMANDS, "name", _WORDS),
    Setting("hub", "commands_for_admins", value_types.COMMANDS, "full", _WORDS),
    Setting("hub", "stream_interval", value_types.INTERVAL, 1.0, "how often changes are sent out"),
    Setting(
        "hub", "remember_interval", value_types.INTERVAL, 5.0, "how often they are written down"
    ),
    Setting("hub", "history", value_types.HISTORY, None, "where the past is kept, or off", "off"),
    Setting(
        "hub", "history_keep_10s", value_types.DURATION, 6 * _HOUR, "figures every 10 s, so long"
    ),
    Setting(
        "hub", "history_keep_1m", value_types.DURATION, 14 * _DAY, "figures every minute, so long"
    ),
    Setting(
        "hub", "history_keep_15m", value_types.DURATION, 365 * _DAY, "every 15 minutes, so long"
    ),
    Setting(
        "hub", "history_keep_ledger", value_types.DURATION, 365 * _DAY, "who held what, so long"
    ),
    Setting(
        "hub", "history_most", value_types.SIZE, 10 * GIB, "what all of it may take on the disk"
    ),
    Setting("hub", "energy_price", value_types.PRICE, None, "of a kilowatt hour, for reports", 0.3),
    Setting("hub", "currency", value_types.NAME, None, "of that price", "EUR"),
    Setting("client", "hub", value_types.URL, None, "the hub to ask", "https://hub:7070"),
    *_secret("client", "token", "the token to show it"),
    Setting("client", "fingerprint", value_types.FINGERPRINT, None, _PIN, f"sha256:{'0' * 64}"),
    Setting(
        "verdict", "free_memory", value_types.SIZE, LAW.free_memory_bytes, "less in use is free"
    ),
    Setting(
        "verdict",
        "free_memory_fraction",
        value_types.FRACTION,
        LAW.free_memory_fraction,
        "a lesser share in use is free",
    ),
    Setting("verdict", "idle_percent", value_types.PERCENT, LAW.idle_percent, "less load is idle"),
    Setting(
        "verdict",
        "idle_window",
        value_types.DURATION,
        LAW.idle_window_seconds,
        "idle so long is held",
    ),
    Setting(
        "verdict",
        "idle_power_fraction",
        value_types.FRACTION,
        LAW.idle_power_fraction,
        "a lesser share of its power limit is near idle",
    ),
    Setting(
        "verdict",
        "silent_after",
        value_types.COUNT,
        LAW.silent_after_intervals,
        "so many missed reports are silence",
    ),
)
"""More about each is in docs/settings.md; a test keeps the two equal."""

MUTUALLY_EXCLUSIVE: tuple[tuple[tuple[str, ...], tuple[str, ...]], ...] = (
    *(((setting.name,), (f"{setting.name}_file",)) for setting in SETTINGS if setting.is_secret),
    (("hub.tls",), ("hub.tls_cert", "hub.tls_key")),
)
"""Two ways to say one thing: a stronger source that says it one way silences the other."""
