"""Fleet selection: the hub, the machines polled without a hub, or the local machine."""

import argparse
import os
import sys
from typing import TYPE_CHECKING, Protocol

from fleet_smi import paths
from fleet_smi.errors import Unmet, Unreachable, UsageError

if TYPE_CHECKING:
    from fleet_smi.client.hub import HubClient
    from fleet_smi.config import Settings
    from fleet_smi.fleet.delivery import Source
    from fleet_smi.fleet.polled import ShowPartial
    from fleet_smi.model.candidates import GpuRequest
    from fleet_smi.model.closing import Closing
    from fleet_smi.model.fleet import FleetView
    from fleet_smi.model.hub_problems import NodesView, Problems
    from fleet_smi.model.node_summary import FleetOverview
    from fleet_smi.model.people import PeopleView
    from fleet_smi.model.select import BriefOffer, Offer
    from fleet_smi.model.verdict.thresholds import Thresholds

_VARIABLES = {"FLEET_SMI_CLIENT_HUB", "FLEET_SMI_HUB_STATE"}


# How often a host is polled while a screen is refreshed: a poll over ssh takes a second or more.
_MIN_SSH_INTERVAL_SECONDS = 2.0


class FleetSource(Protocol):
    """A fleet whose current view can be read repeatedly."""

    is_local: bool
    """Whether it is only this machine."""
    thresholds: "Thresholds"

    def view(
        self,
        interval_seconds: float | None = None,
        show_partial: "ShowPartial | None" = None,
    ) -> "FleetView":
        """Return the current view; `interval_seconds` is the refresh interval, if any.

        While something slow is awaited, `show_partial` gets what is known, and what is awaited.
        """


def add_fleet_arguments(parser: argparse.ArgumentParser, *, replay: bool = False) -> None:
    """Add the mutually exclusive flags that select a fleet; `replay` also that of a capture."""
    group = parser.add_mutually_exclusive_group()
    group.add_argument("--hub", metavar="URL", help="query this hub (default: client.hub)")
    group.add_argument("--ssh", metavar="HOST[,HOST]", help="read these over ssh; no hub needed")
    group.add_argument(
        "--dir", metavar="PATH", type=_folder_or_glob, help="read the reports in this folder"
    )
    group.add_argument("--here", action="store_true", help="this machine, even if a hub is set")
    if replay:
        text = "show a machine that `fleet-smi capture` has captured"
        group.add_argument("--replay", metavar="FILE", help=text)


def add_at_argument(parser: argparse.ArgumentParser) -> None:
    """Add `--at`, which shows the fleet at a time in the past."""
    text = "as of this time: 'yesterday 03:12', -2h, '2026-11-15 03:12' (needs a hub)"
    parser.add_argument("--at", metavar="TIME", help=text)


def _folder_or_glob(path: str) -> str:
    """Accept a folder, or a glob of files in one."""
    from fleet_smi.config.value_types import require_glob_at_end

    if not path:
        raise argparse.ArgumentTypeError("give a folder, or files like '/nfs/status/cml*'")
    try:
        require_glob_at_end(path)
    except ValueError as error:
        raise argparse.ArgumentTypeError(f"{path} {error}") from None
    return path


def _is_local(args: argparse.Namespace, *, own_hub: bool) -> bool:
    """Whether the command is about this machine alone."""
    if args.here:
        return True
    if args.hub or args.ssh or args.dir or getattr(args, "replay", None):
        return False
    # Loading the settings costs start-up time: skip it where nothing can be set.
    if not (_VARIABLES & os.environ.keys() or paths.settings_files(os.environ)):
        folder = os.path.join(paths.state_folder(os.environ), "hub")  # noqa: PTH118
        return not (own_hub and _runs_hub(folder))
    settings = _settings(args)
    return settings.client.hub is None and not (own_hub and _runs_hub(settings.hub.state))


def _runs_hub(folder: str) -> bool:
    """Whether a hub runs whose state folder this user can read."""
    if not os.path.exists(os.path.join(folder, "address")):  # noqa: PTH110, PTH118
        return False
    # Imported only then: most machines run no hub.
    from pathlib import Path

    from fleet_smi.hub.state_folder import read_running_hub

    return read_running_hub(Path(folder)) is not None


def select_fleet(
    args: argparse.Namespace,
    *,
    full: bool = False,
    own_hub: bool = False,
    patient: bool = True,
    quiet: bool = False,
) -> FleetSource:
    """Return the fleet that flags and settings select; raise `UsageError` where they conflict.

    Without any, `own_hub` selects the hub that this user runs here, if one runs. `patient` is
    whether this machine's view waits for a slow driver, `quiet` that it prints no line meanwhile.
    """
    if getattr(args, "at", None) is not None:
        return _past_fleet(args)
    if _is_local(args, own_hub=own_hub):
        from fleet_smi.cli.local_fleet import open_local_fleet, start_reader

        reader = start_reader()
        if quiet:
            reader.on_wait = None
        return open_local_fleet(reader, full=full, patient=patient)
    settings = _settings(args)
    if getattr(args, "replay", None):
        return _replayed(args.replay, settings)
    if args.ssh or args.dir:
        from fleet_smi.fleet.polled import PolledFleet

        return PolledFleet(_sources(args, settings), settings.thresholds)
    return HubFleet(settings.thresholds, _client(settings, own_if_unnamed=own_hub))


def _replayed(path: str, settings: "Settings") -> FleetSource:
    """Return a captured machine; say so on stderr, beside whatever is printed."""
    from fleet_smi.replay import ReplayFleet
    from fleet_smi.terminal.view.formatting import to_local_time

    fleet = ReplayFleet(path, settings.thresholds)
    when = to_local_time(fleet.capture.taken_at)
    print(f"fleet-smi: replay of {path}, captured {when:%Y-%m-%d %H:%M}", file=sys.stderr)
    return fleet


