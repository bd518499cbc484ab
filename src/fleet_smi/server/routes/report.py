"""`GET /api/v1/history/report`: the usage report of a period as a file to keep or to mail."""

import heapq
from datetime import datetime
from functools import cache
from pathlib import Path
from typing import Literal

from starlette.responses import Response

from fleet_smi.hub.history.queries.jobs import group_jobs
from fleet_smi.hub.query_threads import run_in_query_thread
from fleet_smi.model.history import Job
from fleet_smi.model.history_privacy import mask_job_commands
from fleet_smi.model.usage_report import (
    HOUR_SECONDS,
    MAX_WASTE,
    Price,
    UsageReport,
    build_usage_report,
)
from fleet_smi.server.endpoint import Endpoint, RequestContext
from fleet_smi.server.history_requests import (
    RangeQuery,
    TimeRange,
    fleet_at,
    parse_range,
    require_history,
)
from fleet_smi.wire import usage_report_page
from fleet_smi.wire.history_csv import usage_report_csv

_MAX_RIBBON_COLUMNS = 2000
_MEDIA_TYPES = {"html": "text/html", "csv": "text/csv"}


class ReportQuery(RangeQuery, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A time range, what to group by, and the kind of file."""

    by: Literal["user", "group", "node", "model"] = "user"
    format: Literal["html", "csv"] = "html"


async def report(context: RequestContext) -> Response:
    """Hours, energy and cost of a period, as a file."""
    query: ReportQuery = context.query
    span = await parse_range(context, query)
    found = await _build(context, span, query)
    now = context.hub.clock()

    def render() -> str:
        if query.format == "csv":
            return usage_report_csv(found)
        return usage_report_page.render_report(found, style=_style(), to_local_time=_local, now=now)

    name = f"gpu-report-{_local(span.start):%Y-%m-%d}-to-{_local(span.end):%Y-%m-%d}.{query.format}"
    return Response(
        await run_in_query_thread(render),
        media_type=_MEDIA_TYPES[query.format],
        headers={"Content-Disposition": f'attachment; filename="{name}"'},
    )


async def _build(context: RequestContext, span: TimeRange, query: ReportQuery) -> UsageReport:
    history = require_history(context)
    usages = await history.usages(*span, query.by, daily=True)
    hours = max(1, round((usages.end - usages.start) / HOUR_SECONDS))
    gpus = await history.usages(*span, "gpu", daily=False)
    ribbon = await history.ribbon(*span, min(_MAX_RIBBON_COLUMNS, hours))
    fleet = await fleet_at(context, query.until)
    occupancies = await history.occupancies(*span)

    def idlest() -> list[Job]:
        jobs = heapq.nlargest(
            MAX_WASTE, group_jobs(occupancies), key=lambda job: job.sums.idle_seconds
        )
        return [mask_job_commands(job, context.command_visibility) for job in jobs]

    jobs = await run_in_query_thread(idlest)
    return await run_in_query_thread(
        lambda: build_usage_report(
            usages, gpus, fleet, ribbon, jobs, to_local_time=_local, price=_price(context)
        )
    )


def _price(context: RequestContext) -> Price | None:
    price = context.services.energy_price
    return None if price is None else Price(per_kwh=price, currency=context.services.currency or "")


@cache
def _style() -> str:
    return Path(usage_report_page.__file__).with_name("style.css").read_text("utf-8")


def _local(at: float) -> datetime:
    """Times are those of the hub's zone, which the report names."""
    return datetime.fromtimestamp(at).astimezone()


ENDPOINTS = (
    Endpoint(
        method="GET",
        path="/api/v1/history/report",
        summary="The usage report of a period as an HTML or CSV file",
        required_action="view",
        handler=report,
        query=ReportQuery,
        response=str,
        response_media_types=tuple(_MEDIA_TYPES.values()),
        extra_statuses=(404, 503),
    ),
)
