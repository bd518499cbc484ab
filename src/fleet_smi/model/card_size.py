"""Nominal memory sizes: the size under which a card is sold, and what a requested size means.

A card sold with 80 GB reports 79.6 GiB, one with 48 GB and ECC 45.0 GiB. People ask for the
nominal size, so a requested size within 3 % of it means that card, with its memory unused.
"""

import re
from functools import lru_cache

from fleet_smi.model.snapshot import Gpu, Instance
from fleet_smi.model.units import GIB

SLACK = 0.03
"""How far a requested size may be from the nominal one, and how much of a card may be in use."""

_SOLD_GIGABYTES = (
    *(1, 2, 3, 4, 5, 6, 8, 10, 11, 12, 16, 20, 24, 32, 40, 48, 64, 80, 94, 96, 120, 128),
    *(141, 144, 180, 192, 256, 288),
)
# Inline ECC takes a sixteenth of the memory, the driver a little more.
_LEAST_SHARE, _LARGEST_SHARE = 0.92, 1.01
# "A100-SXM4-80GB", "H100 80GB HBM3", the MIG profile "1g.10gb"
_SIZE_IN_NAME = r"(?<![0-9.])([0-9]{1,3}) ?GB\b"


@lru_cache(maxsize=1024)
def nominal_gigabytes(name: str | None, total_bytes: int | None) -> int | None:
    """Return the size that a card of this name is sold with; `None` where its memory is unknown.

    "NVIDIA H100 80GB HBM3" with 79.6 GiB is an 80 GB card, "NVIDIA L4" with 22.5 GiB one of 24.
    """
    if not total_bytes or total_bytes < 0:
        return None
    total = total_bytes / GIB
    named = [int(size) for size in re.findall(_SIZE_IN_NAME, name or "", re.IGNORECASE)]
    # A name can have another size than the GPU's memory: "GH200 480GB" has 96 GB.
    for size in (*named, *_SOLD_GIGABYTES):
        if _LEAST_SHARE * size <= total <= _LARGEST_SHARE * size:
            return size
    return max(1, round(total))


def device_gigabytes(device: Gpu | Instance) -> int | None:
    """Return the nominal size of a GPU, or of a MIG instance by its profile."""
    name = device.name if isinstance(device, Gpu) else device.profile
    return nominal_gigabytes(name, device.memory_total_bytes)


def memory_for_request(
    memory_bytes: int, total_bytes: int | None, gigabytes: int | None, requested: float
) -> float:
    """Return how much memory a device counts as having, compared with a requested size.

    The requested size itself if that means this card and at most 3 % of its memory is missing
    from `memory_bytes`, else the memory that it has.
    """
    if total_bytes is None or gigabytes is None or memory_bytes < (1 - SLACK) * total_bytes:
        return memory_bytes
    nominal = gigabytes * GIB
    is_meant = abs(requested - nominal) <= SLACK * nominal
    return max(memory_bytes, requested) if is_meant else memory_bytes
