"""What came from a node, made harmless: its texts cleaned, its parts told apart.

Every check is quick where nothing is wrong: it runs for each report that the hub takes in.
"""

import re
from typing import Any, TypeVar

import msgspec
from msgspec.structs import replace

from fleet_smi.model.privacy import redact_snapshot
from fleet_smi.model.safe_text import sanitize_text
from fleet_smi.model.snapshot import Gpu, Instance, Snapshot
from fleet_smi.model.uuids import snapshot_uuids, with_unique_uuids
from fleet_smi.wire.limits import MAX_ITEMS, constrained_type

_Part = TypeVar("_Part", Gpu, Instance)
_ASCII = bytes(range(128))
_ESCAPES = re.compile(rb"\\(.)")
_HARMLESS_ESCAPES = {b'"', b"\\"}
_json = msgspec.json.Encoder()


def sanitize_snapshot(snapshot: Snapshot) -> Snapshot:
    """A snapshot within its bounds, with clean texts and with each part known by its own id."""
    if not _is_clean(_json.encode(snapshot)):
        plain = _cleaned(msgspec.to_builtins(snapshot))
        snapshot = msgspec.convert(plain, constrained_type(Snapshot))
    if not snapshot.name:
        snapshot = replace(snapshot, name=snapshot.node_id)
    if _is_overfull(snapshot):
        snapshot = replace(snapshot, gpus=tuple([_mended(gpu) for gpu in snapshot.gpus]))
    uuids = snapshot_uuids(snapshot)
    if len(set(uuids)) < len(uuids) or "" in uuids:
        snapshot = with_unique_uuids(snapshot)
    # Our own agents have taken the secrets out before anything left their machine.
    return redact_snapshot(snapshot) if snapshot.agent_version is None else snapshot


def _is_clean(encoded: bytes) -> bool:
    """Is every text clean, in JSON that has just been written? It escapes control characters.

    A few passes over the bytes of all: no text can be forgotten, and nothing is looked up.
    """
    if not encoded.isascii() and not encoded.translate(None, _ASCII).decode().isprintable():
        return False
    if b"\\" in encoded and not _HARMLESS_ESCAPES.issuperset(_ESCAPES.findall(encoded)):
        return False
    return b"\x7f" not in encoded


def _cleaned(value: Any) -> Any:
    if isinstance(value, str):
        return _clean_text(value)
    if isinstance(value, dict):
        return {_clean_text(key): _cleaned(each) for key, each in value.items()}
    return [_cleaned(each) for each in value] if isinstance(value, list | tuple) else value


def _clean_text(text: str) -> str:
    return text if text.isprintable() else sanitize_text(text, len(text))


def _is_overfull(snapshot: Snapshot) -> bool:
    for gpu in snapshot.gpus:
        if _holds_too_much(gpu) or (gpu.instances and any(map(_holds_too_much, gpu.instances))):
            return True
    return False


def _holds_too_much(part: Gpu | Instance) -> bool:
    used, total = part.memory_used_bytes, part.memory_total_bytes
    return used is not None and total is not None and used > total


def _mended(gpu: Gpu) -> Gpu:
    return replace(_mended_part(gpu), instances=tuple(map(_mended_part, gpu.instances)))


def _mended_part(part: _Part) -> _Part:
    if not _holds_too_much(part):
        return part
    return replace(part, memory_used_bytes=None, unread=_overfull_told(part.unread))


def _overfull_told(unread: dict[str, str]) -> dict[str, str]:
    told = {"memory_used_bytes": "out of range: more than there is"} | unread
    return dict([*told.items()][: MAX_ITEMS["unread"]])
