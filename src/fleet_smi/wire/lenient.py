"""Reading a snapshot that breaks the bounds, part by part: what is right in it is kept.

A figure that cannot be true is not measured, and `unread` of its struct says why. A text is
cut. Of too many things the first are kept, of too many processes the largest. What has
nothing to be known by is dropped; a failed run named `report` tells of it.
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
# Half a second of work: what is wrong in more places than this is not worth it.
_MOST_PARTS = 20_000
_LIST = Annotated[list[Raw], Meta(max_length=_MOST_PARTS)]
_TEXTS_BY_NAME = Annotated[dict[str, Raw], Meta(max_length=_MOST_PARTS)]
_DEFAULT = object()


class _Lost(ValueError):
    """A part that has nothing to be known by."""


class _Sized(Struct):
    gpu_memory_bytes: int | None = None


class LenientDecoder:
    """Reads the snapshots of one report, and notes what it could not keep."""

    def __init__(self, *, json: bool) -> None:
        self._json = json
        self._notes: UnreadReasons = {}
        self._parts = 0

    def decode_snapshot(self, raw: Raw) -> Snapshot:
        """The snapshot in these bytes; raise `Undecodable` when it is nobody's or of no time."""
        self._notes = {}
        try:
            found = self._struct(raw, Snapshot, 0)
        except DECODE_ERRORS as error:
            raise Undecodable(f"not a snapshot: {describe_error(error)}") from None
        if not self._notes:
            return found
        detail = sanitize_text(
            "; ".join(f"{name}: {why}" for name, why in self._notes.items()), 512
        )
        told = CollectorRun(name="report", outcome="failed", seconds=0.0, detail=detail)
        return replace(found, runs=(told, *found.runs)[: MAX_ITEMS["runs"]])

    def decode_number(self, raw: Raw, field: str) -> float | None:
        """A number outside of any struct; `None` when it cannot be true."""
        low, high = FIELD_RANGES[field]
        try:
            value: float = self.decode(raw, float)
        except DECODE_ERRORS:
            return None
        return value if low <= value <= high else None

    def decode(self, raw: Raw | bytes, type_: Any) -> Any:
        """These bytes as this type; raise one of `UNREADABLE`."""
        return cached_decoder(type_, self._json).decode(raw)

    def _struct(self, raw: Raw, shape: type[_T], place: int) -> _T:
        """One struct, which is the `place`-th of its list."""
        try:
            return cast(_T, self.decode(raw, constrained_type(shape)))
        except DECODE_ERRORS:
            return self._by_fields(self.decode(raw, _loose(shape)), shape, place)

    def _by_fields(self, loose: Struct, shape: type[_T], place: int) -> _T:
        values: dict[str, Any] = {}
        unread: UnreadReasons = {}
        instead = _instead(shape, place)
        for field, kind in constrained_fields(shape):
            value = self._field(getattr(loose, field.name), field, kind, unread)
            if value is _DEFAULT and (field.required or field.name in unread):
                value = instead.get(field.name, _DEFAULT)
            if value is not _DEFAULT:
                values[field.name] = value
            elif field.required:
                raise _Lost(f"no {field.name} that can be one")
        if values.get("uuid") == instead.get("uuid", _DEFAULT):
            values["uuid_is_made"] = True
        self._tell(shape, values, unread)
        return cast(_T, constrained_type(shape)(**values))

    def _tell(self, shape: type[Struct], values: dict[str, Any], unread: UnreadReasons) -> None:
        if "unread" in shape.__struct_fields__:
            # Ours come first and last: they are not crowded out, and not overruled.
            told = unread | values.get("unread", {}) | unread
            values["unread"] = dict([*told.items()][: MAX_ITEMS["unread"]])
        else:
            self._notes.update(unread)

    def _field(self, raw: Raw, field: FieldInfo, kind: Any, unread: UnreadReasons) -> Any:
        if not raw:
            return _DEFAULT
        try:
            return self.decode(raw, kind)
        except DECODE_ERRORS:
            return self._mended(raw, field.name, unwrap_optional(field.type), unread)

    def _mended(self, raw: Raw, name: str, kind: Any, unread: UnreadReasons) -> Any:
        """What can be kept of a field that is not as it should be."""
        try:
            if kind is str:
                return self._text(raw, name)
            if get_origin(kind) is dict:
                return self._texts_by_name(raw, name)
            if get_origin(kind) is tuple:
                return self._several(raw, name, get_args(kind)[0], unread)
            if isinstance(kind, type) and issubclass(kind, Struct):
                return self._struct(raw, kind, 0)
        except DECODE_ERRORS:
            unread[name] = "not understood"
        else:
            unread[name] = self._why(raw, name, kind)
        return _DEFAULT

    def _text(self, raw: Raw, name: str) -> str:
        if name in ID_FIELDS:
            raise _Lost(f"{name} is none")
        return sanitize_text(self.decode(raw, str), max_length(name))

    def _texts_by_name(self, raw: Raw, name: str) -> dict[str, str]:
        told: dict[str, Raw] = self.decode(raw, _TEXTS_BY_NAME)
        kept: dict[str, str] = {}
        for key, value in [*told.items()][: MAX_ITEMS[name]]:
            with suppress(*DECODE_ERRORS):
                kept[sanitize_text(key, MAX_TEXT_LENGTH)] = self._text(value, name)
        return kept

    def _several(self, raw: Raw, name: str, kind: Any, unread: UnreadReasons) -> Any:
        told: list[Raw] = self.decode(raw, _LIST)
        self._parts += len(told)
        if self._parts > _MOST_PARTS:
            raise Undecodable("wrong in more places than is worth mending")
        kept, found = self._kept(told, name), []
        for place, each in enumerate(kept):
            try:
                found.append(
                    self._text(each, name) if kind is str else self._struct(each, kind, place)
                )
            except DECODE_ERRORS:
                unread[name] = "not all could be read"
        if len(told) > len(kept):
            which = "largest" if kind is Process else "first"
            unread[name] = f"{len(told)} were told; the {which} {len(kept)} are kept"
        # Nobody there and nobody readable are not the same.
        return tuple(found) if found or not told else _DEFAULT

    def _kept(self, told: list[Raw], name: str) -> list[Raw]:
        if len(told) > MAX_ITEMS[name] and name == "processes":
            told = sorted(told, key=self._size, reverse=True)
        return told[: MAX_ITEMS[name]]

    def _size(self, raw: Raw) -> int:
        try:
            return self.decode(raw, _Sized).gpu_memory_bytes or 0
        except DECODE_ERRORS:
            return 0

    def _why(self, raw: Raw, name: str, kind: Any) -> str:
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
    """What reads this type from JSON or msgpack, made once."""
    return msgspec.json.Decoder(type_) if json else msgspec.msgpack.Decoder(type_)


@cache
def _loose(shape: type[Struct]) -> type[Struct]:
    """The struct with each field as the bytes it came in."""
    return msgspec.defstruct(
        shape.__name__, [(name, Raw, Raw()) for name in shape.__struct_fields__]
    )


def _instead(shape: type[Struct], place: int) -> dict[str, Any]:
    """What stands for a field that is needed and cannot be read.

    A word that is not known here is taken for the one that hides nothing: a process uses
    its GPU, a fault is one, a run has failed.
    """
    if shape is Gpu:
        fault = Fault(kind="unreadable", detail="its fault is told in words not known here")
        return {"uuid": f"GPU-of-unknown-uuid-{place}", "index": place, "fault": fault}
    if shape is Instance:
        return {"uuid": f"MIG-of-unknown-uuid-{place}"}
    if shape is Process:
        return {"kind": "compute"}
    if shape is Fault:
        return {"kind": "unreadable", "detail": ""}
    if shape is CollectorRun:
        return {"outcome": "failed"}
    return {"name": ""} if shape is Snapshot else {}
