"""The query of endpoints that select a part of the fleet: filters, order, and the moment."""

import fnmatch
import re
from typing import Annotated, Literal

from msgspec import UNSET, Meta, Struct, UnsetType

from fleet_smi.model.filter import parse_filter
from fleet_smi.model.view_options import ViewOptions, parse_states
from fleet_smi.server.endpoint import unset_to_none
from fleet_smi.server.history_requests import MomentText

_MAX_PATTERN_LENGTH = 128
Sort = Literal["index", "attention", "state", "util", "memory", "temperature", "power", "user"]


class SelectionQuery(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`state` is a list like `free,held`; `node` a pattern of names like `gpu0*`.

    `filter` is a text like `free model:A100 mem>40G`. `at` is a moment of the past, like
    `yesterday 03:12`, `-2h` or seconds since 1970.
    """

    user: str | UnsetType = UNSET
    node: Annotated[str, Meta(max_length=_MAX_PATTERN_LENGTH)] | UnsetType = UNSET
    state: str | UnsetType = UNSET
    filter: str | UnsetType = UNSET
    sort: Sort = "index"
    at: MomentText | UnsetType = UNSET


def view_options_from_query(query: SelectionQuery) -> ViewOptions:
    """The filters and the order of a query; raise `UsageError` where they are invalid."""
    return ViewOptions(
        user=unset_to_none(query.user),
        node=None if query.node is UNSET else _pattern(query.node),
        states=None if query.state is UNSET else parse_states(query.state),
        filter=None if query.filter is UNSET else parse_filter(query.filter),
        sort=query.sort,
    )


def _pattern(glob: str) -> re.Pattern[str]:
    # A glob, never a regular expression of the client's: some take forever to match.
    return re.compile(fnmatch.translate(glob))
