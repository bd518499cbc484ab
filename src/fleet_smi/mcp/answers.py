"""Shared parts of the tools' answers: truncated lists, sizes in GiB, requested GPUs."""

from collections.abc import Callable, Sequence
from typing import Annotated, TypeVar

from msgspec import Meta, Struct

from fleet_smi.model.snapshot import Vendor
from fleet_smi.model.units import GIB, parse_memory

_T = TypeVar("_T")
_R = TypeVar("_R")


class WantedGpus(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Arguments of a tool that is about GPUs with some properties."""

    count: Annotated[int, Meta(ge=1, le=1024, description="how many GPUs")] = 1
    min_free: Annotated[str, Meta(max_length=32, description="free memory per GPU: 40GiB")] = "0"
    model: Annotated[str, Meta(max_length=100, description="words of the model: H100")] | None = (
        None
    )
    vendor: Vendor | None = None

    @property
    def min_free_bytes(self) -> int:
        """The size as a number; raise `UsageError` if it is none."""
        return parse_memory(self.min_free)


def cut(items: Sequence[_T], most: int, describe: Callable[[_T], _R]) -> tuple[tuple[_R, ...], int]:
    """Return the first `most` items, each described, and how many more there are."""
    return tuple(map(describe, items[:most])), max(0, len(items) - most)


def gib(count: int | None) -> float | None:
    """Return a number of bytes in GiB."""
    return None if count is None else round(count / GIB, 1)
