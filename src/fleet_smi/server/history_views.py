"""What a question about the past is about: a moment or a range that is kept, and which GPUs."""

import asyncio
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
from fleet_smi.model.fleet import FleetView
from fleet_smi.model.history import GpuOfNode
from fleet_smi.model.moment import parse_moment, parse_since
from fleet_smi.model.privacy import mask_commands
from fleet_smi.server.endpoint import ApiError, RequestContext
from fleet_smi.server.http_error import HttpError
from fleet_smi.server.responses import compress_body, encoded_json_response

_JUST_NOW_SECONDS = 5.0
"""What changed since is still on its way to the disk, and hardly anything did."""
_LONGEST_SECONDS = 400 * 86400.0
_NOT_KEPT = HttpError(404, "not_kept", "this hub keeps no history: hub.history is off")
MomentText = Annotated[str, Meta(max_length=64)]
GlobText = Annotated[str, Meta(max_length=128)]


class RangeQuery(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """From when to when: `24h` is so long ago, `yesterday 03:12` or seconds since 1970 a moment."""

    since: MomentText = "24h"
    until: MomentText = "now"


class LedgerQuery(RangeQuery, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """And of what: `node` is a pattern of names or an id, `gpu` a UUID."""

    node: GlobText | UnsetType = UNSET
    gpu: GlobText | UnsetType = UNSET
    user: GlobText | UnsetType = UNSET

    def matches(self, gpu: GpuOfNode) -> bool:
        """Whether this GPU is asked for."""
        if self.gpu is not UNSET and gpu.uuid != self.gpu:
            return False
        return self.node is UNSET or matches_node(gpu, self.node)


class TimeRange(NamedTuple):
    """A part of the past, in seconds since 1970."""

    start: float
    end: float


def matches_node(gpu: GpuOfNode, node: str) -> bool:
    """Whether this is the node's id, or a pattern of its name."""
    return gpu.node_id == node or fnmatch.fnmatchcase(gpu.node, node)


def require_history(context: RequestContext) -> HistoryService:
    """What the hub has written down; an `ApiError` where it writes nothing."""
    past = context.services.history
    if past is None:
        raise ApiError(_NOT_KEPT)
    return past


async def parse_range(context: RequestContext, query: RangeQuery) -> TimeRange:
    """The range that is asked for; raise `UsageError` where nothing of it can be known."""
    now = context.hub.clock()
    start, end = parse_since(query.since, now), parse_moment(query.until, now)
    if not 0 < end - start <= _LONGEST_SECONDS:
        days = round(_LONGEST_SECONDS / 86400)
        raise UsageError(f"since must be before until, by {days} days at most")
    await _require_kept(context, end)
    return TimeRange(start, end)


async def fleet_at(context: RequestContext, at: str | UnsetType) -> FleetView:
    """The fleet as the asker may see it: now or, where a moment is named, as it stood then."""
    if at is UNSET:
        return await context.fleet_view()
    moment, past = parse_moment(at, context.hub.clock()), require_history(context)
    if context.hub.clock() - moment < _JUST_NOW_SECONDS:
        return await context.fleet_view()
    await _require_kept(context, moment)
    view = await past.fleet(moment)
    return await asyncio.to_thread(mask_commands, view, context.command_visibility)


async def _require_kept(asked: RequestContext, moment: float) -> None:
    begins = await require_history(asked).oldest_after(moment)
    if begins is not None:
        raise UsageError(f"nothing is kept from before {_said(begins)}")


def _said(moment: float) -> str:
    if not isfinite(moment):
        return "now"
    return datetime.fromtimestamp(moment).astimezone().strftime("%Y-%m-%d %H:%M %Z")


async def threaded_json_response(context: RequestContext, build: Callable[[], Any]) -> Response:
    """What this makes as JSON; made, written and compressed beside the event loop."""
    body = await asyncio.to_thread(lambda: msgspec.json.encode(build()))
    headers = {"Cache-Control": "no-cache", "Vary": "Authorization, Cookie"}
    return await encoded_json_response(context, await compress_body(body), headers)


def check_limit(count: int, limit: int, noun: str, remedy: str) -> None:
    """Raise `UsageError` where an answer would be too large."""
    if count > limit:
        raise UsageError(f"these are {count} {noun}, and {limit} are told at once: {remedy}")


def check_row_limit(rows: Iterable[Any], row_count: Callable[[Any], int], limit: int) -> None:
    """Raise `UsageError` where there are too many rows."""
    check_limit(sum(map(row_count, rows)), limit, "rows", "ask for a shorter time, or for one node")
