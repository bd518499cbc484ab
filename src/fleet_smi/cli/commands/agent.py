"""`fleet-smi agent`: report this machine's GPUs to a hub, a folder, a pipe, or whoever asks."""

import argparse
import os
import random
import signal
import sys
import time
from typing import TYPE_CHECKING

from fleet_smi.errors import UsageError
from fleet_smi.node.reader_process import Reader
from fleet_smi.node.thread_reader import thread_then_process

if TYPE_CHECKING:
    from fleet_smi.config import Settings
    from fleet_smi.config.settings import AgentSettings
    from fleet_smi.node.agent import Agent, Outlet

HELP = "report this machine to a hub, a shared folder, a pipe, or whoever asks"
EXAMPLES = """\
  fleet-smi agent --to https://gpuhub:7070 --join TOKEN --fingerprint sha256:…
  fleet-smi agent --serve :7071 --serve-token-file /etc/fleet-smi/serve-token
  fleet-smi agent --drop /nfs/gpu-status
  fleet-smi agent --drop /nfs/gpu-status --once --jitter 20     (from cron)
  fleet-smi agent --stdout --once
"""
_ENDINGS = (signal.SIGTERM, signal.SIGINT)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the flags; those that are settings too are read as such."""
    add = parser.add_argument
    add("--to", metavar="URL", help="send to this hub; samples are kept while it is away")
    add("--join", metavar="TOKEN", help="the hub's join token, needed the first time")
    add("--join-file", metavar="FILE", help="a file with that token")
    add("--fingerprint", metavar="sha256:…", help="trust this certificate of the hub alone")
    add("--serve", metavar="[HOST]:PORT", help="let a hub fetch the latest report")
    add("--serve-token-file", metavar="FILE", help="a file with the token that it must show")
    add("--insecure-open", action="store_true", help="with --serve: answer anybody, no token")
    add("--drop", metavar="DIR", help="keep one small file in this shared folder")
    add("--drop-mode", metavar="MODE", help="of that file: 0644 or 0600 (0644)")
    add("--drop-format", metavar="FORMAT", help="of that file: report, or gpustat's JSON (report)")
    add("--cluster-smi", metavar="HOST:PORT", help="tell a router of cluster-smi, usually at 9080")
    add("--stdout", action="store_true", help="print each report as one line of JSON")
    add("--interval", metavar="SECONDS", help="between samples (2)")
    add("--once", action="store_true", help="one sample, then exit")
    add("--jitter", type=float, default=0.0, metavar="SECONDS", help="with --once: wait up to that")
    add("--state", metavar="DIR", help="where unsent samples and the credential are kept")


def run(args: argparse.Namespace) -> int:
    """Report until told to stop."""
    if args.jitter and not args.once:
        raise UsageError("--jitter goes with --once: ticks have their own")
    time.sleep(max(0.0, args.jitter) * random.random())  # noqa: S311
    reader = Reader(thread_then_process())
    reader.preload("nvidia")
    agent = _agent(args, reader)
    try:
        # Not before: an interrupted import can crash.
        for ending in _ENDINGS:
            signal.signal(ending, agent.stop)
        agent.run_once() if args.once else agent.run()
    except KeyboardInterrupt:
        return 0
    finally:
        for ending in _ENDINGS:
            signal.signal(ending, signal.SIG_IGN)
        agent.close()
    return 0


def _agent(args: argparse.Namespace, reader: Reader) -> "Agent":
    from fleet_smi import config
    from fleet_smi.node.agent import Agent
    from fleet_smi.node.sampler import Sampler

    settings = config.load(flags=_flags(args))
    sampler = Sampler(
        reader,
        root=settings.node.root,
        name=settings.node.name,
        run_id=os.urandom(8).hex(),
        labels=settings.node.labels,
    )
    sampler.prefetch()
    _log_to_stderr()
    outlets = _outlets(args, settings)
    return Agent(
        sampler,
        outlets,
        interval_seconds=settings.agent.interval,
        command_visibility=settings.node.commands,
    )


def _flags(args: argparse.Namespace) -> dict[str, str | None]:
    keys = ("to", "join", "join_file", "fingerprint", "serve", "serve_token_file", "drop")
    flags = {
        f"agent.{key}": getattr(args, key) for key in (*keys, "cluster_smi", "interval", "state")
    }
    dropped = {"agent.drop_mode": args.drop_mode, "agent.drop_format": args.drop_format}
    return {**flags, **dropped}


def _log_to_stderr() -> None:
    import logging

    logging.basicConfig(
        level=logging.INFO,
        stream=sys.stderr,
        format="time=%(asctime)s level=%(levelname)s %(message)s",
        datefmt="%Y-%m-%dT%H:%M:%S%z",
    )


def _outlets(args: argparse.Namespace, settings: "Settings") -> "list[Outlet]":
    """One for each way that the flags name or, where they name none, the settings."""
    named = args.to or args.serve or args.drop or args.cluster_smi or args.stdout
    agent, outlets = settings.agent, list["Outlet"]()
    if agent.to and (args.to or not named):
        outlets.append(_push(agent, agent.to))
    if agent.serve and (args.serve or not named):
        from fleet_smi.node.outlets.serve import ServeOutlet

        outlets.append(
            ServeOutlet(
                *agent.serve,
                token=agent.read_serve_token(),
                open_to_all=args.insecure_open,
                get_status_password=agent.read_get_status_password(),
                hosts=agent.hosts,
            )
        )
    if agent.drop and (args.drop or not named):
        from fleet_smi.node.outlets.file import FileOutlet

        outlets.append(FileOutlet(agent.drop, mode=agent.drop_mode, file_format=agent.drop_format))
    if agent.cluster_smi and (args.cluster_smi or not named):
        from fleet_smi.compat.cluster_smi.outlet import ClusterSmiOutlet

        outlets.append(ClusterSmiOutlet(*agent.cluster_smi))
    if args.stdout:
        from fleet_smi.node.outlets.stdout import StdoutOutlet

        outlets.append(StdoutOutlet(sys.stdout.buffer))
    if not outlets:
        raise UsageError("where to? give --to, --serve, --drop, --cluster-smi or --stdout")
    return outlets


def _push(settings: "AgentSettings", hub: str) -> "Outlet":
    from fleet_smi.client.connection import HubConnection
    from fleet_smi.node.buffer import ReportBuffer
    from fleet_smi.node.credential_file import CredentialFile
    from fleet_smi.node.hub_session import HubSession
    from fleet_smi.node.outlets.push import PushOutlet
    from fleet_smi.node.private_folder import ensure_private_folder
    from fleet_smi.node.spool import Spool

    ensure_private_folder(settings.state)
    connection = HubConnection(hub, fingerprint=settings.fingerprint)
    reporter = HubSession(connection, CredentialFile(settings.state), settings.read_join_token())
    return PushOutlet(reporter, ReportBuffer(Spool(f"{settings.state}/spool", settings.spool)))
