"""Processes in a row of the database: their fields in order, without names.

A field that is new comes last, so that rows of before it are read with its default.
"""

from functools import lru_cache
from typing import Any

import msgspec

from fleet_smi.model.history import Holder

_encode = msgspec.msgpack.Encoder().encode
_decoder = msgspec.msgpack.Decoder(list[list[Any]])
_MOST_KNOWN = 4096


def encode_holders(holders: tuple[Holder, ...]) -> bytes:
    """The holders as bytes."""
    return _encode([msgspec.structs.astuple(holder) for holder in holders])


@lru_cache(_MOST_KNOWN)  # the same few are on a GPU through many of its periods
def decode_holders(data: bytes) -> tuple[Holder, ...]:
    """The holders in these bytes."""
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
