"""Parse `nvidia-smi -L`, the only output of nvidia-smi with the UUIDs of MIG instances."""

import re

from msgspec import Struct

from fleet_smi.errors import ReadFailed
from fleet_smi.model.safe_text import sanitize_text
from fleet_smi.wire.parsers._nvidia_errors import classify_failure, failed_devices

_GPU = re.compile(r"GPU (\d{1,5}): (.{0,300}?) ?\(UUID: ([^()\s]{1,128})\)\s*", re.ASCII)
_MIG = re.compile(
    r"\s*MIG ([\w.+-]{1,40})\s+Device\s+(\d{1,5}): \(UUID: ([^()\s]{1,128})\)\s*", re.ASCII
)


class ListedInstance(Struct, frozen=True, kw_only=True):
    """A MIG instance in the list."""

    index: int
    uuid: str
    profile: str


class ListedGpu(Struct, frozen=True, kw_only=True):
    """A GPU in the list."""

    index: int
    uuid: str
    name: str
    instances: tuple[ListedInstance, ...] = ()


def parse_list(text: str) -> tuple[ListedGpu, ...]:
    """Return the GPUs in the list; skip lines that are neither a GPU nor a MIG instance."""
    listed: list[tuple[re.Match[str], list[ListedInstance]]] = []
    for line in text[:1_000_000].splitlines():
        if match := _GPU.fullmatch(line):
            listed.append((match, []))
        elif listed and (match := _MIG.fullmatch(line)):
            index, uuid = int(match[2]), sanitize_text(match[3], 128)
            listed[-1][1].append(ListedInstance(index=index, uuid=uuid, profile=match[1]))
    if not listed and not failed_devices(text):
        raise classify_failure(text) or ReadFailed("this is not what nvidia-smi -L prints")
    return tuple(
        ListedGpu(
            index=int(match[1]),
            uuid=sanitize_text(match[3], 128),
            name=sanitize_text(match[2], 128),
            instances=tuple(instances),
        )
        for match, instances in listed
    )
