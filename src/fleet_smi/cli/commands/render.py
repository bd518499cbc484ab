"""`fleet-smi render`: write the fleet as a static HTML page, once or periodically."""

import argparse
import sys
import time
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING

from fleet_smi.cli import fleet_source, output
from fleet_smi.cli.formats import RENDER_FILES, load_format
from fleet_smi.errors import DeliveryError, FleetError, Unmet, Unreachable, UsageError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from fleet_smi.model.fleet import FleetView, NodeView

HELP = "write the fleet as a static HTML page for any web server; needs no hub and no scripts"
EXAMPLES = """\
  fleet-smi render --out /var/www/gpu                          once, for cron
  fleet-smi render --out /var/www/gpu --every 5m --ssh gpu01,gpu02
  fleet-smi render --out ./page --dir /nfs/gpu-status          then open ./page/index.html
  fleet-smi render --out ./page --colors classic               red for what is in use
"""
_FILE_MODE = 0o644
_LAST_KNOWN = ".last-known.json"

_THEMES = ("states", "classic")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the output folder, the refresh interval and the fleet."""
    add = parser.add_argument
    add("--out", metavar="DIR", required=True, help="output folder; created if missing")
    add("--every", metavar="TIME", help="refresh every 30s, 5m …, until stopped")
    add(
        "--colors",
        choices=_THEMES,
        default="states",
        help="a colour per state, or classic: green is free, red is in use (states)",
    )
    fleet_source.add_fleet_arguments(parser, replay=True)


def run(args: argparse.Namespace) -> int:
    """Write the page once, or every interval."""
    every_seconds = None if args.every is None else _seconds(args.every)
    folder = Path(args.out)
    _require_writable(folder)
    site = _Site(folder, _fleet(args), every_seconds, args.colors)
    if every_seconds is None:
        site.write(site.read_fleet())
        site.require_answer()
    else:
        output.repeat(every_seconds, site.refresh, interactive=False)
    return 0


def _fleet(args: argparse.Namespace) -> fleet_source.FleetSource:
    """Return the selected fleet; by default, the nodes a hub with these settings would poll."""
    if not (args.hub or args.ssh or args.dir or args.replay or args.here):
        from fleet_smi import config
        from fleet_smi.hub.sources import build_sources

        settings = config.load()
        sources = [] if settings.client.hub else build_sources(settings)
        if sources:
            from fleet_smi.fleet.polled import PolledFleet

            return PolledFleet(sources, settings.thresholds)
    return fleet_source.select_fleet(args)


def _seconds(text: str) -> float:
    from fleet_smi.config.value_types import INTERVAL

    try:
        seconds: float = INTERVAL.parse(text)
    except ValueError as error:
        raise UsageError(f"--every {text}: {error}") from None
    return seconds


def _require_writable(folder: Path) -> None:
    """Raise `Unmet` if the folder cannot be written to, before any node is polled."""
    import tempfile

    try:
        folder.mkdir(parents=True, exist_ok=True)
        # By trying: permission bits say nothing about a read-only file system.
        tempfile.TemporaryFile(dir=folder).close()
    except OSError as error:
        raise Unmet(f"cannot write to {folder}: {error.strerror}") from None


class _Site:
    """The output folder and the fleet shown in it."""

    def __init__(
        self,
        folder: Path,
        fleet: fleet_source.FleetSource,
        every_seconds: float | None,
        theme: str,
    ) -> None:
        self._folder = folder
        self._theme = theme
        self._fleet = fleet
        self._every_seconds = every_seconds
        self._latest: FleetView | None = None
        self._read_at = 0.0
        self._silent: set[str] = set()

    def read_fleet(self) -> "FleetView":
        """Return the current view; warn once about each node that has become silent."""
        self._latest = self._with_last_known(self._fleet.view(self._every_seconds))
        # Not `taken_at`: that may be the clock of another machine.
        self._read_at = time.monotonic()
        silent = {node.node_id: node for node in self._latest.nodes if _is_silent(node)}
        for node in silent.values():
            if node.node_id not in self._silent:
                _warn(f"{node.name}: {node.trouble or 'stopped reporting'}")
        self._silent = set(silent)
        return self._latest

    def _with_last_known(self, view: "FleetView") -> "FleetView":
        """Return the view with what earlier runs knew of nodes that have not answered yet."""
        from fleet_smi.fleet.polled import PolledFleet

        # A hub knows its silent nodes itself, and in a folder their last reports stay.
        if not isinstance(self._fleet, PolledFleet) or not self._fleet.node_ids:
            return view
        from fleet_smi.cli.last_known_file import LastKnownFile

        return LastKnownFile(self._folder / _LAST_KNOWN, self._fleet).complete(view)

    def require_answer(self) -> None:
        """Raise `Unreachable` if every node of the fleet is silent."""
        if self._latest and self._silent and len(self._silent) == len(self._latest.nodes):
            raise Unreachable("no node answers; the page says so")

    def refresh(self) -> str:
        """Write the page again; warn about an error instead of raising it. Prints nothing."""
        try:
            self._write_latest()
        except FleetError as error:
            _warn(str(error))
        return ""

    def _write_latest(self) -> None:
        """Write the current view; without an answer, the last one with all nodes silent."""
        try:
            view = self.read_fleet()
        except DeliveryError as error:
            # Nothing was ever read: keep the page of an earlier run instead of an empty one.
            if self._latest is None:
                raise
            from fleet_smi.model.verdict.last_known import mark_all_silent

            _warn(str(error))
            later_seconds = time.monotonic() - self._read_at
            self.write(mark_all_silent(self._latest, later_seconds), str(error))
        else:
            self.write(view)

    def write(self, view: "FleetView", trouble: str | None = None) -> None:
        """Replace every file of the page, each atomically."""
        from fleet_smi.cli.atomic_write import write_file
        from fleet_smi.wire.static_page import render_page
        from fleet_smi.wire.static_page.themes import THEMES

        theme = THEMES[self._theme]
        page = render_page(
            view,
            style=_style(theme.style_sheets),
            to_local_time=_local,
            interval_seconds=self._every_seconds,
            error=trouble,
            downloads=tuple(RENDER_FILES),
            colour_key=theme.colour_key,
        )
        files = {name: load_format(path).encode(view) for name, path in RENDER_FILES.items()}
        # The page comes last: its links must not lead to older files.
        for name, text in {**files, "index.html": page}.items():
            write_file(self._folder / name, text, _FILE_MODE, replace=True)


def _is_silent(node: "NodeView") -> bool:
    return node.silent or node.age_seconds is None


def _warn(message: str) -> None:
    print(f"fleet-smi: {message}", file=sys.stderr, flush=True)


def _style(sheets: "Sequence[str]") -> str:
    from fleet_smi.wire import static_page

    folder = Path(static_page.__file__).parent
    return "".join([(folder / sheet).read_text("utf-8") for sheet in sheets])


def _local(at: float) -> datetime:
    return datetime.fromtimestamp(at).astimezone()
