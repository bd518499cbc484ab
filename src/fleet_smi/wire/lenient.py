"""Lenient decoding of a snapshot that breaks a limit: field by field, what is valid stays.

A figure out of range becomes `None`, and `unread` of its struct says why. A text is truncated.
Of too many items the first ones stay, of too many processes the largest; the others are counted.
A part without an id is dropped, and a failed run named `report` says so.
"""

from contextlib import suppress
from functools import cache
from typing import Annotated, Any, TypeVar, cast, get_args, get_origin

import msgspec
from msgspec import Meta, Raw, Struct
from msgspec.structs import FieldInfo, replace

from fleet_smi.errors import Undecodable
from fleet_smi.model.safe_text import sanitize_text
from fleet_smi.model.snapshot import CollectorRun, Fault, Gpu, Instance, Process, Snapshot
from fleet_smi.wire.error_text import describe_error
from fleet_smi.wire.limits import (
    FIELD_RANGES,
    ID_FIELDS,
    MAX_ITEMS,
    MAX_TEXT_LENGTH,
    constrained_fields,
    constrained_type,
    max_length,
    unwrap_optional,
)

UnreadReasons = dict[str, str]
_T = TypeVar("_T", bound=Struct)
DECODE_ERRORS = (ValueError, RecursionError)
# About half a second of work, which is the most that one hostile sender may cost.
_MAX_PARTS = 20_000
_LIST = Annotated[list[Raw], Meta(max_length=_MAX_PARTS)]
_TEXTS_BY_NAME = Annotated[dict[str, Raw], Meta(max_length=_MAX_PARTS)]
_DEFAULT = object()  # a field that is to take its default: `None` is a value of its own


class _NoIdentity(ValueError):
    """A part without a field that it cannot do without."""


class _Sized(Struct):
    """The one field by which processes are ranked; the others are not decoded."""

    gpu_memory_bytes: int | None = None


