"""`fleet-smi render`: the fleet as a static page in a folder, for any web server."""

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
    from fleet_smi.model.fleet import FleetView, NodeView

HELP = "write the fleet as a static page that any web server can serve: no script, no hub needed"
EXAMPLES = """\
  fleet-smi render --out /var/www/gpu                          once, as from cron
  fleet-smi render --out /var/www/gpu --every 5m --ssh gpu01,gpu02
  fleet-smi render --out ./page --dir /nfs/gpu-status          then open ./page/index.html
"""
_FOR_ALL = 0o644


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Where to, how often, and which fleet."""
    add = parser.add_argument
    add("--out", metavar="DIR", required=True, help="the folder; made if it is missing")
    add("--every", metavar="TIME", help="again after so long (30s, 5m), until stopped")
    fleet_source.add_fleet_arguments(parser)


def run(args: argparse.Namespace) -> int:
    """Write the page once, or again and again."""
    every_seconds = None if args.every is None else _seconds(args.every)
    folder = Path(args.out)
    _require_writable(folder)
    site = _Site(folder, _fleet(args), every_seconds)
    if every_seconds is None:
        site.write(site.look())
        site.require_news()
    else:
        output.repeat(every_seconds, site.round, interactive=False)
    return 0


def _fleet(args: argparse.Namespace) -> fleet_source.FleetSource:
    """The fleet that is named; where none is, whom a hub with these settings would ask."""
    if not (args.hub or args.ssh or args.dir or args.here):
        from fleet_smi import config
        from fleet_smi.hub.sources import build_sources

        settings = config.load()
        sources = [] if settings.client.hub else build_sources(settings)
        if sources:
            from fleet_smi.fleet.polled import PolledFleet

            return PolledFleet(sources, settings.thresholds)
    return fleet_source.select_fleet(args)


def _seconds(written: str) -> float:
    from fleet_smi.config.value_types import INTERVAL

    try:
        seconds: float = INTERVAL.parse(written)
    except ValueError as error:
        raise UsageError(f"--every {written}: {error}") from None
    return seconds


def _require_writable(folder: Path) -> None:
    """A folder that cannot be written to is told before anybody is asked."""
    import tempfile

    try:
        folder.mkdir(parents=True, exist_ok=True)
        tempfile.TemporaryFile(dir=folder).close()
    except OSError as error:
        raise Unmet(f"{folder} cannot be written to: {error.strerror}") from None


class _Site:
    """The folder, and the fleet that it shows."""

    def __init__(
        self, folder: Path, fleet: fleet_source.FleetSource, every_seconds: float | None
    ) -> None:
        self._folder = folder
        self._fleet = fleet
        self._every_seconds = every_seconds
        self._latest: FleetView | None = None
        self._looked_at = 0.0
        self._dead: set[str] = set()

    def look(self) -> "FleetView":
        """The fleet as it is now; who has fallen silent is told."""
        self._latest = self._fleet.view(self._every_seconds)
        self._looked_at = time.monotonic()  # its own time may be another machine's
        dead = {node.node_id: node for node in self._latest.nodes if _is_dead(node)}
        for node in dead.values():
            if node.node_id not in self._dead:
                _complain(f"{node.name}: {node.trouble or 'it has fallen silent'}")
        self._dead = set(dead)
        return self._latest

    def require_news(self) -> None:
        """Raise `Unreachable` where nobody of the fleet is heard."""
        if self._latest and self._dead and len(self._dead) == len(self._latest.nodes):
            raise Unreachable("no machine answers; the page says so")

    def round(self) -> str:
        """One round of many: what fails is told, and the next one is tried."""
        try:
            self._write_news()
        except FleetError as error:
            _complain(str(error))
        return ""

    def _write_news(self) -> None:
        """The page, or the last one grown old where nobody answers."""
        try:
            view = self.look()
        except DeliveryError as error:
            if self._latest is None:
                raise
            from fleet_smi.model.verdict.last_known import mark_all_silent

            _complain(str(error))
            later_seconds = time.monotonic() - self._looked_at
            self.write(mark_all_silent(self._latest, later_seconds), str(error))
        else:
            self.write(view)

    def write(self, view: "FleetView", trouble: str | None = None) -> None:
        """Replace every file of the page, each atomically."""
        from fleet_smi.cli.atomic_write import write_file
        from fleet_smi.wire.static_page import render_page

        shown = render_page(
            view,
            style=_style(),
            to_local_time=_local,
            interval_seconds=self._every_seconds,
            error=trouble,
            downloads=tuple(RENDER_FILES),
        )
        files = {name: load_format(path).encode(view) for name, path in RENDER_FILES.items()}
        # The page comes last: its links must not lead to files of an older round.
        for name, text in {**files, "index.html": shown}.items():
            write_file(self._folder / name, text, _FOR_ALL, replace=True)


def _is_dead(node: "NodeView") -> bool:
    return node.silent or node.age_seconds is None


def _complain(words: str) -> None:
    print(f"fleet-smi: {words}", file=sys.stderr, flush=True)


def _style() -> str:
    from fleet_smi.wire import static_page

    return Path(static_page.__file__).with_name("style.css").read_text("utf-8")


def _local(at: float) -> datetime:
    return datetime.fromtimestamp(at).astimezone()
