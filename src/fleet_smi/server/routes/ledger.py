"""`/api/v1/history/periods` and `occupancies`: the ledger of GPU states and their users."""

from collections.abc import Sequence

from msgspec import UNSET
from msgspec.structs import replace
from starlette.responses import Response

from fleet_smi.model.history import GpuPeriods
from fleet_smi.model.history_privacy import mask_occupancy_commands, mask_period_commands
from fleet_smi.model.history_responses import Occupancies, Periods
from fleet_smi.server.endpoint import Endpoint, RequestContext, unset_to_none
from fleet_smi.server.history_requests import (
    LedgerQuery,
    check_row_limit,
    parse_range,
    require_history,
    threaded_json_response,
)

_MAX_ROWS = 100_000


async def periods(context: RequestContext) -> Response:
    """Intervals in which a GPU had one state and the same processes."""
    query: LedgerQuery = context.query
    span = await parse_range(context, query)
    gpus = [gpu for gpu in await require_history(context).gpus() if query.matches(gpu)]
    rows = await require_history(context).periods(gpus, *span)
    if query.user is not UNSET:
        rows = _periods_of_user(rows, query.user)
    check_row_limit(rows, lambda row: len(row.periods), _MAX_ROWS)

    def build() -> Periods:
        return Periods(
            start=span.start,
            end=span.end,
            rows=mask_period_commands(rows, context.command_visibility),
        )

    return await threaded_json_response(context, build)


async def occupancies(context: RequestContext) -> Response:
    """Intervals in which a process was on a GPU, and how it used it."""
    query: LedgerQuery = context.query
    span = await parse_range(context, query)
    every_row = await require_history(context).occupancies(*span, user=unset_to_none(query.user))
    rows = [row for row in every_row if query.matches(row.gpu)]
    check_row_limit(rows, lambda row: len(row.occupancies), _MAX_ROWS)

    def build() -> Occupancies:
        masked = mask_occupancy_commands(rows, context.command_visibility)
        return Occupancies(start=span.start, end=span.end, rows=masked)

    return await threaded_json_response(context, build)


def _periods_of_user(rows: Sequence[GpuPeriods], user: str) -> list[GpuPeriods]:
    """The periods in which this user had a process on the GPU."""
    filtered = [
        replace(
            row,
            periods=tuple(
                period
                for period in row.periods
                if any(holder.user == user for holder in period.holders)
            ),
        )
        for row in rows
    ]
    return [row for row in filtered if row.periods]


ENDPOINTS = (
    Endpoint(
        method="GET",
        path="/api/v1/history/periods",
        summary="The states of each GPU as intervals, with the processes on it",
        required_action="view",
        handler=periods,
        query=LedgerQuery,
        response=Periods,
        extra_statuses=(404, 503),
    ),
    Endpoint(
        method="GET",
        path="/api/v1/history/occupancies",
        summary="Every process on a GPU as an interval, and how it used the GPU",
        required_action="view",
        handler=occupancies,
        query=LedgerQuery,
        response=Occupancies,
        extra_statuses=(404, 503),
    ),
)