def _past_fleet(args: argparse.Namespace) -> FleetSource:
    """Return a hub's fleet at a time in the past."""
    if args.here or args.ssh or args.dir or getattr(args, "replay", None):
        raise UsageError("--at: only a hub keeps history: give --hub URL, or set client.hub")
    return HubFleet(_settings(args).thresholds, hub_client(args), args.at)


def require_driver(view: "FleetView", message: str, *, is_local: bool) -> None:
    """Raise `Unmet` with `message` and the reason if no GPU of the local machine can be read.

    The imitated tools exit with an error then; a fleet is shown although one node fails.
    """
    if not is_local:
        return
    from fleet_smi.model.driver_failure import driver_error

    (node,) = view.nodes
    error = driver_error(node)
    absent = [run.detail for run in node.runs if run.name == "nvidia" and run.outcome == "absent"]
    if error is None and absent and not node.gpus:
        error = absent[0]
    if error is not None:
        raise Unmet(f"{message}: {error}")


def require_answer(fleet: FleetSource) -> None:
    """Raise `Unreachable` if every machine that was polled failed; after the output, for scripts.

    Why each failed is in that output.
    """
    if fleet.is_local or isinstance(fleet, HubFleet):
        return
    from fleet_smi.fleet.polled import PolledFleet

    if isinstance(fleet, PolledFleet) and (failed := fleet.failed):
        raise Unreachable(f"no answer from any machine: {'; '.join(failed)}")


def add_hub_argument(parser: argparse.ArgumentParser) -> None:
    """Add `--hub` for commands that only a hub can answer."""
    parser.add_argument("--hub", metavar="URL", help="query this hub (default: client.hub)")


def hub_client(args: argparse.Namespace) -> "HubClient":
    """Return a client of the configured hub, else of the hub this user runs on this machine.

    Raise `UsageError` if there is neither.
    """
    return _client(_settings(args), own_if_unnamed=True)


def _client(settings: "Settings", *, own_if_unnamed: bool = False) -> "HubClient":
    """Return a client of the hub; a user's own hub needs neither token nor fingerprint."""
    from fleet_smi.acting import find_login, is_token_named, login_client, own_hub_client
    from fleet_smi.client.hub import HubClient

    client = settings.client
    own = own_hub_client(settings) if client.hub or own_if_unnamed else None
    if own is not None:
        return own
    login = None if is_token_named() else find_login(settings)
    if login is not None:
        return login_client(*login)
    if client.hub is None:
        from fleet_smi.cli.hub_state import has_system_hub

        needs_root = os.geteuid() != 0 and has_system_hub()
        hint = "; the hub of this machine is root's: use sudo" if needs_root else ""
        raise UsageError(f"no hub given: use --hub URL, or set client.hub in fleet-smi.toml{hint}")
    return HubClient(client.hub, token=client.read_token(), fingerprint=client.fingerprint)


class HubFleet:
    """A hub's fleet, fetched on every call; at a past time if `at` is given."""

    is_local = False

    def __init__(
        self, thresholds: "Thresholds", client: "HubClient", at: str | None = None
    ) -> None:
        self.thresholds = thresholds
        self.client = client
        self._at = at

    def view(
        self,
        interval_seconds: float | None = None,
        show_partial: "ShowPartial | None" = None,
    ) -> "FleetView":
        """Fetch the view from the hub, which waits for nothing."""
        return self.client.fleet(self._at)

    def selected(self, **filters: str | None) -> "FleetView":
        """Fetch what the hub selects by these filters."""
        return self.client.fleet(self._at, **filters)

    def overview(self, **filters: str | None) -> "FleetOverview":
        """Fetch one row per node that the hub selects by these filters."""
        return self.client.overview(self._at, **filters)

    def nodes(self) -> "NodesView":
        """Fetch the nodes, with the problems of the hub and the senders that it refuses."""
        return self.client.nodes()

    def problems(self) -> "Problems":
        """Fetch the problems of the hub and the senders that it refuses."""
        return self.client.problems()

    def closings(self) -> "tuple[Closing, ...]":
        """Fetch what is closed to new work."""
        return self.client.closings()

    def free(self, request: "GpuRequest", *, explain: bool) -> "Offer":
        """Return the GPUs the hub offers, judged by the hub's thresholds, not by ours."""
        return self.client.free(request, at=self._at, explain=explain)

    def offers(self, request: "GpuRequest", *, explain: bool) -> "BriefOffer | Offer":
        """Return the same with no more of each GPU than its name."""
        return self.client.offers(request, at=self._at, explain=explain)

    def people(self, user: str | None) -> "PeopleView":
        """Return who holds GPUs, counted by the hub."""
        return self.client.people(user, self._at)


def _settings(args: argparse.Namespace) -> "Settings":
    from fleet_smi import config

    return config.load(flags={"client.hub": args.hub})


def _sources(args: argparse.Namespace, settings: "Settings") -> list["Source"]:
    if args.dir:
        from fleet_smi.hub.sources.files import FilesSource

        return [FilesSource(args.dir)]
    from fleet_smi.hub.sources.ssh import SshSource, expand_hosts

    hub = settings.hub
    # Patterns like gpu* become the hosts of ssh_config that they match: ssh takes one name.
    hosts = expand_hosts(args.ssh.split(","), hub.ssh_config)
    interval = max(getattr(args, "interval", None) or 0.0, _MIN_SSH_INTERVAL_SECONDS)
    return [SshSource(hosts, interval_seconds=interval, config=hub.ssh_config, key=hub.ssh_key)]
