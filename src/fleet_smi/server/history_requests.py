"""Shared by the endpoints about the past: time ranges, GPU filters, past fleets, size limits."""

import fnmatch
from collections.abc import Callable, Iterable
from datetime import datetime
from math import isfinite
from typing import Annotated, Any, NamedTuple

import msgspec
from msgspec import UNSET, Meta, Struct, UnsetType
from starlette.responses import Response

from fleet_smi.errors import UsageError
from fleet_smi.hub.history.queries.service import HistoryService
from fleet_smi.hub.query_threads import run_in_query_thread
from fleet_smi.model.fleet import FleetView
from fleet_smi.model.history import GpuOfNode
from fleet_smi.model.moment import parse_moment, parse_since
from fleet_smi.model.privacy import mask_commands
from fleet_smi.model.views import FleetParts, split_fleet_view
from fleet_smi.server.endpoint import ApiError, RequestContext
from fleet_smi.server.http_error import HttpError
from fleet_smi.server.response_cache import compress_body, encoded_json_response

# The last seconds may not be written yet: they are answered from the live fleet.
_LIVE_SECONDS = 5.0
_MAX_RANGE_SECONDS = 400 * 86400.0
_NO_HISTORY = HttpError(404, "not_kept", "this hub has no history: hub.history is off")
MomentText = Annotated[str, Meta(max_length=64)]
GlobText = Annotated[str, Meta(max_length=128)]


class RangeQuery(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A time range; moments are like `24h` (ago), `yesterday 03:12` or seconds since 1970."""

    since: MomentText = "24h"
    until: MomentText = "now"


class LedgerQuery(RangeQuery, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A time range and a filter: `node` is an id or a pattern of names, `gpu` a UUID.

    A GPU is selected together with its MIG instances: what ran on it is recorded for these.
    """

    node: GlobText | UnsetType = UNSET
    gpu: GlobText | UnsetType = UNSET
    user: GlobText | UnsetType = UNSET

    def matches(self, gpu: GpuOfNode) -> bool:
        """Whether `node` and `gpu` select this GPU; `user` is about what ran on it."""
        if self.gpu is not UNSET and self.gpu not in (gpu.uuid, gpu.parent):
            return False
        return self.node is UNSET or matches_node(gpu, self.node)


class TimeRange(NamedTuple):
    """A time range in seconds since 1970."""

    start: float
    end: float


def matches_node(gpu: GpuOfNode, node: str) -> bool:
    """Whether the GPU is on the node of this id or name pattern."""
    return gpu.node_id == node or fnmatch.fnmatchcase(gpu.node, node)


def require_history(context: RequestContext) -> HistoryService:
    """The history of the hub; raise `ApiError` (404) where it records none."""
    history = context.services.history
    if history is None:
        raise ApiError(_NO_HISTORY)
    return history


async def parse_range(context: RequestContext, query: RangeQuery) -> TimeRange:
    """Parse the range of a query; raise `UsageError` where it is invalid or older than history."""
    now = context.hub.clock()
    start, end = parse_since(query.since, now), parse_moment(query.until, now)
    if not 0 < end - start <= _MAX_RANGE_SECONDS:
        days = round(_MAX_RANGE_SECONDS / 86400)
        raise UsageError(f"since must be before until, by {days} days at most")
    # Only the end: a range may begin before the history, which then just has no data there.
    await _require_recorded(context, end)
    return TimeRange(start, end)


def is_live(context: RequestContext, at: str | UnsetType) -> bool:
    """Whether no moment is given, or one so recent that the live fleet stands for it."""
    if at is UNSET:
        return True
    now = context.hub.clock()
    return now - parse_moment(at, now) < _LIVE_SECONDS


async def fleet_at(context: RequestContext, at: str | UnsetType) -> FleetView:
    """The fleet as the client may see it, now or at a moment of the past.

    Raise `ApiError` (404) where the hub records no history, and `UsageError` where the moment is
    invalid or older than it.
    """
    if at is UNSET:
        return await context.fleet_view()
    moment, history = parse_moment(at, context.hub.clock()), require_history(context)
    if is_live(context, at):
        return await context.fleet_view()
    await _require_recorded(context, moment)
    view = await history.fleet(moment)
    return await run_in_query_thread(mask_commands, view, context.command_visibility)


async def parts_at(context: RequestContext, at: str | UnsetType) -> FleetParts:
    """The fleet in parts, now or at a moment of the past; it raises what `fleet_at` does."""
    if is_live(context, at):
        return await context.fleet_parts()
    return await run_in_query_thread(split_fleet_view, await fleet_at(context, at))


async def _require_recorded(context: RequestContext, moment: float) -> None:
    oldest = await require_history(context).oldest_after(moment)
    if oldest is not None:
        if not isfinite(oldest):  # nothing is recorded yet
            raise UsageError("the history is still empty: request a later moment")
        raise UsageError(f"the history begins at {_format_local(oldest)}")


def _format_local(moment: float) -> str:
    return datetime.fromtimestamp(moment).astimezone().strftime("%Y-%m-%d %H:%M %Z")


async def threaded_json_response(context: RequestContext, build: Callable[[], Any]) -> Response:
    """A JSON response built, encoded and compressed in a thread, off the event loop."""
    body = await run_in_query_thread(lambda: msgspec.json.encode(build()))
    headers = {"Cache-Control": "no-cache", "Vary": "Authorization, Cookie"}
    return await encoded_json_response(context, await compress_body(body), headers)


def check_limit(count: int, limit: int, noun: str, remedy: str) -> None:
    """Raise `UsageError` where a response would be too large."""
    if count > limit:
        raise UsageError(f"{count} {noun} exceed the limit of {limit}: {remedy}")


def check_row_limit(groups: Iterable[Any], row_count: Callable[[Any], int], limit: int) -> None:
    """Raise `UsageError` where these groups, such as GPUs, have too many rows together."""
    check_limit(sum(map(row_count, groups)), limit, "rows", "request a shorter time, or one node")
