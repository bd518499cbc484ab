"""`/api/v1/history/periods` and `occupancies`: how GPUs stood, and who was on them."""

from collections.abc import Sequence

from msgspec import UNSET
from msgspec.structs import replace
from starlette.responses import Response

from fleet_smi.model.history import GpuPeriods
from fleet_smi.model.history_privacy import mask_occupancy_commands, mask_period_commands
from fleet_smi.model.history_responses import Occupancies, Periods
from fleet_smi.server.endpoint import Endpoint, RequestContext, unset_to_none
from fleet_smi.server.history_views import (
    LedgerQuery,
    check_row_limit,
    parse_range,
    require_history,
    threaded_json_response,
)

_MOST_ROWS = 100_000


async def periods(context: RequestContext) -> Response:
    """Stretches in which a GPU stood one way, with the same processes on it."""
    query: LedgerQuery = context.query
    span = await parse_range(context, query)
    gpus = [gpu for gpu in await require_history(context).gpus() if query.matches(gpu)]
    found = await require_history(context).periods(gpus, *span)
    if query.user is not UNSET:
        found = _with(found, query.user)
    check_row_limit(found, lambda row: len(row.periods), _MOST_ROWS)

    def answer() -> Periods:
        return Periods(
            start=span.start,
            end=span.end,
            rows=mask_period_commands(found, context.command_visibility),
        )

    return await threaded_json_response(context, answer)


async def occupancies(context: RequestContext) -> Response:
    """Processes on GPUs, from when to when, and what they made of that."""
    query: LedgerQuery = context.query
    span = await parse_range(context, query)
    everything = await require_history(context).occupancies(*span, user=unset_to_none(query.user))
    found = [row for row in everything if query.matches(row.gpu)]
    check_row_limit(found, lambda row: len(row.occupancies), _MOST_ROWS)

    def answer() -> Occupancies:
        rows = mask_occupancy_commands(found, context.command_visibility)
        return Occupancies(start=span.start, end=span.end, rows=rows)

    return await threaded_json_response(context, answer)


def _with(rows: Sequence[GpuPeriods], user: str) -> list[GpuPeriods]:
    """The periods in which somebody was there."""
    theirs = [
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
    return [row for row in theirs if row.periods]


ENDPOINTS = (
    Endpoint(
        method="GET",
        path="/api/v1/history/periods",
        summary="How each GPU stood, from when to when, and who was on it",
        required_action="view",
        handler=periods,
        query=LedgerQuery,
        response=Periods,
        extra_statuses=(404, 503),
    ),
    Endpoint(
        method="GET",
        path="/api/v1/history/occupancies",
        summary="Every process on a GPU, from when to when, and what it made of that",
        required_action="view",
        handler=occupancies,
        query=LedgerQuery,
        response=Occupancies,
        extra_statuses=(404, 503),
    ),
)
