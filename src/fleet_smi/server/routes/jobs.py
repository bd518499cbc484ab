"""`/api/v1/history/jobs`: what people ran, what it held and what it used."""

import asyncio
from collections.abc import Sequence

from msgspec import UNSET, UnsetType
from msgspec.structs import replace
from starlette.responses import Response

from fleet_smi.hub.history.jobs import began, jobs
from fleet_smi.model.history import GpuOccupancies, Job
from fleet_smi.model.past import Jobs
from fleet_smi.model.past_privacy import job_shown
from fleet_smi.server.endpoint import ApiError, Asked, Endpoint, given
from fleet_smi.server.past import (
    Pattern,
    RangeQuery,
    is_named,
    past_of,
    range_of,
    told,
    within,
)
from fleet_smi.server.refusal import Refusal

_MOST_JOBS = 50_000
_LONGEST_JOB_SECONDS = 31 * 86400.0


class JobsQuery(RangeQuery, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Of one `user`, or on one `node`: its id, or a pattern of names."""

    user: Pattern | UnsetType = UNSET
    node: Pattern | UnsetType = UNSET


async def listed(asked: Asked) -> Response:
    """The jobs of a range, the latest first, without their parts."""
    query: JobsQuery = asked.query
    start, end = await range_of(asked, query)
    found = await past_of(asked).occupancies(start, end, user=given(query.user))
    every = await asyncio.to_thread(_on, query, found)
    within(len(every), _MOST_JOBS, "jobs", "ask for a shorter time, one user or one node")

    def answer() -> Jobs:
        rows = (replace(job_shown(job, asked.commands), parts=()) for job in every)
        return Jobs(start=start, end=end, rows=tuple(rows))

    return await told(asked, answer)


async def one(asked: Asked) -> Response:
    """One job, with what it did on each of its GPUs."""
    job_id, past = asked.path["job_id"], past_of(asked)
    start = began(job_id)
    # Its id has the second that it began in: whose it is, those who were there then tell.
    first = (
        None if start is None else await _called(job_id, await past.occupancies(start, start + 1))
    )
    if start is None or first is None:
        raise ApiError(Refusal(404, "unknown_job", f"no job has the id {job_id}"))
    whole = await past.occupancies(start, start + _LONGEST_JOB_SECONDS, first.user)
    job = await _called(job_id, whole) or first
    return await told(asked, lambda: job_shown(job, asked.commands))


async def _called(job_id: str, found: Sequence[GpuOccupancies]) -> Job | None:
    every = await asyncio.to_thread(jobs, found)
    return next((job for job in every if job.id == job_id), None)


def _on(query: JobsQuery, found: Sequence[GpuOccupancies]) -> list[Job]:
    """The jobs that were on a node that is asked for, whole."""
    node = query.node
    return [
        job
        for job in jobs(found)
        if node is UNSET or any(is_named(part.gpu, node) for part in job.parts)
    ]


ENDPOINTS = (
    Endpoint(
        method="GET",
        path="/api/v1/history/jobs",
        summary="The jobs of a range: what each held, what it used, and advice",
        may="view",
        handle=listed,
        query=JobsQuery,
        answer=Jobs,
        also=(404, 503),
    ),
    Endpoint(
        method="GET",
        path="/api/v1/history/jobs/{job_id}",
        summary="One job, with what it did on each of its GPUs",
        may="view",
        handle=one,
        answer=Job,
        also=(404, 503),
    ),
)
