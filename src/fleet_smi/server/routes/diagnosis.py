"""`GET /api/v1/diagnosis`: what may slow down a node, a GPU or the GPUs of a person."""

from typing import Annotated

from msgspec import Meta, Struct
from starlette.responses import Response

from fleet_smi.errors import NotFound
from fleet_smi.hub.query_threads import run_in_query_thread
from fleet_smi.model.diagnosis import Diagnosis, diagnose_target
from fleet_smi.server.endpoint import ApiError, Endpoint, RequestContext, json_response
from fleet_smi.server.http_error import HttpError


class DiagnosisQuery(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`target` is a node ("gpu03"), a GPU ("gpu03:1" or its UUID) or a person ("user:alice")."""

    target: Annotated[str, Meta(min_length=1, max_length=200)]


async def diagnosis(context: RequestContext) -> Response:
    """Throttling, heat, sharing, low load, slow links and clocks, the most severe first."""
    query: DiagnosisQuery = context.query
    fleet = await context.fleet_parts()
    try:
        found = await run_in_query_thread(
            diagnose_target, fleet.nodes, query.target, fleet.taken_at
        )
    except NotFound as error:
        raise ApiError(HttpError(404, "unknown_target", str(error))) from None
    return json_response(found)


ENDPOINTS = (
    Endpoint(
        method="GET",
        path="/api/v1/diagnosis",
        summary="What may slow down a node, a GPU or the GPUs of a person",
        required_action="view",
        handler=diagnosis,
        query=DiagnosisQuery,
        response=Diagnosis,
        extra_statuses=(404, 503),
    ),
)
