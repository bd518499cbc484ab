"""`/api/v1/free` and `/api/v1/offers`: which GPUs to take, best first, and why not the others."""

from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from typing import Annotated, Literal, NamedTuple

from msgspec import UNSET, Meta, Struct, UnsetType
from starlette.responses import Response

from fleet_smi.fleet.offer_parts import offer_parts
from fleet_smi.hub.hub import Hub
from fleet_smi.hub.query_threads import run_in_query_thread
from fleet_smi.model.candidates import GpuRequest, make_candidate, name_device
from fleet_smi.model.fleet import JudgedGpu
from fleet_smi.model.node_choice import nodes_on
from fleet_smi.model.node_names import make_names_unique
from fleet_smi.model.queue.estimate import Expected
from fleet_smi.model.select import BriefOffer, Choice, Offer, choose_devices
from fleet_smi.model.snapshot import Vendor
from fleet_smi.model.units import parse_memory
from fleet_smi.model.views import FleetParts, NodeParts, summarize_parts
from fleet_smi.server.backpressure import Backpressure
from fleet_smi.server.endpoint import Endpoint, RequestContext, unset_to_none
from fleet_smi.server.history_requests import MomentText, is_live, parts_at
from fleet_smi.server.offered_gpus import hide_offered
from fleet_smi.server.response_cache import (
    cached_json_response,
    compress_body,
    encoded_json_response,
)
from fleet_smi.server.single_flight import iterate_cooperatively
from fleet_smi.wire.json import to_json


