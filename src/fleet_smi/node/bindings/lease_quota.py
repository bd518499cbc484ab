"""Quota of lease files: how many files of one person are looked at, for a GPU and in all.

A person may have a range of subordinate user ids (`/etc/subuid`, for containers without root), and
can make files as each of them: these have a quota together.
"""

from collections import Counter
from functools import lru_cache

_FILES_PER_GPU = 4  # more than takers make
_FILES_PER_GPU_OF_RANGE = 64
_FILES = 1024  # for all GPUs and instances, also those that are made up
_MAX_RANGES = 65_536
_SUBORDINATE_IDS = "/etc/subuid"


class FileQuota:
    """Counts the files of each user while a folder is listed."""

    def __init__(self) -> None:
        self._per_gpu: Counter[tuple[str, int]] = Counter()
        self._in_all: Counter[int] = Counter()

    def allows(self, gpu: str, uid: int) -> bool:
        """Count one more file of a user; return whether it is to be looked at."""
        # Ranges are counted under negative numbers, which no user has.
        first = _range_of(uid)
        return self._count(gpu, uid, _FILES_PER_GPU) and (
            first is None or self._count(gpu, -first, _FILES_PER_GPU_OF_RANGE)
        )

    def _count(self, gpu: str, owner: int, per_gpu: int) -> bool:
        self._per_gpu[gpu, owner] += 1
        self._in_all[owner] += 1
        return self._per_gpu[gpu, owner] <= per_gpu and self._in_all[owner] <= _FILES


def _range_of(uid: int) -> int | None:
    """Return the first id of the range that a subordinate id is in; `None` for any other."""
    return next((first for first, end in _read_ranges() if first <= uid < end), None)


@lru_cache(maxsize=1)
def _read_ranges() -> list[tuple[int, int]]:
    found = []
    try:
        with open(_SUBORDINATE_IDS, "rb") as file:
            for line in file:
                words = line.strip().split(b":")
                if len(words) == 3 and words[1].isdigit() and words[2].isdigit():
                    found.append((int(words[1]), int(words[1]) + int(words[2])))
    except (OSError, ValueError):
        return []
    return found[:_MAX_RANGES]
