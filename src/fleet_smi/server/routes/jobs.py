"""`/api/v1/history/jobs`: the jobs of users, which GPUs each held and how it used them."""

import heapq
from collections.abc import Sequence
from typing import Annotated

from msgspec import UNSET, Meta, UnsetType
from msgspec.structs import replace
from starlette.responses import Response

from fleet_smi.hub.history.queries.jobs import group_jobs, job_start
from fleet_smi.hub.query_threads import run_in_query_thread
from fleet_smi.model.history import GpuOccupancies, Job
from fleet_smi.model.history_privacy import mask_job_commands
from fleet_smi.model.history_responses import Jobs
from fleet_smi.server.endpoint import ApiError, Endpoint, RequestContext, unset_to_none
from fleet_smi.server.history_requests import (
    GlobText,
    RangeQuery,
    check_limit,
    matches_node,
    parse_range,
    require_history,
    threaded_json_response,
)
from fleet_smi.server.http_error import HttpError

_MAX_JOBS = 50_000
# Of one job that is looked up by its id: how far after its start its parts are read.
_MAX_JOB_SECONDS = 31 * 86400.0


class JobsQuery(RangeQuery, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A time range; jobs of one `user`, or on a `node` given by its id or a pattern of names.

    `idlest` selects this many of them, those with the most idle time first.
    """

    user: GlobText | UnsetType = UNSET
    node: GlobText | UnsetType = UNSET
    idlest: Annotated[int, Meta(ge=1, le=1000)] | UnsetType = UNSET


async def list_jobs(context: RequestContext) -> Response:
    """The jobs of a time range, the latest or the idlest first, without their parts."""
    query: JobsQuery = context.query
    start, end = await parse_range(context, query)
    history = require_history(context)
    occupancies = await history.occupancies(start, end, user=unset_to_none(query.user))
    jobs = await run_in_query_thread(_select_jobs, query, occupancies)
    check_limit(len(jobs), _MAX_JOBS, "jobs", "request a shorter time, one user or one node")

    def build() -> Jobs:
        rows = (
            replace(mask_job_commands(job, context.command_visibility), parts=()) for job in jobs
        )
        return Jobs(start=start, end=end, rows=tuple(rows))

    return await threaded_json_response(context, build)


async def get_job(context: RequestContext) -> Response:
    """One job, with its part on each of its GPUs."""
    job_id, history = context.path_params["job_id"], require_history(context)
    start = job_start(job_id)
    # The id holds the second that the job began in, not its user: look it up among all
    # processes of that second, then read the whole job of that one user.
    first = (
        None
        if start is None
        else await _find_job(job_id, await history.occupancies(start, start + 1))
    )
    if start is None or first is None:
        raise ApiError(HttpError(404, "unknown_job", f"no job has the id {job_id}"))
    whole = await history.occupancies(start, start + _MAX_JOB_SECONDS, first.user)
    job = await _find_job(job_id, whole) or first
    return await threaded_json_response(
        context, lambda: mask_job_commands(job, context.command_visibility)
    )


async def _find_job(job_id: str, occupancies: Sequence[GpuOccupancies]) -> Job | None:
    jobs = await run_in_query_thread(group_jobs, occupancies)
    return next((job for job in jobs if job.id == job_id), None)


def _select_jobs(query: JobsQuery, occupancies: Sequence[GpuOccupancies]) -> list[Job]:
    """The jobs with a part on the requested node; each with all its parts."""
    node = query.node
    jobs = [
        job
        for job in group_jobs(occupancies)
        if node is UNSET or any(matches_node(part.gpu, node) for part in job.parts)
    ]
    if query.idlest is not UNSET:
        jobs = heapq.nlargest(query.idlest, jobs, key=lambda job: job.sums.idle_seconds)
    return jobs


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
