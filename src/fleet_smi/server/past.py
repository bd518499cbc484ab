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
from fleet_smi.hub.history.answers import Answers
from fleet_smi.model.fleet import FleetView
from fleet_smi.model.history import GpuOfNode
from fleet_smi.model.moment import parse_moment, parse_since
from fleet_smi.model.privacy import shown_to
from fleet_smi.server.answers import pack, unpacked
from fleet_smi.server.endpoint import ApiError, Asked
from fleet_smi.server.refusal import Refusal

_JUST_NOW_SECONDS = 5.0
"""What changed since is still on its way to the disk, and hardly anything did."""
_LONGEST_SECONDS = 400 * 86400.0
_NOT_KEPT = Refusal(404, "not_kept", "this hub keeps no history: hub.history is off")
MomentText = Annotated[str, Meta(max_length=64)]
Pattern = Annotated[str, Meta(max_length=128)]


class RangeQuery(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """From when to when: `24h` is so long ago, `yesterday 03:12` or seconds since 1970 a moment."""

    since: MomentText = "24h"
    until: MomentText = "now"


class PlacesQuery(RangeQuery, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """And of what: `node` is a pattern of names or an id, `gpu` a UUID."""

    node: Pattern | UnsetType = UNSET
    gpu: Pattern | UnsetType = UNSET
    user: Pattern | UnsetType = UNSET

    def wants(self, gpu: GpuOfNode) -> bool:
        """Whether this GPU is asked for."""
        if self.gpu is not UNSET and gpu.uuid != self.gpu:
            return False
        return self.node is UNSET or is_named(gpu, self.node)


class Range(NamedTuple):
    """A part of the past, in seconds since 1970."""

    start: float
    end: float


def is_named(gpu: GpuOfNode, node: str) -> bool:
    """Whether this is the node's id, or a pattern of its name."""
    return gpu.node_id == node or fnmatch.fnmatchcase(gpu.node, node)


def past_of(asked: Asked) -> Answers:
    """What the hub has written down; an `ApiError` where it writes nothing."""
    past = asked.services.past
    if past is None:
        raise ApiError(_NOT_KEPT)
    return past


async def range_of(asked: Asked, query: RangeQuery) -> Range:
    """The range that is asked for; raise `UsageError` where nothing of it can be known."""
    now = asked.hub.clock()
    start, end = parse_since(query.since, now), parse_moment(query.until, now)
    if not 0 < end - start <= _LONGEST_SECONDS:
        days = round(_LONGEST_SECONDS / 86400)
        raise UsageError(f"since must be before until, by {days} days at most")
    await _require_kept(asked, end)
    return Range(start, end)


async def fleet_then(asked: Asked, at: str | UnsetType) -> FleetView:
    """The fleet as the asker may see it: now or, where a moment is named, as it stood then."""
    if at is UNSET:
        return await asked.fleet()
    moment, past = parse_moment(at, asked.hub.clock()), past_of(asked)
    if asked.hub.clock() - moment < _JUST_NOW_SECONDS:
        return await asked.fleet()
    await _require_kept(asked, moment)
    view = await past.fleet(moment)
    return await asyncio.to_thread(shown_to, view, asked.commands)


async def _require_kept(asked: Asked, moment: float) -> None:
    begins = await past_of(asked).begins_after(moment)
    if begins is not None:
        raise UsageError(f"nothing is kept from before {_said(begins)}")


def _said(moment: float) -> str:
    if not isfinite(moment):
        return "now"
    return datetime.fromtimestamp(moment).astimezone().strftime("%Y-%m-%d %H:%M %Z")


async def told(asked: Asked, make: Callable[[], Any]) -> Response:
    """What this makes as JSON; made, written and compressed beside the event loop."""
    body = await asyncio.to_thread(lambda: msgspec.json.encode(make()))
    headers = {"Cache-Control": "no-cache", "Vary": "Authorization, Cookie"}
    return await unpacked(asked, await pack(body), headers)


def within(count: int, most: int, words: str, remedy: str) -> None:
    """Raise `UsageError` where an answer would be too large."""
    if count > most:
        raise UsageError(f"these are {count} {words}, and {most} are told at once: {remedy}")


def bounded(rows: Iterable[Any], count: Callable[[Any], int], most: int) -> None:
    """Raise `UsageError` where there are too many rows."""
    within(sum(map(count, rows)), most, "rows", "ask for a shorter time, or for one node")
