"""`/api/v1/history/periods` and `occupancies`: how GPUs stood, and who was on them."""

from collections.abc import Sequence

from msgspec import UNSET
from msgspec.structs import replace
from starlette.responses import Response

from fleet_smi.model.history import GpuPeriods
from fleet_smi.model.past import Occupancies, Periods
from fleet_smi.model.past_privacy import occupancies_shown, periods_shown
from fleet_smi.server.endpoint import Asked, Endpoint, given
from fleet_smi.server.past import PlacesQuery, bounded, past_of, range_of, told

_MOST_ROWS = 100_000


async def periods(asked: Asked) -> Response:
    """Stretches in which a GPU stood one way, with the same processes on it."""
    query: PlacesQuery = asked.query
    span = await range_of(asked, query)
    gpus = [gpu for gpu in await past_of(asked).gpus() if query.wants(gpu)]
    found = await past_of(asked).periods(gpus, *span)
    if query.user is not UNSET:
        found = _with(found, query.user)
    bounded(found, lambda row: len(row.periods), _MOST_ROWS)

    def answer() -> Periods:
        return Periods(start=span.start, end=span.end, rows=periods_shown(found, asked.commands))

    return await told(asked, answer)


async def occupancies(asked: Asked) -> Response:
    """Processes on GPUs, from when to when, and what they made of that."""
    query: PlacesQuery = asked.query
    span = await range_of(asked, query)
    everything = await past_of(asked).occupancies(*span, user=given(query.user))
    found = [row for row in everything if query.wants(row.gpu)]
    bounded(found, lambda row: len(row.occupancies), _MOST_ROWS)

    def answer() -> Occupancies:
        rows = occupancies_shown(found, asked.commands)
        return Occupancies(start=span.start, end=span.end, rows=rows)

    return await told(asked, answer)


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
        may="view",
        handle=periods,
        query=PlacesQuery,
        answer=Periods,
        also=(404, 503),
    ),
    Endpoint(
        method="GET",
        path="/api/v1/history/occupancies",
        summary="Every process on a GPU, from when to when, and what it made of that",
        may="view",
        handle=occupancies,
        query=PlacesQuery,
        answer=Occupancies,
        also=(404, 503),
    ),
)
