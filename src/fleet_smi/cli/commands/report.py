"""`fleet-smi report`: what a range came to, for people and for programs."""

import argparse
import re
import sys
import time
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING

from fleet_smi.cli import fleet_source, output
from fleet_smi.errors import UsageError

if TYPE_CHECKING:
    from fleet_smi.client.hub import HubClient
    from fleet_smi.model.history import Job
    from fleet_smi.model.usage_report import Price, UsageReport

HELP = "GPU-hours, load, idle time, energy and cost of a range, by person, group, node or model"
EXAMPLES = """\
  fleet-smi report                              the last 7 days, by person
  fleet-smi report --since 30d --by group --price 0.31EUR
  fleet-smi report --since 2026-11-01 --until 2026-11-08 --format csv
  fleet-smi report --format html --out week.html    one file, ready to mail
"""
_FOR_ALL = 0o644
_MOST_PARTS = 2000
_PRICE = r"\s*([0-9]{1,9}(?:\.[0-9]{1,6})?)\s*([^\W\d_]{0,8}|[€$£¥])\s*"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The range, by whom, and in what form."""
    add = parser.add_argument
    add("--since", metavar="TIME", default="7d", help="so long back (24h, 7d), or a moment")
    add("--until", metavar="MOMENT", default="now", help="the end: 'yesterday 18:00', 2026-11-08")
    add("--by", choices=("user", "group", "node", "model"), default="user", help="whose hours")
    add("--format", choices=("text", "csv", "json", "html"), default="text")
    add("--out", metavar="FILE", help="write it there, as a whole or not at all")
    add("--price", metavar="PRICE", help="of a kilowatt-hour, like 0.31EUR (default: the hub's)")
    fleet_source.add_hub_argument(parser)
    output.add_colour_arguments(parser)


def run(args: argparse.Namespace) -> int:
    """Ask for the figures, put them together, and write them."""
    price = None if args.price is None else _price(args.price)
    told = _gathered(args, fleet_source.hub_client(args), price)
    text = _written(args, told)
    if args.out is None:
        sys.stdout.write(text)
    else:
        from fleet_smi.cli.atomic_write import write_file

        write_file(Path(args.out), text, _FOR_ALL, replace=True)
    return 0


def _price(written: str) -> "Price":
    from fleet_smi.model.usage_report import Price

    found = re.fullmatch(_PRICE, written)
    if found is None:
        raise UsageError(f"--price {written!r}: give that of a kilowatt-hour, like 0.31EUR")
    return Price(per_kwh=float(found[1]), currency=found[2])


def _gathered(args: argparse.Namespace, hub: "HubClient", price: "Price | None") -> "UsageReport":
    from fleet_smi.model.usage_report import HOUR_SECONDS, build_usage_report

    usages = hub.usages(args.since, args.until, by=args.by, daily=True)
    # The range that was counted: whole hours, by the hub's clock.
    since = usages.start
    parts = min(_MOST_PARTS, max(1, round((usages.end - usages.start) / HOUR_SECONDS)))
    return build_usage_report(
        usages,
        hub.usages(since, args.until, by="gpu"),
        hub.fleet(None if args.until == "now" else args.until),
        hub.ribbon(since, args.until, columns=parts),
        _jobs(hub, since, args.until),
        to_local_time=_local,
        price=price or _hub_price(hub),
    )


def _jobs(hub: "HubClient", since: float, until: str) -> "tuple[Job, ...] | None":
    """The jobs of the range; `None` where the hub says that they are too many."""
    try:
        return hub.jobs(since, until).rows
    except UsageError:
        return None


def _hub_price(hub: "HubClient") -> "Price | None":
    from fleet_smi.model.usage_report import Price

    kept = hub.kept()
    if kept.energy_price is None:
        return None
    return Price(per_kwh=kept.energy_price, currency=kept.currency or "")


def _written(args: argparse.Namespace, told: "UsageReport") -> str:
    if args.format == "csv":
        from fleet_smi.wire.history_csv import usage_report_csv

        return usage_report_csv(told)
    if args.format == "json":
        from fleet_smi.wire.json import to_json

        return to_json(told, pretty=True).decode() + "\n"
    if args.format == "html":
        from fleet_smi.wire import report_page

        style = Path(report_page.__file__).with_name("style.css").read_text("utf-8")
        return report_page.render_report(told, style=style, to_local_time=_local, now=time.time())
    from fleet_smi.terminal.paint import Paint
    from fleet_smi.terminal.view import report

    on = args.out is None and output.use_colour(args)
    return report.render(told, output.output_columns(), Paint(enabled=on), now=time.time())


def _local(at: float) -> datetime:
    return datetime.fromtimestamp(at).astimezone()
