"""`fleet-smi report`: usage report of a period as text, CSV, JSON or HTML."""

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

HELP = "GPU-hours, load, idle time, energy and cost over a period, by user, group, node or model"
EXAMPLES = """\
  fleet-smi report                              the last 7 days, by user
  fleet-smi report --since 30d --by group --price 0.31EUR
  fleet-smi report --since 2026-11-01 --until 2026-11-08 --format csv
  fleet-smi report --format html --out week.html    one file, ready to mail
"""
_FILE_MODE = 0o644
_MAX_RIBBON_COLUMNS = 2000  # the hub's limit
_PRICE = r"\s*([0-9]{1,9}(?:\.[0-9]{1,6})?)\s*([^\W\d_]{0,8}|[€$£¥])\s*"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the time range, the grouping and the output format."""
    add = parser.add_argument
    add("--since", metavar="TIME", default="7d", help="start: 24h, 7d ago, or a time (7d)")
    add("--until", metavar="TIME", default="now", help="end: 'yesterday 18:00', 2026-11-08 (now)")
    add("--by", choices=("user", "group", "node", "model"), default="user", help="group by (user)")
    add("--format", choices=("text", "csv", "json", "html"), default="text", help="output (text)")
    add("--out", metavar="FILE", help="write to this file, atomically")
    add("--price", metavar="PRICE", help="price per kWh, like 0.31EUR (default: the hub's)")
    fleet_source.add_hub_argument(parser)
    output.add_colour_arguments(parser)


def run(args: argparse.Namespace) -> int:
    """Query the hub, build the report, and print or write it."""
    price = None if args.price is None else _parse_price(args.price)
    report = _build_report(args, fleet_source.hub_client(args), price)
    text = _format_report(args, report)
    if args.out is None:
        sys.stdout.write(text)
    else:
        from fleet_smi.cli.atomic_write import write_file

        write_file(Path(args.out), text, _FILE_MODE, replace=True)
    return 0


def _parse_price(text: str) -> "Price":
    from fleet_smi.model.usage_report import Price

    match = re.fullmatch(_PRICE, text)
    if match is None:
        raise UsageError(f"--price {text!r}: give the price per kWh, like 0.31EUR")
    return Price(per_kwh=float(match[1]), currency=match[2])


def _build_report(
    args: argparse.Namespace, hub: "HubClient", price: "Price | None"
) -> "UsageReport":
    from fleet_smi.model.usage_report import HOUR_SECONDS, build_usage_report

    usages = hub.usages(args.since, args.until, by=args.by, daily=True)
    # The hub widens the range to whole hours of its clock: all queries use that start.
    since = usages.start
    hours = max(1, round((usages.end - usages.start) / HOUR_SECONDS))
    return build_usage_report(
        usages,
        hub.usages(since, args.until, by="gpu"),
        hub.fleet(None if args.until == "now" else args.until),
        hub.ribbon(since, args.until, columns=min(_MAX_RIBBON_COLUMNS, hours)),
        _jobs(hub, since, args.until),
        to_local_time=_local,
        price=price or _hub_price(hub),
    )


def _jobs(hub: "HubClient", since: float, until: str) -> "tuple[Job, ...] | None":
    """Return the idlest jobs of the range; `None` if an older hub refuses to choose them."""
    from fleet_smi.model.usage_report import MAX_WASTE

    try:
        return hub.jobs(since, until, idlest=MAX_WASTE).rows
    except UsageError:
        pass
    try:
        return hub.jobs(since, until).rows
    except UsageError:
        return None


def _hub_price(hub: "HubClient") -> "Price | None":
    from fleet_smi.model.usage_report import Price

    status = hub.storage_status()
    if status.energy_price is None:
        return None
    return Price(per_kwh=status.energy_price, currency=status.currency or "")


def _format_report(args: argparse.Namespace, report: "UsageReport") -> str:
    if args.format == "csv":
        from fleet_smi.wire.history_csv import usage_report_csv

        return usage_report_csv(report)
    if args.format == "json":
        from fleet_smi.wire.json import to_json

        return to_json(report, pretty=True).decode() + "\n"
    if args.format == "html":
        from fleet_smi.wire import usage_report_page

        style = Path(usage_report_page.__file__).with_name("style.css").read_text("utf-8")
        return usage_report_page.render_report(
            report, style=style, to_local_time=_local, now=time.time()
        )
    from fleet_smi.terminal.paint import Paint
    from fleet_smi.terminal.view.report import render

    # A terminal's colours do not belong in a file, even if stdout is a terminal.
    paint = Paint(enabled=args.out is None and output.use_colour(args))
    return render(report, output.output_columns(), paint, now=time.time())


def _local(at: float) -> datetime:
    return datetime.fromtimestamp(at).astimezone()