class FreeQuery(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The flags of `fleet-smi free`; `n=0` requests all there are.

    `why=false` leaves out the GPUs that are not offered, which are most of a large fleet.
    With `at` it is what was free at that moment. `on` is `any`, a node by its name or id, or nodes
    by a label (`label:rack=3`): all GPUs are then on one node; `not_on` are ids to leave out.
    """

    n: Annotated[int, Meta(ge=0, le=100_000)] = 0
    min_free: str = "0"
    model: str | UnsetType = UNSET
    vendor: Vendor | UnsetType = UNSET
    policy: Literal["free", "no-process", "memory", "load", "context"] = "free"
    max_used: Annotated[float, Meta(ge=0, le=100)] = 20.0
    same_node: bool = False
    on: Annotated[str, Meta(max_length=400)] | UnsetType = UNSET
    not_on: Annotated[str, Meta(max_length=8192)] | UnsetType = UNSET
    why: bool = True
    at: MomentText | UnsetType = UNSET

    def request(self, person: str | None = None) -> GpuRequest:
        """The request for GPUs; raise `UsageError` if it is invalid."""
        return GpuRequest(
            count=self.n,
            min_free_bytes=parse_memory(self.min_free),
            model=unset_to_none(self.model),
            vendor=unset_to_none(self.vendor),
            policy=self.policy,
            max_used_percent=self.max_used,
            same_node=self.same_node or self.on is not UNSET,
            person=person,
        )

    def choose_nodes(self, nodes: Sequence[NodeParts]) -> Sequence[NodeParts]:
        """The nodes that are meant; raise `UsageError` if there is none."""
        on, not_on = unset_to_none(self.on), unset_to_none(self.not_on)
        return nodes if on is None else nodes_on(nodes, on, not_on or "")


async def free(context: RequestContext) -> Response:
    """The offer, judged by the hub's thresholds; `unmet` says why it is less than requested."""

    async def encode() -> bytes:
        chosen = await _choose(context, await parts_at(context, context.query.at))
        return await run_in_query_thread(lambda: to_json(_full_offer(context, *chosen)))

    context.query.request()  # an invalid one is an error before anything is computed
    return await _offer_response(context, encode)


async def offers(context: RequestContext) -> Response:
    """The same with no more of each GPU than its name; with `why`, also what it was chosen for."""

    async def encode() -> bytes:
        chosen = await _choose_quickly(context)
        if chosen is None:
            chosen = await _choose(context, await parts_at(context, context.query.at))
        return await run_in_query_thread(lambda: to_json(_brief_offer(context, *chosen)))

    context.query.request()
    return await _offer_response(context, encode)


class _Chosen(NamedTuple):
    """The fleet, what was chosen of it, and when an unmet request can be expected to be met."""

    fleet: FleetParts
    choice: Choice
    expected: Expected | None = None


async def _offer_response(
    context: RequestContext, encode: Callable[[], Awaitable[bytes]]
) -> Response:
    if context.query.at is UNSET and context.services.queue.offered_to():
        # What is free now depends on who asks, and changes without the fleet.
        headers = {"Cache-Control": "no-cache", "Vary": "Authorization, Cookie"}
        return await encoded_json_response(context, await compress_body(await encode()), headers)
    return await cached_json_response(context, encode, _booker(context))


def _booker(context: RequestContext) -> str | None:
    """Who asks, if they have booked GPUs; those who have not are all offered the same."""
    return context.services.reservations.with_bookings(context.person)


async def _choose(context: RequestContext, fleet: FleetParts) -> _Chosen:
    query: FreeQuery = context.query
    request, thresholds = query.request(_booker(context)), context.hub.fleet.thresholds
    queue, there = context.services.queue, query.choose_nodes(fleet.nodes)
    nodes = there if query.at is not UNSET else hide_offered(there, queue, context.person)
    # Tens of thousands of GPUs take a moment to compare: not on the event loop.
    choice = await run_in_query_thread(
        lambda: choose_devices(nodes, request, thresholds, explain=query.why)
    )
    expected = None
    if choice.unmet is not None and query.at is UNSET:
        expected = await queue.expect(request, there, context.person)
    return _Chosen(fleet, choice, expected)


async def _choose_quickly(context: RequestContext) -> _Chosen | None:
    """Choose among the GPUs that are free now; `None` if the others have to be looked at, too."""
    query: FreeQuery = context.query
    if query.why or query.policy != "free" or not is_live(context, query.at):
        return None
    build = partial(_collect_offer_parts, context.hub, context.services.backpressure)
    fleet = await context.services.cache.get_or_compute("offer_parts", build)
    chosen = await _choose(context, fleet)
    # Why a request cannot be met depends on the others.
    return chosen if chosen.choice.unmet is None else None


async def _collect_offer_parts(hub: Hub, backpressure: Backpressure) -> FleetParts:
    now, nodes = hub.clock(), list[NodeParts]()
    async for _, node_id in iterate_cooperatively(hub.shown.places(now), backpressure):
        live = hub.shown.live_node(node_id, now)
        parts = None if live is None else offer_parts(live, now)
        parts = parts or hub.shown.node_parts(node_id, now)
        if parts is not None:  # it may have been removed meanwhile
            nodes.append(parts)
    return FleetParts(taken_at=now, summary=summarize_parts(nodes), nodes=tuple(nodes))


def _full_offer(
    context: RequestContext, fleet: FleetParts, choice: Choice, expected: Expected | None
) -> Offer:
    names = _unique_names(fleet)
    # Views only of the nodes that have an offered GPU.
    needed = {one.node.node_id for one in choice.offered}
    gpus: dict[tuple[str, str], JudgedGpu] = {
        (parts.node.node_id, gpu.uuid): gpu
        for parts in fleet.nodes
        if parts.node.node_id in needed
        for gpu in context.masked_view(parts).gpus
    }
    return Offer(
        taken_at=fleet.taken_at,
        summary=fleet.summary,
        wanted=context.query.n,
        offered=tuple(
            make_candidate(one, gpu, names[one.node.node_id])
            for one in choice.offered
            if (gpu := gpus.get((one.node.node_id, one.gpu.uuid))) is not None
        ),
        refused=choice.refused,
        unmet=choice.unmet,
        reason=choice.reason,
        expected=expected,
    )


def _brief_offer(
    context: RequestContext, fleet: FleetParts, choice: Choice, expected: Expected | None
) -> BriefOffer:
    names, explain = _unique_names(fleet), context.query.why
    offered = [name_device(one, names[one.node.node_id], explain=explain) for one in choice.offered]
    return BriefOffer(
        taken_at=fleet.taken_at,
        summary=fleet.summary,
        wanted=context.query.n,
        offered=tuple(offered),
        refused=choice.refused,
        unmet=choice.unmet,
        reason=choice.reason,
        expected=expected,
    )


def _unique_names(fleet: FleetParts) -> dict[str, str]:
    return make_names_unique({parts.node.node_id: parts.node.name for parts in fleet.nodes})


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
    Endpoint(
        method="GET",
        path="/api/v1/offers",
        summary="Which GPUs are free, best first, each by its name alone",
        required_action="view",
        handler=offers,
        query=FreeQuery,
        response=BriefOffer,
        extra_statuses=(304, 404, 503),
    ),
)
