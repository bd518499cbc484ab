"""Run a hub until a signal: flags, logging, event loop and process limits."""

import argparse
import asyncio
import logging
import os
import signal
import sys
import threading
from collections.abc import Callable, Coroutine
from functools import partial
from typing import TYPE_CHECKING, Any

from fleet_smi.cli.service_ready import notify_ready

if TYPE_CHECKING:
    from fleet_smi.config import Settings
    from fleet_smi.server.hub_server import HubServer

logger = logging.getLogger(__name__)
STOP_SECONDS = 7.0
"""How long a hub takes to stop at most; less than the `TimeoutStopSec` of its service."""
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
    "hub.cluster": "cluster",
}


def add_hub_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the flags of a hub; everything else is in its settings."""
    add = parser.add_argument
    add("--listen", metavar="[HOST]:PORT", help="address to listen on (127.0.0.1:7070)")
    add("--state", metavar="DIR", help="folder for its database and state")
    add("--tls", choices=["self-signed"], help="create a certificate, which agents pin")
    add("--tls-cert", metavar="FILE", help="certificate file")
    add("--tls-key", metavar="FILE", help="private key file of the certificate")
    add(
        "--insecure-open",
        action="store_true",
        default=None,
        help="no token needed to view or report",
    )
    add("--pull", metavar="HOST[:PORT],…", help="fetch reports from these agents")
    add("--files", metavar="DIR,…", help="read reports that agents drop in these folders")
    add("--ssh", metavar="HOST,…", help="poll these hosts over ssh; ssh_config patterns allowed")
    add(
        "--cluster",
        metavar="nats://HOST[:PORT],…",
        help="be one of several hubs, connected by NATS; `hub.history` is their PostgreSQL",
    )
    add("--include-self", action="store_true", default=None, help="include this machine")


def load_settings(args: argparse.Namespace) -> "Settings":
    """Load the settings, overridden by the flags."""
    from fleet_smi import config

    return config.load(flags={name: getattr(args, flag) for name, flag in _FLAGS.items()})


def run(settings: "Settings") -> int:
    """Run a hub until a signal."""
    from fleet_smi.hub.sources import build_sources
    from fleet_smi.server.hub_server import HubServer

    configure_logging()
    with HubServer(settings.hub, build_sources(settings), settings.thresholds) as server:
        print(f"fleet-smi hub: {server.url}", flush=True)
        notify_ready()
        if server.warning:
            logger.warning('warning="%s"', server.warning)
        serve_until_signal(server)
    return 0


def serve_until_signal(
    server: "HubServer", *tasks: Callable[[], Coroutine[Any, Any, None]]
) -> None:
    """Run the server and the tasks in one event loop until a signal, or until one ends."""
    import uvloop

    from fleet_smi.hub.garbage_collection import collect_often, short_collections
    from fleet_smi.hub.query_threads import SWITCH_SECONDS

    _raise_file_limit()
    sys.setswitchinterval(SWITCH_SECONDS)
    with (
        short_collections(),
        asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner,
    ):
        # What other tasks leave behind, such as an agent in this process, is not known.
        has_only_reports = (lambda: False) if tasks else server.has_only_reports
        collect = partial(collect_often, lambda: server.hub.reports_received, has_only_reports)
        runner.run(_run_until_signal(server.reload, server.run, collect, *tasks))


async def _run_until_signal(
    reload: Callable[[], None], *functions: Callable[[], Coroutine[Any, Any, None]]
) -> None:
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()

    def stop_soon() -> None:
        stop.set()
        start_stop_watchdog(STOP_SECONDS)

    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop_soon)
    # A terminal that is closed sends it too: what was started there ends with it.
    if sys.stdin is not None and sys.stdin.isatty():
        loop.add_signal_handler(signal.SIGHUP, stop_soon)
    else:
        loop.add_signal_handler(signal.SIGHUP, lambda: loop.run_in_executor(None, reload))
    stopped = asyncio.ensure_future(stop.wait())
    tasks = [asyncio.ensure_future(function()) for function in functions]
    await asyncio.wait((stopped, *tasks), return_when=asyncio.FIRST_COMPLETED)
    for task in (stopped, *tasks):
        task.cancel()
    # All are awaited before one error is raised, so that each can shut down cleanly.
    for result in await asyncio.gather(*tasks, return_exceptions=True):
        if isinstance(result, Exception):
            raise result


def start_stop_watchdog(seconds: float) -> None:
    """End the process after a time, whatever it still has to write or to wait for.

    What is unwritten then was never called durable: agents send it again to the next hub. Ended
    by the service manager, the process would leave no word about it.
    """

    def end() -> None:
        logger.warning("stopped after %g s: what was not written yet is sent again", seconds)
        logging.shutdown()
        os._exit(0)

    watchdog = threading.Timer(seconds, end)
    watchdog.daemon = True
    watchdog.start()


def _raise_file_limit() -> None:
    """Raise the limit of open files to the maximum: each node holds a connection."""
    import resource

    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))


def configure_logging() -> None:
    """Log `key=value` lines to stderr."""
    logging.basicConfig(
        level=logging.INFO,
        stream=sys.stderr,
        format="time=%(asctime)s level=%(levelname)s logger=%(name)s %(message)s",
        datefmt="%Y-%m-%dT%H:%M:%S%z",
    )
    for noisy in ("httpx", "httpcore", "uvicorn.error"):
        logging.getLogger(noisy).setLevel(logging.WARNING)
