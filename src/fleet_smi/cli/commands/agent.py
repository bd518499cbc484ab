"""`fleet-smi agent`: report this machine to a hub, a folder or a pipe, or serve its reports."""

import argparse
import os
import random
import signal
import sys
import time
from typing import TYPE_CHECKING

from fleet_smi.cli.join_token import add_join_arguments, clear_join_variable, take_join_token
from fleet_smi.cli.service_ready import notify_ready
from fleet_smi.errors import UsageError
from fleet_smi.node.outlets import OUTLETS, OutletOptions, build_outlets
from fleet_smi.node.reader import Reader
from fleet_smi.node.thread_reader import thread_then_process

if TYPE_CHECKING:
    from fleet_smi.node.agent import Agent

HELP = "report this machine to a hub, a shared folder or a pipe, or serve its reports over HTTP"
EXAMPLES = """\
  echo TOKEN | fleet-smi agent --to https://gpuhub:7070 --join-file - --fingerprint sha256:…
  fleet-smi agent --serve :7071 --serve-token-file /etc/fleet-smi/serve-token
  fleet-smi agent --drop /nfs/gpu-status
  fleet-smi agent --drop /nfs/gpu-status --once --jitter 20     (from cron)
  fleet-smi agent --stdout --once
  sudo fleet-smi agent upgrade                     to the hub's version
"""
_SETTING_FLAGS = (
    "join",
    "join_file",
    "fingerprint",
    "serve_token_file",
    "drop_mode",
    "drop_format",
    "interval",
    "state",
)
_STOP_SIGNALS = (signal.SIGTERM, signal.SIGINT)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the flags: one per outlet, and those that override a setting."""
    add = parser.add_argument
    for outlet in OUTLETS:
        if outlet.metavar is None:
            add(outlet.flag, action="store_true", help=outlet.help)
        else:
            add(outlet.flag, metavar=outlet.metavar, help=outlet.help)
    add_join_arguments(parser)
    add("--fingerprint", metavar="sha256:…", help="accept only this certificate of the hub")
    add("--serve-token-file", metavar="FILE", help="file with the token --serve requires")
    add("--insecure-open", action="store_true", help="with --serve: no token required")
    add("--drop-mode", metavar="MODE", help="mode of the dropped file: 0644 or 0600 (0644)")
    add(
        "--drop-format",
        metavar="FORMAT",
        help="format of the dropped file: report, gpustat (JSON) or gpustat-text (report)",
    )
    add("--interval", metavar="SECONDS", help="sample every N seconds (2)")
    add("--once", action="store_true", help="send one sample, then exit")
    add("--jitter", type=float, default=0.0, metavar="SECONDS", help="with --once: random delay")
    add("--state", metavar="DIR", help="folder for unsent samples and the credential")
    actions = parser.add_subparsers(dest="action", metavar="ACTION")
    upgrade = actions.add_parser("upgrade", help="install the hub's version; roll back if it fails")
    upgrade.add_argument(
        "--wait",
        type=float,
        metavar="SECONDS",
        default=60.0,
        help="limit for its first report (60)",
    )
    upgrade.add_argument("--insecure-http", action="store_true", help="accept it unencrypted")


def run(args: argparse.Namespace) -> int:
    """Report until a signal; with `--once`, raise `DeliveryError` if the report fails."""
    if args.action == "upgrade":
        # Not with the others: an agent that runs needs none of it.
        from fleet_smi.cli import agent_upgrade

        return agent_upgrade.run(args)
    if args.jitter and not args.once:
        raise UsageError("--jitter needs --once: a running agent has its own jitter")
    args.join = take_join_token(args)
    # Cron starts all nodes in the same second: spread their load on the hub or file server.
    time.sleep(max(0.0, args.jitter) * random.random())  # noqa: S311
    # Started first, so that it loads the driver's library during the imports of `_agent`.
    reader = Reader(thread_then_process())
    reader.preload("nvidia")
    agent = _agent(args, reader)
    try:
        # Only after all imports: an exception in the middle of one can crash the interpreter.
        for number in _STOP_SIGNALS:
            signal.signal(number, agent.stop)
        notify_ready()
        agent.run_once() if args.once else agent.run()
    except KeyboardInterrupt:
        return 0
    finally:
        # A second signal must not interrupt closing, which saves unsent samples.
        for number in _STOP_SIGNALS:
            signal.signal(number, signal.SIG_IGN)
        agent.close()
    return 0


def _agent(args: argparse.Namespace, reader: Reader) -> "Agent":
    from fleet_smi import config
    from fleet_smi.node.agent import Agent
    from fleet_smi.node.sampler import Sampler, driver_deadlines

    settings = config.load(flags=_flags(args))
    clear_join_variable()
    node = settings.node
    reader.deadlines = driver_deadlines(node)
    sampler = Sampler(
        reader,
        root=node.root,
        patient=args.once,
        name=node.name,
        run_id=os.urandom(8).hex(),
        labels=node.labels,
        lease_dir=node.lease_dir,
    )
    sampler.prefetch()
    _log_to_stderr()
    requested = [outlet.option for outlet in OUTLETS if getattr(args, outlet.option)]
    outlets = build_outlets(OutletOptions(settings.agent, args.insecure_open), requested)
    return Agent(
        sampler,
        outlets,
        interval_seconds=settings.agent.interval,
        command_visibility=node.commands,
    )


def _flags(args: argparse.Namespace) -> dict[str, str | None]:
    """Return the flags that override settings; `--stdout` has no setting."""
    keys = (*(outlet.option for outlet in OUTLETS if outlet.metavar), *_SETTING_FLAGS)
    return {f"agent.{key}": getattr(args, key) for key in keys}


def _log_to_stderr() -> None:
    import logging

    logging.basicConfig(
        level=logging.INFO,
        stream=sys.stderr,
        format="time=%(asctime)s level=%(levelname)s %(message)s",
        datefmt="%Y-%m-%dT%H:%M:%S%z",
    )
