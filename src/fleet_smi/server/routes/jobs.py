"""`/api/v1/history/jobs`: what people ran, what it held and what it used."""

import asyncio
from collections.abc import Sequence

from msgspec import UNSET, UnsetType
from msgspec.structs import replace
from starlette.responses import Response

from fleet_smi.hub.history.queries.jobs import group_jobs, job_start
from fleet_smi.model.history import GpuOccupancies, Job
from fleet_smi.model.history_privacy import mask_job_commands
from fleet_smi.model.history_responses import Jobs
from fleet_smi.server.endpoint import ApiError, Endpoint, RequestContext, unset_to_none
from fleet_smi.server.history_views import (
    GlobText,
    RangeQuery,
    check_limit,
    matches_node,
    parse_range,
    require_history,
    threaded_json_response,
)
from fleet_smi.server.http_error import HttpError

_MOST_JOBS = 50_000
_LONGEST_JOB_SECONDS = 31 * 86400.0


class JobsQuery(RangeQuery, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Of one `user`, or on one `node`: its id, or a pattern of names."""

    user: GlobText | UnsetType = UNSET
    node: GlobText | UnsetType = UNSET


async def list_jobs(context: RequestContext) -> Response:
    """The jobs of a range, the latest first, without their parts."""
    query: JobsQuery = context.query
    start, end = await parse_range(context, query)
    found = await require_history(context).occupancies(start, end, user=unset_to_none(query.user))
    every = await asyncio.to_thread(_on, query, found)
    check_limit(len(every), _MOST_JOBS, "jobs", "ask for a shorter time, one user or one node")

    def answer() -> Jobs:
        rows = (
            replace(mask_job_commands(job, context.command_visibility), parts=()) for job in every
        )
        return Jobs(start=start, end=end, rows=tuple(rows))

    return await threaded_json_response(context, answer)


async def get_job(context: RequestContext) -> Response:
    """One job, with what it did on each of its GPUs."""
    job_id, past = context.path_params["job_id"], require_history(context)
    start = job_start(job_id)
    # Its id has the second that it began in: whose it is, those who were there then tell.
    first = (
        None if start is None else await _called(job_id, await past.occupancies(start, start + 1))
    )
    if start is None or first is None:
        raise ApiError(HttpError(404, "unknown_job", f"no job has the id {job_id}"))
    whole = await past.occupancies(start, start + _LONGEST_JOB_SECONDS, first.user)
    job = await _called(job_id, whole) or first
    return await threaded_json_response(
        context, lambda: mask_job_commands(job, context.command_visibility)
    )


async def _called(job_id: str, found: Sequence[GpuOccupancies]) -> Job | None:
    every = await asyncio.to_thread(group_jobs, found)
    return next((job for job in every if job.id == job_id), None)


def _on(query: JobsQuery, found: Sequence[GpuOccupancies]) -> list[Job]:
    """The jobs that were on a node that is asked for, whole."""
    node = query.node
    return [
        job
        for job in group_jobs(found)
        if node is UNSET or any(matches_node(part.gpu, node) for part in job.parts)
    ]


ENDPOINTS = (
    Endpoint(
        method="GET",
        path="/api/v1/history/jobs",
        summary="The jobs of a range: what each held, what it used, and advice",
        required_action="view",
        handler=list_jobs,
        query=JobsQuery,
        response=Jobs,
        extra_statuses=(404, 503),
    ),
    Endpoint(
        method="GET",
        path="/api/v1/history/jobs/{job_id}",
        summary="One job, with what it did on each of its GPUs",
        required_action="view",
        handler=get_job,
        response=Job,
        extra_statuses=(404, 503),
    ),
)
