"""What a report may hold: how large a figure, how long a text, how many of a thing.

`narrowed` makes of a struct of the model one that is the same, and that a decoder holds to
these bounds: checked while it reads, they cost nothing. The model itself takes anything.
"""

from functools import cache
from types import GenericAlias, UnionType
from typing import Annotated, Any, TypeVar, Union, cast, get_args, get_origin

import msgspec
from msgspec import Meta, Struct
from msgspec.structs import FieldInfo, astuple, fields

from fleet_smi.model.range_check import RANGES

_T = TypeVar("_T", bound=Struct)

_TIME = (0, 2**33)  # the year 2242
_LOAD = (0, 1_000_000)
FIELD_RANGES: dict[str, tuple[float, float]] = RANGES | {
    "taken_at": _TIME,
    "sent_at": _TIME,
    "booted_at": _TIME,
    "since": _TIME,
    "interval_seconds": (0.01, 7 * 86_400),
    "sequence": (0, 2**53),
    "cpu_count": (1, 65_536),
    "load_1_minute": _LOAD,
    "load_5_minutes": _LOAD,
    "load_15_minutes": _LOAD,
    "seconds": (0, 86_400),
    "version": (0, 65_535),
}
MAX_TEXT_LENGTH = 128
MAX_LENGTH_BY_FIELD: dict[str, int] = {
    "command": 4096,
    "detail": 512,
    "remedy": 512,
    "unread": 512,
    "labels": 256,
}
MAX_ITEMS: dict[str, int] = {
    "snapshots": 500,
    "gpus": 128,
    "instances": 32,
    "processes": 1_000,
    "runs": 64,
    "addresses": 64,
    "throttle_reasons": 32,
    "labels": 64,
    "unread": 64,
}
# A node's id and that of an agent's life are part of paths, files and addresses.
ID_PATTERN = r"\A[0-9A-Za-z][0-9A-Za-z._:@-]{0,159}\Z"
ID_FIELDS = ("node_id", "run_id")


def max_length(field: str) -> int:
    """How many characters a text of this field may have."""
    return MAX_LENGTH_BY_FIELD.get(field, MAX_TEXT_LENGTH)


@cache
def constrained_type(struct_type: type[_T]) -> type[_T]:
    """The struct with bounds on every field; one that is read equals one that was made."""

    def equal(self: Any, other: object) -> Any:
        return astuple(self) == astuple(other) if isinstance(other, struct_type) else NotImplemented

    made: Any = msgspec.defstruct(
        struct_type.__name__,
        [(field.name, kind, _default(field)) for field, kind in constrained_fields(struct_type)],
        bases=(struct_type,),
        namespace={"__eq__": equal, "__hash__": struct_type.__hash__},
        frozen=True,
        kw_only=True,
        gc=struct_type.__struct_config__.gc,
    )
    return cast(type[_T], made)


@cache
def constrained_fields(struct_type: type[Struct]) -> tuple[tuple[FieldInfo, Any], ...]:
    """Each field of the struct, and its type with bounds."""
    return tuple([(field, _bounded(field.name, field.type)) for field in fields(struct_type)])


def unwrap_optional(annotation: Any) -> Any:
    """The type of what may be `None`, when it is not."""
    if get_origin(annotation) in (Union, UnionType):
        return next(one for one in get_args(annotation) if one is not type(None))
    return annotation


def _default(field: FieldInfo) -> Any:
    if field.default_factory is not msgspec.NODEFAULT:
        return msgspec.field(default_factory=field.default_factory)
    return field.default


def _bounded(name: str, kind: Any) -> Any:
    if unwrap_optional(kind) is not kind:
        return _bounded(name, unwrap_optional(kind)) | None
    if kind in (int, float):
        low, high = FIELD_RANGES[name]
        return Annotated[kind, Meta(ge=low, le=high)]
    if kind is str:
        return _text(name)
    if get_origin(kind) is tuple:
        element: Any = _bounded(name, get_args(kind)[0])
        return Annotated[tuple[element, ...], Meta(max_length=MAX_ITEMS[name])]
    if get_origin(kind) is dict:
        texts: Any = GenericAlias(dict, (_text("key"), _text(name)))
        return Annotated[texts, Meta(max_length=MAX_ITEMS[name])]
    return constrained_type(kind) if isinstance(kind, type) and issubclass(kind, Struct) else kind


def _text(name: str) -> Any:
    limit = Meta(pattern=ID_PATTERN) if name in ID_FIELDS else Meta(max_length=max_length(name))
    return Annotated[str, limit]
