"""Codec of the processes in a database row: msgpack arrays of field values, without names.

A new field must come last, so that older rows are read with its default.
"""

from functools import lru_cache
from typing import Any

import msgspec

from fleet_smi.model.history import Holder

_encode = msgspec.msgpack.Encoder().encode
_decoder = msgspec.msgpack.Decoder(list[list[Any]])
_CACHE_SIZE = 4096


def encode_holders(holders: tuple[Holder, ...]) -> bytes:
    """Encode holders as bytes."""
    return _encode([msgspec.structs.astuple(holder) for holder in holders])


@lru_cache(_CACHE_SIZE)  # consecutive periods of a GPU mostly have the same holders
def decode_holders(data: bytes) -> tuple[Holder, ...]:
    """Decode holders from bytes."""
    return tuple([_holder(*values) for values in _decoder.decode(data)])


def _holder(
    pid: int,
    user: str,
    group: str | None = None,
    name: str | None = None,
    command: str | None = None,
    container: str | None = None,
    slurm_job: str | None = None,
    started_at: float | None = None,
    memory_bytes: int | None = None,
) -> Holder:
    return Holder(
        pid=pid,
        user=user,
        group=group,
        name=name,
        command=command,
        container=container,
        slurm_job=slurm_job,
        started_at=started_at,
        memory_bytes=memory_bytes,
    )