class LenientDecoder:
    """Decodes the snapshots of one report, and notes what it had to drop."""

    def __init__(self, *, json: bool) -> None:
        self._json = json
        self._notes: UnreadReasons = {}
        self._more_processes = 0  # that were sent beyond the limit of a list
        self._parts = 0  # over the whole report: many lists of few items cost as much as one

    def decode_snapshot(self, raw: Raw) -> Snapshot:
        """Decode a snapshot; raise `Undecodable` when it has no node or no time."""
        self._notes = {}
        try:
            snapshot = self._struct(raw, Snapshot, 0)
        except DECODE_ERRORS as error:
            raise Undecodable(f"not a snapshot: {describe_error(error)}") from None
        if not self._notes:
            return snapshot
        detail = sanitize_text(
            "; ".join(f"{name}: {reason}" for name, reason in self._notes.items()), 512
        )
        run = CollectorRun(name="report", outcome="failed", seconds=0.0, detail=detail)
        return replace(snapshot, runs=(run, *snapshot.runs)[: MAX_ITEMS["runs"]])

    def decode_number(self, raw: Raw, field: str) -> float | None:
        """Decode a number outside of any struct; `None` when it is out of range."""
        low, high = FIELD_RANGES[field]
        try:
            value: float = self.decode(raw, float)
        except DECODE_ERRORS:
            return None
        return value if low <= value <= high else None

    def decode_text(self, raw: Raw, field: str) -> str | None:
        """Decode a text outside of any struct; `None` when it is too long, or none."""
        try:
            text: str = self.decode(raw, str)
        except DECODE_ERRORS:
            return None
        return text if len(text) <= max_length(field) else None

    def decode(self, raw: Raw | bytes, type_: Any) -> Any:
        """Decode these bytes as this type; raise one of `DECODE_ERRORS`."""
        return cached_decoder(type_, self._json).decode(raw)

    def _struct(self, raw: Raw, shape: type[_T], position: int) -> _T:
        """Decode one struct, the `position`-th of its list."""
        # Strict first at every level: what surrounds a bad field is decoded in C as usual.
        try:
            return cast(_T, self.decode(raw, constrained_type(shape)))
        except DECODE_ERRORS:
            return self._by_fields(self.decode(raw, _loose(shape)), shape, position)

    def _by_fields(self, loose: Struct, shape: type[_T], position: int) -> _T:
        values: dict[str, Any] = {}
        unread: UnreadReasons = {}
        replacements = _replacements(shape, position)
        for field, kind in constrained_fields(shape):
            value = self._field(getattr(loose, field.name), field, kind, unread)
            # Not only required fields: a fault of an unknown kind must not become "no fault".
            if value is _DEFAULT and (field.required or field.name in unread):
                value = replacements.get(field.name, _DEFAULT)
            if value is not _DEFAULT:
                values[field.name] = value
            elif field.required:
                raise _NoIdentity(f"no {field.name} that can be one")
        if values.get("uuid") == replacements.get("uuid", _DEFAULT):
            values["uuid_is_made"] = True
        if self._more_processes and "more_processes" in shape.__struct_fields__:
            values["more_processes"] = values.get("more_processes", 0) + self._more_processes
            self._more_processes = 0
        self._explain(shape, values, unread)
        return cast(_T, constrained_type(shape)(**values))

    def _explain(self, shape: type[Struct], values: dict[str, Any], unread: UnreadReasons) -> None:
        if "unread" in shape.__struct_fields__:
            # Our reasons come first, so that the limit does not cut them, and last, so that
            # the sender's do not replace them.
            reasons = unread | values.get("unread", {}) | unread
            values["unread"] = dict([*reasons.items()][: MAX_ITEMS["unread"]])
        else:
            self._notes.update(unread)

    def _field(self, raw: Raw, field: FieldInfo, kind: Any, unread: UnreadReasons) -> Any:
        if not raw:  # the field was not sent
            return _DEFAULT
        try:
            return self.decode(raw, kind)
        except DECODE_ERRORS:
            return self._repair(raw, field.name, unwrap_optional(field.type), unread)

    def _repair(self, raw: Raw, name: str, kind: Any, unread: UnreadReasons) -> Any:
        """Return what is valid in a field that breaks its limits; explain it in `unread`."""
        try:
            if kind is str:
                return self._text(raw, name)
            if get_origin(kind) is dict:
                return self._texts_by_name(raw, name)
            if get_origin(kind) is tuple:
                return self._items(raw, name, get_args(kind)[0], unread)
            if isinstance(kind, type) and issubclass(kind, Struct):
                return self._struct(raw, kind, 0)
        except DECODE_ERRORS:
            unread[name] = "not understood"
        else:
            unread[name] = self._reason(raw, name, kind)
        return _DEFAULT

    def _text(self, raw: Raw, name: str) -> str:
        # An id is never repaired: a changed one could be that of another node.
        if name in ID_FIELDS:
            raise _NoIdentity(f"{name} is not valid")
        return sanitize_text(self.decode(raw, str), max_length(name))

    def _texts_by_name(self, raw: Raw, name: str) -> dict[str, str]:
        sent: dict[str, Raw] = self.decode(raw, _TEXTS_BY_NAME)
        texts: dict[str, str] = {}
        for key, value in [*sent.items()][: MAX_ITEMS[name]]:
            with suppress(*DECODE_ERRORS):
                texts[sanitize_text(key, MAX_TEXT_LENGTH)] = self._text(value, name)
        return texts

    def _items(self, raw: Raw, name: str, kind: Any, unread: UnreadReasons) -> Any:
        sent: list[Raw] = self.decode(raw, _LIST)
        self._parts += len(sent)
        if self._parts > _MAX_PARTS:
            # Not one of `DECODE_ERRORS`, so that no caller repairs it: the snapshot is refused.
            raise Undecodable(f"more than {_MAX_PARTS} items in lists that break the limits")
        within_limit, items = self._within_limit(sent, name), []
        for position, item in enumerate(within_limit):
            try:
                items.append(
                    self._text(item, name) if kind is str else self._struct(item, kind, position)
                )
            except DECODE_ERRORS:
                unread[name] = "not all could be read"
        if len(sent) > len(within_limit) and kind is Process:
            self._more_processes = len(sent) - len(within_limit)
        elif len(sent) > len(within_limit):
            unread[name] = f"{len(sent)} were sent; only the first {len(within_limit)} are shown"
        # An empty list says that there is none; one of which nothing is readable does not.
        return tuple(items) if items or not sent else _DEFAULT

    def _within_limit(self, sent: list[Raw], name: str) -> list[Raw]:
        if len(sent) > MAX_ITEMS[name] and name == "processes":
            sent = sorted(sent, key=self._size, reverse=True)
        return sent[: MAX_ITEMS[name]]

    def _size(self, raw: Raw) -> int:
        try:
            return self.decode(raw, _Sized).gpu_memory_bytes or 0
        except DECODE_ERRORS:
            return 0

    def _reason(self, raw: Raw, name: str, kind: Any) -> str:
        if kind not in (int, float):
            return "not known here"
        try:
            value: float = self.decode(raw, float)
        except DECODE_ERRORS:
            return "not a number"
        low, high = FIELD_RANGES[name]
        return "not a whole number" if low <= value <= high else f"out of range: {value:g}"


@cache
def cached_decoder(type_: Any, json: bool) -> Any:
    """Return the decoder of this type for JSON or msgpack, built once."""
    return msgspec.json.Decoder(type_) if json else msgspec.msgpack.Decoder(type_)


@cache
def _loose(shape: type[Struct]) -> type[Struct]:
    """Return the struct type with every field left undecoded."""
    return msgspec.defstruct(
        shape.__name__, [(name, Raw, Raw()) for name in shape.__struct_fields__]
    )


def _replacements(shape: type[Struct], position: int) -> dict[str, Any]:
    """Return the values of required fields that cannot be decoded.

    An enum value of a later version is replaced by the one that hides nothing: a process
    computes, a fault stays a fault, a run has failed.
    """
    if shape is Gpu:
        fault = Fault(
            kind="unreadable", detail="its fault is of a kind that this version does not know"
        )
        return {"uuid": f"GPU-of-unknown-uuid-{position}", "index": position, "fault": fault}
    if shape is Instance:
        return {"uuid": f"MIG-of-unknown-uuid-{position}"}
    if shape is Process:
        return {"kind": "compute"}
    if shape is Fault:
        return {"kind": "unreadable", "detail": ""}
    if shape is CollectorRun:
        return {"outcome": "failed"}
    return {"name": ""} if shape is Snapshot else {}
