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
from fleet_smi.model.snapshot import CollectorRun, Fault, Gpu, Instance, Process, Snapshot
from fleet_smi.model.text import clean
from fleet_smi.wire.bounds import (
    FIGURES,
    IDENTITIES,
    LONGEST_TEXT,
    MOST,
    bounded,
    known,
    longest,
    narrowed,
)
from fleet_smi.wire.plain_words import plain_words

Unread = dict[str, str]
_T = TypeVar("_T", bound=Struct)
UNREADABLE = (ValueError, RecursionError)
# Half a second of work: what is wrong in more places than this is not worth it.
_MOST_PARTS = 20_000
_LIST = Annotated[list[Raw], Meta(max_length=_MOST_PARTS)]
_TEXTS_BY_NAME = Annotated[dict[str, Raw], Meta(max_length=_MOST_PARTS)]
_DEFAULT = object()


class _Lost(ValueError):
    """A part that has nothing to be known by."""


class _Sized(Struct):
    gpu_memory_bytes: int | None = None


class Salvage:
    """Reads the snapshots of one report, and notes what it could not keep."""

    def __init__(self, *, json: bool) -> None:
        self._json = json
        self._notes: Unread = {}
        self._parts = 0

    def snapshot(self, raw: Raw) -> Snapshot:
        """The snapshot in these bytes; raise `Undecodable` when it is nobody's or of no time."""
        self._notes = {}
        try:
            found = self._struct(raw, Snapshot, 0)
        except UNREADABLE as error:
            raise Undecodable(f"not a snapshot: {plain_words(error)}") from None
        if not self._notes:
            return found
        detail = clean("; ".join(f"{name}: {why}" for name, why in self._notes.items()), 512)
        told = CollectorRun(name="report", outcome="failed", seconds=0.0, detail=detail)
        return replace(found, runs=(told, *found.runs)[: MOST["runs"]])

    def figure(self, raw: Raw, name: str) -> float | None:
        """A number outside of any struct; `None` when it cannot be true."""
        low, high = FIGURES[name]
        try:
            value: float = self.read(raw, float)
        except UNREADABLE:
            return None
        return value if low <= value <= high else None

    def read(self, raw: Raw | bytes, kind: Any) -> Any:
        """These bytes as this type; raise one of `UNREADABLE`."""
        return decoder(kind, self._json).decode(raw)

    def _struct(self, raw: Raw, shape: type[_T], place: int) -> _T:
        """One struct, which is the `place`-th of its list."""
        try:
            return cast(_T, self.read(raw, narrowed(shape)))
        except UNREADABLE:
            return self._by_fields(self.read(raw, _loose(shape)), shape, place)

    def _by_fields(self, loose: Struct, shape: type[_T], place: int) -> _T:
        values: dict[str, Any] = {}
        unread: Unread = {}
        instead = _instead(shape, place)
        for field, kind in bounded(shape):
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
        return cast(_T, narrowed(shape)(**values))

    def _tell(self, shape: type[Struct], values: dict[str, Any], unread: Unread) -> None:
        if "unread" in shape.__struct_fields__:
            # Ours come first and last: they are not crowded out, and not overruled.
            told = unread | values.get("unread", {}) | unread
            values["unread"] = dict([*told.items()][: MOST["unread"]])
        else:
            self._notes.update(unread)

    def _field(self, raw: Raw, field: FieldInfo, kind: Any, unread: Unread) -> Any:
        if not raw:
            return _DEFAULT
        try:
            return self.read(raw, kind)
        except UNREADABLE:
            return self._mended(raw, field.name, known(field.type), unread)

    def _mended(self, raw: Raw, name: str, kind: Any, unread: Unread) -> Any:
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
        except UNREADABLE:
            unread[name] = "not understood"
        else:
            unread[name] = self._why(raw, name, kind)
        return _DEFAULT

    def _text(self, raw: Raw, name: str) -> str:
        if name in IDENTITIES:
            raise _Lost(f"{name} is none")
        return clean(self.read(raw, str), longest(name))

    def _texts_by_name(self, raw: Raw, name: str) -> dict[str, str]:
        told: dict[str, Raw] = self.read(raw, _TEXTS_BY_NAME)
        kept: dict[str, str] = {}
        for key, value in [*told.items()][: MOST[name]]:
            with suppress(*UNREADABLE):
                kept[clean(key, LONGEST_TEXT)] = self._text(value, name)
        return kept

    def _several(self, raw: Raw, name: str, kind: Any, unread: Unread) -> Any:
        told: list[Raw] = self.read(raw, _LIST)
        self._parts += len(told)
        if self._parts > _MOST_PARTS:
            raise Undecodable("wrong in more places than is worth mending")
        kept, found = self._kept(told, name), []
        for place, each in enumerate(kept):
            try:
                found.append(
                    self._text(each, name) if kind is str else self._struct(each, kind, place)
                )
            except UNREADABLE:
                unread[name] = "not all could be read"
        if len(told) > len(kept):
            which = "largest" if kind is Process else "first"
            unread[name] = f"{len(told)} were told; the {which} {len(kept)} are kept"
        # Nobody there and nobody readable are not the same.
        return tuple(found) if found or not told else _DEFAULT

    def _kept(self, told: list[Raw], name: str) -> list[Raw]:
        if len(told) > MOST[name] and name == "processes":
            told = sorted(told, key=self._size, reverse=True)
        return told[: MOST[name]]

    def _size(self, raw: Raw) -> int:
        try:
            return self.read(raw, _Sized).gpu_memory_bytes or 0
        except UNREADABLE:
            return 0

    def _why(self, raw: Raw, name: str, kind: Any) -> str:
        if kind not in (int, float):
            return "not known here"
        try:
            value: float = self.read(raw, float)
        except UNREADABLE:
            return "not a number"
        low, high = FIGURES[name]
        return "not a whole number" if low <= value <= high else f"out of range: {value:g}"


@cache
def decoder(kind: Any, json: bool) -> Any:
    """What reads this type from JSON or msgpack, made once."""
    return msgspec.json.Decoder(kind) if json else msgspec.msgpack.Decoder(kind)


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
