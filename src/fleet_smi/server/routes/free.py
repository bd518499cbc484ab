"""`GET /api/v1/free`: which GPUs to take, best first, and why not the others."""

from typing import Annotated, Literal

from msgspec import UNSET, Meta, Struct, UnsetType
from msgspec.structs import replace
from starlette.responses import Response

from fleet_smi.model.candidates import GpuRequest, node_candidates
from fleet_smi.model.select import Offer, choose_offer
from fleet_smi.model.snapshot import Vendor
from fleet_smi.model.units import parse_size
from fleet_smi.server.endpoint import Endpoint, RequestContext, unset_to_none
from fleet_smi.server.history_requests import MomentText, fleet_at
from fleet_smi.server.response_cache import cached_json_response
from fleet_smi.server.single_flight import iterate_cooperatively
from fleet_smi.wire.json import to_json


class FreeQuery(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The flags of `fleet-smi free`; `n=0` requests all there are.

    `why=false` leaves out the GPUs that are not offered, which are most of a large fleet.
    With `at` it is what was free at that moment.
    """

    n: Annotated[int, Meta(ge=0, le=100_000)] = 0
    min_free: str = "0"
    model: str | UnsetType = UNSET
    vendor: Vendor | UnsetType = UNSET
    policy: Literal["free", "no-process", "memory", "load", "context"] = "free"
    max_used: Annotated[float, Meta(ge=0, le=100)] = 20.0
    same_node: bool = False
    why: bool = True
    at: MomentText | UnsetType = UNSET


async def free(context: RequestContext) -> Response:
    """The offer, judged by the hub's thresholds; `unmet` says why it is less than requested."""
    query: FreeQuery = context.query
    request = GpuRequest(
        count=query.n,
        min_free_bytes=parse_size(query.min_free),
        model=unset_to_none(query.model),
        vendor=unset_to_none(query.vendor),
        policy=query.policy,
        max_used_percent=query.max_used,
        same_node=query.same_node,
    )

    async def encode() -> bytes:
        view = await fleet_at(context, query.at)
        candidates = [
            candidate
            async for node in iterate_cooperatively(view.nodes, context.services.backpressure)
            for candidate in node_candidates(node, request)
        ]
        offer = choose_offer(view, candidates, request, context.hub.fleet.thresholds)
        return to_json(offer if query.why else replace(offer, refused=()))

    return await cached_json_response(context, encode)


ENDPOINTS = (
    Endpoint(
        method="GET",
        path="/api/v1/free",
        summary="Which GPUs are free, best first",
        required_action="view",
        handler=free,
        query=FreeQuery,
        response=Offer,
        extra_statuses=(304, 404, 503),
    ),
)
