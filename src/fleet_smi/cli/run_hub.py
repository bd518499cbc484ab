"""How a hub is run from the command line: its flags, its sources, its first words, its end."""

import argparse
import asyncio
import gc
import logging
import signal
import sys
from collections.abc import Callable, Coroutine
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from fleet_smi.config import Settings
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
    from fleet_smi.hub.sources import build_sources
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
