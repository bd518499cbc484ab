"""How a hub is run from the command line: its flags, its sources, its first words, its end."""

import argparse
import asyncio
import gc
import logging
import signal
import sys
from collections.abc import Callable, Coroutine
from typing import TYPE_CHECKING, Any

from fleet_smi.errors import UsageError

if TYPE_CHECKING:
    from fleet_smi.config import Settings
    from fleet_smi.fleet.delivery import Source
    from fleet_smi.server.hub_server import HubServer

logger = logging.getLogger(__name__)
_SELDOM = (50_000, 20, 100)
_FLAGS = {
    "hub.listen": "listen",
    "hub.state": "state",
    "hub.tls": "tls",
    "hub.tls_cert": "tls_cert",
    "hub.tls_key": "tls_key",
    "hub.insecure_open": "insecure_open",
    "hub.pull": "pull",
    "hub.files": "files",
    "hub.ssh": "ssh",
    "hub.include_self": "include_self",
}


def add_hub_arguments(parser: argparse.ArgumentParser) -> None:
    """The flags of a hub; all else is in its settings."""
    add = parser.add_argument
    add("--listen", metavar="[HOST]:PORT", help="where (default: 127.0.0.1:7070, this machine)")
    add("--state", metavar="DIR", help="where it keeps what it must not forget")
    add("--tls", choices=["self-signed"], help="a certificate of its own, pinned by agents")
    add("--tls-cert", metavar="FILE", help="a certificate that others trust")
    add("--tls-key", metavar="FILE", help="its key")
    add("--insecure-open", action="store_true", default=None, help="anybody may look and report")
    add("--pull", metavar="HOST[:PORT],…", help="agents that serve their reports")
    add("--files", metavar="DIR,…", help="folders that agents drop reports in")
    add("--ssh", metavar="HOST,…", help="machines without an agent, or patterns of ssh_config")
    add("--include-self", action="store_true", default=None, help="this machine as well")


def load_settings(args: argparse.Namespace) -> "Settings":
    """The settings, with these flags over them."""
    from fleet_smi import config

    return config.load(flags={name: getattr(args, flag) for name, flag in _FLAGS.items()})


def run(settings: "Settings") -> int:
    """Run a hub until told to end."""
    from fleet_smi.server.hub_server import HubServer

    configure_logging()
    with HubServer(settings.hub, build_sources(settings), settings.thresholds) as server:
        print(f"fleet-smi hub: {server.url}", flush=True)
        if server.warning:
            logger.warning('warning="%s"', server.warning)
        serve_until_signal(server)
    return 0


def serve_until_signal(
    server: "HubServer", *tasks: Callable[[], Coroutine[Any, Any, None]]
) -> None:
    """The hub and what runs beside it on its event loop, until a signal ends them all."""
    import uvloop

    _allow_connections()
    # What is believed has no cycles: looking for them takes as long as hundreds of reports.
    gc.freeze()
    gc.set_threshold(*_SELDOM)
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(_until_told(server.run, *tasks))


async def _until_told(*parts: Callable[[], Coroutine[Any, Any, None]]) -> None:
    told = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        asyncio.get_running_loop().add_signal_handler(number, told.set)
    waiting = asyncio.ensure_future(told.wait())
    running = [asyncio.ensure_future(part()) for part in parts]
    await asyncio.wait((waiting, *running), return_when=asyncio.FIRST_COMPLETED)
    for task in (waiting, *running):
        task.cancel()
    for result in await asyncio.gather(*running, return_exceptions=True):
        if isinstance(result, Exception):
            raise result


def _allow_connections() -> None:
    """Every node has a connection: as many files as the system lets us have."""
    import resource

    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))


def configure_logging() -> None:
    """Log lines of `key=value` to the error stream, as journals like them."""
    logging.basicConfig(
        level=logging.INFO,
        stream=sys.stderr,
        format="time=%(asctime)s level=%(levelname)s room=%(name)s %(message)s",
        datefmt="%Y-%m-%dT%H:%M:%S%z",
    )
    for noisy in ("httpx", "httpcore", "uvicorn.error"):
        logging.getLogger(noisy).setLevel(logging.WARNING)


def build_sources(settings: "Settings") -> list["Source"]:
    """The ways that the settings name, beside reports that come by themselves."""
    hub = settings.hub
    sources: list[Source] = []
    if hub.pull:
        from fleet_smi.hub.sources.pull import PullSource

        token = hub.read_pull_token()
        sources.append(PullSource(hub.pull, token=token, interval_seconds=hub.pull_interval))
    for folder in hub.files:
        from fleet_smi.hub.sources.files import FilesSource

        sources.append(FilesSource(folder, interval_seconds=hub.files_interval))
    if hub.ssh or hub.ssh_hosts_file:
        sources.append(_ssh(settings))
    if hub.nvgpu:
        from fleet_smi.compat.nvgpu.source import NvgpuSource

        sources.append(NvgpuSource(hub.nvgpu, interval_seconds=hub.nvgpu_interval))
    if hub.node_info:
        sources.append(_node_info(settings))
    if hub.cluster_smi_nodes or hub.cluster_smi_routers:
        sources.append(_cluster_smi(settings))
    if hub.include_self:
        sources.append(_this_machine(settings))
    return sources


def _node_info(settings: "Settings") -> "Source":
    from fleet_smi.compat.node_info.source import NodeInfoSource

    hub = settings.hub
    password = hub.read_node_info_password()
    if password is None:
        raise UsageError(
            "hub.node_info needs the password of these nodes: set hub.node_info_password_file"
        )
    return NodeInfoSource(hub.node_info, password=password, interval_seconds=hub.node_info_interval)


def _cluster_smi(settings: "Settings") -> "Source":
    from fleet_smi.compat.cluster_smi.sockets import resolve_bind_endpoint
    from fleet_smi.compat.cluster_smi.source import ClusterSmiSource

    hub = settings.hub
    nodes = hub.cluster_smi_nodes
    return ClusterSmiSource(
        listen_endpoint=nodes and resolve_bind_endpoint(*nodes, open_to_all=hub.cluster_smi_open),
        routers=hub.cluster_smi_routers,
        interval_seconds=hub.cluster_smi_interval,
    )


def _ssh(settings: "Settings") -> "Source":
    from fleet_smi.hub.sources.ssh import SshSource, expand_hosts, read_hosts_file

    hub = settings.hub
    listed = read_hosts_file(hub.ssh_hosts_file) if hub.ssh_hosts_file else ()
    hosts = expand_hosts([*hub.ssh, *listed], hub.ssh_config)
    return SshSource(
        hosts, interval_seconds=hub.ssh_interval, config=hub.ssh_config, key=hub.ssh_key
    )


def _this_machine(settings: "Settings") -> "Source":
    from fleet_smi.hub.sources.self import SelfSource
    from fleet_smi.node.reader_process import Reader, spawn_worker
    from fleet_smi.node.sampler import Sampler

    node = settings.node
    sampler = Sampler(Reader(spawn_worker), root=node.root, name=node.name, labels=node.labels)
    return SelfSource(sampler.sample, settings.agent.interval)
