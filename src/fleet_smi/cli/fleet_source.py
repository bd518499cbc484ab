"""Which fleet a command looks at: a hub's, one without a hub, or this machine alone."""

import argparse
import os
from typing import TYPE_CHECKING, Protocol

from fleet_smi import paths
from fleet_smi.errors import Unmet, UsageError

if TYPE_CHECKING:
    from fleet_smi.client.hub import HubClient
    from fleet_smi.config import Settings
    from fleet_smi.fleet.delivery import Source
    from fleet_smi.hub.state_folder import RunningHub
    from fleet_smi.model.fleet import FleetView
    from fleet_smi.model.people import PeopleView
    from fleet_smi.model.select import GpuRequest, Offer
    from fleet_smi.model.verdict.thresholds import Thresholds


class FleetSource(Protocol):
    """A fleet that can be looked at, again and again."""

    is_local: bool
    """Whether it is this machine alone."""
    thresholds: "Thresholds"

    def view(self, interval_seconds: float | None = None) -> "FleetView":
        """The fleet as it is now."""


def add_fleet_arguments(parser: argparse.ArgumentParser) -> None:
    """The flags that choose a fleet."""
    which = parser.add_mutually_exclusive_group()
    which.add_argument("--hub", metavar="URL", help="ask this hub (default: client.hub)")
    which.add_argument("--ssh", metavar="HOST[,HOST]", help="ask these by ssh; no hub needed")
    which.add_argument(
        "--dir", metavar="PATH", type=_readable, help="read files in this folder; no hub needed"
    )
    which.add_argument("--here", action="store_true", help="this machine, even if there is a hub")


def add_at_argument(parser: argparse.ArgumentParser) -> None:
    """The flag that looks into the past."""
    words = "as it was then: 'yesterday 03:12', -2h, '2026-11-15 03:12'; with a hub"
    parser.add_argument("--at", metavar="MOMENT", help=words)


def _readable(path: str) -> str:
    """A folder, or a pattern of files in one."""
    from fleet_smi.config.value_types import require_glob_at_end

    if not path:
        raise argparse.ArgumentTypeError("name a folder, or files like '/nfs/status/cml*'")
    try:
        require_glob_at_end(path)
    except ValueError as error:
        raise argparse.ArgumentTypeError(f"{path} {error}") from None
    return path


def _is_here(args: argparse.Namespace) -> bool:
    """Whether the command is about this machine alone; told quickly where nothing is set."""
    if args.here:
        return True
    if args.hub or args.ssh or args.dir:
        return False
    may_be_set = "FLEET_SMI_CLIENT_HUB" in os.environ or paths.settings_files(os.environ)
    return not may_be_set or _settings(args).client.hub is None


def select_fleet(args: argparse.Namespace, *, full: bool = False) -> FleetSource:
    """The fleet that the flags and the settings name."""
    if getattr(args, "at", None) is not None:
        return _past(args)
    if _is_here(args):
        from fleet_smi.cli.local_fleet import open_local_fleet, start_reader

        return open_local_fleet(start_reader(), full=full)
    settings = _settings(args)
    if args.ssh or args.dir:
        from fleet_smi.fleet.polled import PolledFleet

        return PolledFleet(_sources(args, settings), settings.thresholds)
    return HubFleet(settings.thresholds, _client(settings))


def _past(args: argparse.Namespace) -> FleetSource:
    """A hub's fleet as it was: nobody else keeps the past."""
    if args.here or args.ssh or args.dir:
        raise UsageError("--at: only a hub keeps the past: give --hub URL, or set client.hub")
    return HubFleet(_settings(args).thresholds, hub_client(args), args.at)


def require_driver(view: "FleetView", program: str, *, is_local: bool) -> None:
    """As on its own machine a program fails that finds no driver; no fleet ends for one node."""
    for run in view.nodes[0].runs if is_local else ():
        if run.name == "nvidia" and run.outcome != "ok" and not view.nodes[0].gpus:
            raise Unmet(f"{program}: cannot ask the NVIDIA driver: {run.detail}")


def add_hub_argument(parser: argparse.ArgumentParser) -> None:
    """The flag of commands that only a hub can answer."""
    parser.add_argument("--hub", metavar="URL", help="ask this hub (default: client.hub)")


def hub_client(args: argparse.Namespace) -> "HubClient":
    """The hub that is named, else the one that this user runs here."""
    return _client(_settings(args), own_if_unnamed=True)


def _client(settings: "Settings", *, own_if_unnamed: bool = False) -> "HubClient":
    """The hub to ask; to one that they run themselves, its user needs neither token nor pin."""
    from pathlib import Path

    from fleet_smi.client.hub import HubClient
    from fleet_smi.hub.state_folder import read_local_admin_token, read_running_hub

    client, folder = settings.client, Path(settings.hub.state)
    own = read_running_hub(folder)
    url = own.local_url if own is not None and own_if_unnamed and not client.hub else client.hub
    if url is None:
        raise UsageError("no hub is named: give --hub URL, or set client.hub in fleet-smi.toml")
    token, fingerprint = client.read_token(), client.fingerprint
    if own is not None and _is_safely_own(url, own):
        token = token or read_local_admin_token(folder)
        fingerprint = fingerprint or own.fingerprint
    return HubClient(url, token=token, fingerprint=fingerprint)


def _is_safely_own(url: str, own: "RunningHub") -> bool:
    """Whether this is our own hub, by a way on which nobody else can hear its token."""
    from fleet_smi.client.connection import parse_hub_url
    from fleet_smi.config.ip_addresses import is_loopback

    scheme, host, port, _ = parse_hub_url(url)
    if (scheme, port) != (parse_hub_url(own.url)[0], parse_hub_url(own.url)[2]):
        return False
    named = host in (parse_hub_url(own.url)[1], parse_hub_url(own.local_url)[1])
    return is_loopback(host) or (named and own.fingerprint is not None)


class HubFleet:
    """A hub's fleet, requested again at every look; as it was at a moment, where one is named."""

    is_local = False

    def __init__(
        self, thresholds: "Thresholds", client: "HubClient", at: str | None = None
    ) -> None:
        self.thresholds = thresholds
        self._client = client
        self._at = at

    def view(self, interval_seconds: float | None = None) -> "FleetView":
        """The whole fleet as the hub judges it."""
        return self._client.fleet(self._at)

    def free(self, request: "GpuRequest", *, explain: bool) -> "Offer":
        """The GPUs that the hub offers: its thresholds count, not those of this machine."""
        return self._client.free(request, at=self._at, explain=explain)

    def people(self, user: str | None) -> "PeopleView":
        """Who holds GPUs, counted by the hub."""
        return self._client.people(user, self._at)


def _settings(args: argparse.Namespace) -> "Settings":
    from fleet_smi import config

    return config.load(flags={"client.hub": args.hub})


def _sources(args: argparse.Namespace, settings: "Settings") -> list["Source"]:
    if args.dir:
        from fleet_smi.hub.sources.files import FilesSource

        return [FilesSource(args.dir)]
    from fleet_smi.hub.sources.ssh import SshSource, expand_hosts

    hub = settings.hub
    hosts = expand_hosts(args.ssh.split(","), hub.ssh_config)
    return [SshSource(hosts, config=hub.ssh_config, key=hub.ssh_key)]
