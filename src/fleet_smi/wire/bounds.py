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

from fleet_smi.model.plausible import RANGES

_T = TypeVar("_T", bound=Struct)

_TIME = (0, 2**33)  # the year 2242
_LOAD = (0, 1_000_000)
FIGURES: dict[str, tuple[float, float]] = RANGES | {
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
LONGEST_TEXT = 128
LONGEST: dict[str, int] = {
    "command": 4096,
    "detail": 512,
    "remedy": 512,
    "unread": 512,
    "labels": 256,
}
MOST: dict[str, int] = {
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
IDENTITY = r"\A[0-9A-Za-z][0-9A-Za-z._:@-]{0,159}\Z"
IDENTITIES = ("node_id", "run_id")


def longest(field: str) -> int:
    """How many characters a text of this field may have."""
    return LONGEST.get(field, LONGEST_TEXT)


@cache
def narrowed(shape: type[_T]) -> type[_T]:
    """The struct with bounds on every field; one that is read equals one that was made."""

    def equal(self: Any, other: object) -> Any:
        return astuple(self) == astuple(other) if isinstance(other, shape) else NotImplemented

    made: Any = msgspec.defstruct(
        shape.__name__,
        [(field.name, kind, _default(field)) for field, kind in bounded(shape)],
        bases=(shape,),
        namespace={"__eq__": equal, "__hash__": shape.__hash__},
        frozen=True,
        kw_only=True,
        gc=shape.__struct_config__.gc,
    )
    return cast(type[_T], made)


@cache
def bounded(shape: type[Struct]) -> tuple[tuple[FieldInfo, Any], ...]:
    """Each field of the struct, and its type with bounds."""
    return tuple([(field, _bounded(field.name, field.type)) for field in fields(shape)])


def known(kind: Any) -> Any:
    """The type of what may be `None`, when it is not."""
    if get_origin(kind) in (Union, UnionType):
        return next(one for one in get_args(kind) if one is not type(None))
    return kind


def _default(field: FieldInfo) -> Any:
    if field.default_factory is not msgspec.NODEFAULT:
        return msgspec.field(default_factory=field.default_factory)
    return field.default


def _bounded(name: str, kind: Any) -> Any:
    if known(kind) is not kind:
        return _bounded(name, known(kind)) | None
    if kind in (int, float):
        low, high = FIGURES[name]
        return Annotated[kind, Meta(ge=low, le=high)]
    if kind is str:
        return _text(name)
    if get_origin(kind) is tuple:
        element: Any = _bounded(name, get_args(kind)[0])
        return Annotated[tuple[element, ...], Meta(max_length=MOST[name])]
    if get_origin(kind) is dict:
        texts: Any = GenericAlias(dict, (_text("key"), _text(name)))
        return Annotated[texts, Meta(max_length=MOST[name])]
    return narrowed(kind) if isinstance(kind, type) and issubclass(kind, Struct) else kind


def _text(name: str) -> Any:
    limit = Meta(pattern=IDENTITY) if name in IDENTITIES else Meta(max_length=longest(name))
    return Annotated[str, limit]
