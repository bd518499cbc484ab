"""The settings table: one row per setting with its value type, default and description."""

from fleet_smi.config import value_types
from fleet_smi.config.addresses import ListenAddress
from fleet_smi.config.otlp_rows import OTLP_ROWS
from fleet_smi.config.queue_rows import QUEUE_ROWS
from fleet_smi.config.remote_write_rows import REMOTE_WRITE_ROWS
from fleet_smi.config.setting_row import Setting, secret_rows
from fleet_smi.config.verdict_rows import VERDICT_ROWS
from fleet_smi.model.units import GIB, MIB

_OFF = False  # as the default of a row, clearer than a bare False
_HOUR, _DAY = 3600.0, 86400.0
_COMMANDS = "how much of command lines is shown: full, script, name or hidden"
_DRIVER_TIMEOUT = "how long a driver may make no progress before it counts as hung"
_DRIVER_INIT_TIMEOUT = "the same while it is being initialised"
_PUBLIC_URL = "https://gpu.example.org/gpus"
_ROUTER, _NODES, _CLIENTS = (
    ListenAddress("old", 9080),
    ListenAddress("", 9080),
    ListenAddress("", 9081),
)
_GET_STATUS = "the password of POST /get-status, served if set"
_TO = "the hub, or hubs, to report to"
_PIN = "the hub's certificate, from its join line"
_SITES, _SITE_PIN = {"berlin": "https://hub.example.org:7070"}, {"berlin": f"sha256:{'0' * 64}"}
_SITE_TOKENS, _SITE_PINS = "a file with a token for each of them", "the certificates of these hubs"

_SOCKET = "the socket for commands of local users, or off"
_LEASE_DIR = "the folder with the locks of leased GPUs"

