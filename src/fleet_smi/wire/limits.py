"""Limits of a report: ranges of figures, lengths of texts, numbers of items.

`constrained_type` derives from a struct of the model one whose fields carry these limits, which
msgspec checks in C while it decodes, at no measurable cost. The model itself takes any value.
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
    "until": _TIME,
    "interval_seconds": (0.01, 7 * 86_400),
    "sequence": (0, 2**53),  # exact in JSON readers that use doubles
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
    "interfaces": 64,
    "throttle_reasons": 32,
    "labels": 64,
    "unread": 64,
}
# Node ids and run ids become parts of URLs, file names and addresses. What begins like "pull:" is
# the hub's own id of a target that has not reported yet (`Via.placeholder_id`): no sender has it.
ID_PATTERN = r"\A(?![a-z_-]+:)[0-9A-Za-z][0-9A-Za-z._:@-]{0,159}\Z"
ID_FIELDS = ("node_id", "run_id")


def max_length(field: str) -> int:
    """Return the most characters that a text of this field may have."""
    return MAX_LENGTH_BY_FIELD.get(field, MAX_TEXT_LENGTH)


@cache
def constrained_type(struct_type: type[_T]) -> type[_T]:
    """Return the struct type with limits on every field."""

    # msgspec compares only objects of the very same type; a decoded struct has to equal one
    # that was built as the model's own type.
    def equal(self: Any, other: object) -> Any:
        return astuple(self) == astuple(other) if isinstance(other, struct_type) else NotImplemented

    constrained: Any = msgspec.defstruct(
        struct_type.__name__,
        [(field.name, kind, _default(field)) for field, kind in constrained_fields(struct_type)],
        bases=(struct_type,),
        # A class that defines `__eq__` alone is not hashable.
        namespace={"__eq__": equal, "__hash__": struct_type.__hash__},
        frozen=True,
        kw_only=True,
        gc=struct_type.__struct_config__.gc,
    )
    return cast(type[_T], constrained)


@cache
def constrained_fields(struct_type: type[Struct]) -> tuple[tuple[FieldInfo, Any], ...]:
    """Return each field of the struct, and its type with limits."""
    return tuple([(field, _constrained(field.name, field.type)) for field in fields(struct_type)])


def unwrap_optional(annotation: Any) -> Any:
    """Return `T` for `T | None`, any other type as it is."""
    if get_origin(annotation) in (Union, UnionType):
        return next(member for member in get_args(annotation) if member is not type(None))
    return annotation


def _default(field: FieldInfo) -> Any:
    if field.default_factory is not msgspec.NODEFAULT:
        return msgspec.field(default_factory=field.default_factory)
    return field.default


def _constrained(name: str, kind: Any) -> Any:
    if unwrap_optional(kind) is not kind:
        return _constrained(name, unwrap_optional(kind)) | None
    if kind in (int, float):
        low, high = FIELD_RANGES[name]
        return Annotated[kind, Meta(ge=low, le=high)]
    if kind is str:
        return _text(name)
    if get_origin(kind) is tuple:
        element: Any = _constrained(name, get_args(kind)[0])
        return Annotated[tuple[element, ...], Meta(max_length=MAX_ITEMS[name])]
    if get_origin(kind) is dict:
        texts: Any = GenericAlias(dict, (_text("key"), _text(name)))
        return Annotated[texts, Meta(max_length=MAX_ITEMS[name])]
    return constrained_type(kind) if isinstance(kind, type) and issubclass(kind, Struct) else kind


def _text(name: str) -> Any:
    limit = Meta(pattern=ID_PATTERN) if name in ID_FIELDS else Meta(max_length=max_length(name))
    return Annotated[str, limit]