SETTINGS: tuple[Setting, ...] = (
    Setting("node", "name", value_types.NAME, None, "the name of this machine", "gpu01"),
    Setting("node", "root", value_types.FOLDER, "/", "the folder with /proc and /sys"),
    Setting("node", "labels", value_types.LABELS, {}, "labels of this machine", {"rack": "a"}),
    Setting("node", "commands", value_types.COMMANDS, "full", _COMMANDS),
    Setting("node", "driver_timeout", value_types.INTERVAL, 10.0, _DRIVER_TIMEOUT),
    Setting("node", "driver_init_timeout", value_types.INTERVAL, 60.0, _DRIVER_INIT_TIMEOUT),
    Setting("node", "lease_dir", value_types.PATH, None, _LEASE_DIR, "/run/lock"),
    Setting("agent", "to", value_types.HUB_URLS, None, _TO, "https://hub:7070"),
    Setting(
        "agent",
        "serve",
        value_types.ADDRESS,
        None,
        "where hubs may fetch reports",
        ListenAddress("", 7071),
    ),
    *secret_rows("agent", "serve_token", "the token that a hub must send"),
    Setting(
        "agent", "hosts", value_types.HOSTS, (), "more host names to accept", ("gpu-a.example.org",)
    ),
    Setting("agent", "drop", value_types.PATH, None, "a folder for reports", "/nfs/gpu-status"),
    Setting("agent", "drop_mode", value_types.MODE, 0o644, "the mode of files in that folder"),
    Setting(
        "agent",
        "drop_commands",
        value_types.COMMANDS,
        None,
        "how much of command lines these files show",
        "name",
    ),
    Setting(
        "agent",
        "drop_format",
        value_types.DROP_FORMAT,
        "report",
        "the format of these files: report, gpustat or gpustat-text",
    ),
    Setting(
        "agent",
        "cluster_smi",
        value_types.ADDRESS,
        None,
        "a router of cluster-smi to send to",
        _ROUTER,
    ),
    *secret_rows("agent", "get_status_password", _GET_STATUS, value_types.PASSWORD),
    Setting("agent", "interval", value_types.INTERVAL, 2.0, "the interval between samples"),
    *secret_rows("agent", "join", "the token to join the hub with"),
    Setting("agent", "fingerprint", value_types.FINGERPRINT, None, _PIN, f"sha256:{'0' * 64}"),
    Setting(
        "agent",
        "state",
        value_types.PATH,
        None,
        "the folder of its saved state",
        "/var/lib/fleet-smi/agent",
    ),
    Setting("agent", "spool", value_types.SIZE, 32 * MIB, "the size limit of the buffer on disk"),
    Setting("agent", "socket", value_types.PATH_OR_OFF, None, _SOCKET, "/run/fleet-smi/agent.sock"),
    Setting(
        "hub", "listen", value_types.ADDRESS, ListenAddress("127.0.0.1", 7070), "where to listen"
    ),
    Setting(
        "hub", "hosts", value_types.HOSTS, (), "more host names to accept", ("gpu.example.org",)
    ),
    Setting(
        "hub", "base_path", value_types.URL_PATH, None, "its path at a proxy, if not /", "/gpus"
    ),
    Setting("hub", "public_url", value_types.URL, None, "its URL at a proxy", _PUBLIC_URL),
    Setting(
        "hub",
        "state",
        value_types.PATH,
        None,
        "the folder of its saved state",
        "/var/lib/fleet-smi/hub",
    ),
    Setting("hub", "tls", value_types.TLS, None, "generate a certificate", "self-signed"),
    Setting(
        "hub", "tls_cert", value_types.PATH, None, "its certificate", "/etc/fleet-smi/cert.pem"
    ),
    Setting(
        "hub",
        "tls_key",
        value_types.PATH,
        None,
        "the key of that certificate",
        "/etc/fleet-smi/key.pem",
    ),
    Setting(
        "hub",
        "insecure_open",
        value_types.BOOLEAN,
        _OFF,
        "no login: open to everybody who can connect",
    ),
    Setting(
        "hub",
        "interval",
        value_types.INTERVAL,
        None,
        "how often agents should report",
        10.0,
    ),
    Setting(
        "hub", "include_self", value_types.BOOLEAN, _OFF, "add the hub's own machine to the fleet"
    ),
    Setting("hub", "pull", value_types.TARGETS, (), "agents to poll", ("gpu01:7071", "gpu02:7071")),
    Setting("hub", "pull_interval", value_types.INTERVAL, 2.0, "how often to poll them"),
    *secret_rows("hub", "pull_token", "the token that these agents require"),
    Setting(
        "hub",
        "pull_tokens_file",
        value_types.PATH,
        None,
        "a file with a token for each of them",
        "/etc/fleet-smi/pull-tokens",
    ),
    Setting("hub", "files", value_types.PATHS, (), "folders with reports", ("/nfs/gpu-status",)),
    Setting("hub", "files_interval", value_types.INTERVAL, 5.0, "how often to read them"),
    Setting("hub", "ssh", value_types.SSH_HOSTS, (), "hosts to reach by ssh", ("gpu03", "lab-*")),
    Setting(
        "hub", "ssh_hosts_file", value_types.PATH, None, "a list of such hosts", "/etc/hosts.txt"
    ),
    Setting(
        "hub", "ssh_config", value_types.PATH, None, "ssh's own settings", "/etc/ssh/ssh_config"
    ),
    Setting("hub", "ssh_interval", value_types.INTERVAL, 10.0, "how often to connect to them"),
    Setting(
        "hub", "ssh_key", value_types.PATH, None, "the key to log in with", "/etc/fleet-smi/ssh-key"
    ),
    Setting(
        "hub",
        "trusted_transports",
        value_types.TRANSPORTS,
        (),
        "transports that may report for every node",
        ("ssh",),
    ),
    Setting("hub", "sites", value_types.SITES, {}, "hubs of other sites to show", _SITES),
    *secret_rows("hub", "site_token", "the viewer's token for these hubs"),
    Setting(
        "hub", "site_tokens_file", value_types.PATH, None, _SITE_TOKENS, "/etc/fleet-smi/sites"
    ),
    Setting("hub", "site_fingerprints", value_types.FINGERPRINTS, {}, _SITE_PINS, _SITE_PIN),
    Setting("hub", "nvgpu", value_types.TARGETS, (), "agents of nvgpu to poll", ("gpu04:1080",)),
    Setting("hub", "nvgpu_interval", value_types.INTERVAL, 5.0, "how often to poll them"),
    Setting(
        "hub", "node_info", value_types.TARGETS, (), "nodes of gpu-cluster-monitor", ("gpu05:7080",)
    ),
    Setting("hub", "node_info_interval", value_types.INTERVAL, 4.0, "how often to poll them"),
    *secret_rows("hub", "node_info_password", "the password that these nodes require"),
    Setting(
        "hub",
        "cluster_smi_nodes",
        value_types.ADDRESS,
        None,
        "where nodes of cluster-smi push to",
        _NODES,
    ),
    Setting(
        "hub",
        "cluster_smi_clients",
        value_types.ADDRESS,
        None,
        "where clients of cluster-smi connect",
        _CLIENTS,
    ),
    Setting("hub", "cluster_smi_open", value_types.BOOLEAN, _OFF, "allow both from other machines"),
    Setting(
        "hub",
        "cluster_smi_routers",
        value_types.TARGETS,
        (),
        "routers of cluster-smi to poll",
        ("old:9081",),
    ),
    Setting("hub", "cluster_smi_interval", value_types.INTERVAL, 3.0, "how often to poll them"),
    *secret_rows("hub", "get_status_password", _GET_STATUS, value_types.PASSWORD),
    Setting(
        "hub",
        "trusted_proxies",
        value_types.NETWORKS,
        (),
        "proxies that may name the user",
        ("127.0.0.1/32",),
    ),
    Setting(
        "hub",
        "user_header",
        value_types.HEADER,
        None,
        "the header with the user's name",
        "X-Remote-User",
    ),
    Setting("hub", "admins", value_types.NAMES, (), "users who are admins", ("alice",)),
    Setting("hub", "commands_for_viewers", value_types.COMMANDS, "name", _COMMANDS),
    Setting("hub", "commands_for_admins", value_types.COMMANDS, "full", _COMMANDS),
    Setting(
        "hub",
        "stream_interval",
        value_types.INTERVAL,
        1.0,
        "how often changes are sent to subscribers",
    ),
    Setting("hub", "remember_interval", value_types.INTERVAL, 5.0, "how often nodes are saved"),
    Setting("hub", "nodes_most", value_types.COUNT, 20_000, "how many nodes it may have"),
    Setting("hub", "node_budget", value_types.DURATION, 10.0, "work that a node may cause at once"),
    *QUEUE_ROWS,
    Setting(
        "hub", "history", value_types.HISTORY, None, "the database of the history, or off", "off"
    ),
    Setting(
        "hub", "cluster", value_types.NATS_URLS, (), "NATS between hubs", ("nats://nats:4222",)
    ),
    *secret_rows("hub", "cluster_token", "the token that NATS requires"),
    Setting("hub", "cluster_open", value_types.BOOLEAN, _OFF, "allow NATS without a token"),
    Setting(
        "hub",
        "history_keep_10s",
        value_types.DURATION,
        6 * _HOUR,
        "how long to keep figures of 10 s",
    ),
    Setting(
        "hub",
        "history_keep_1m",
        value_types.DURATION,
        14 * _DAY,
        "how long to keep figures of 1 min",
    ),
    Setting(
        "hub",
        "history_keep_15m",
        value_types.DURATION,
        365 * _DAY,
        "how long to keep figures of 15 min",
    ),
    Setting(
        "hub",
        "history_keep_ledger",
        value_types.DURATION,
        365 * _DAY,
        "how long to keep who held which GPU",
    ),
    Setting("hub", "history_most", value_types.SIZE, 10 * GIB, "the size limit of the history"),
    Setting(
        "hub",
        "energy_price",
        value_types.PRICE,
        None,
        "the price of a kilowatt hour, for reports",
        0.3,
    ),
    Setting("hub", "currency", value_types.NAME, None, "the currency of that price", "EUR"),
    *REMOTE_WRITE_ROWS,
    *OTLP_ROWS,
    Setting("client", "hub", value_types.URL, None, "the hub to use", "https://hub:7070"),
    *secret_rows("client", "token", "the token for the hub"),
    Setting("client", "fingerprint", value_types.FINGERPRINT, None, _PIN, f"sha256:{'0' * 64}"),
    *VERDICT_ROWS,
)
"""More about each is in docs/settings.md; a test keeps the two equal."""

MUTUALLY_EXCLUSIVE: tuple[tuple[tuple[str, ...], tuple[str, ...]], ...] = (
    *(((setting.name,), (f"{setting.name}_file",)) for setting in SETTINGS if setting.is_secret),
    (("hub.tls",), ("hub.tls_cert", "hub.tls_key")),
)
"""Alternatives: a stronger source that sets one of them unsets the other."""
