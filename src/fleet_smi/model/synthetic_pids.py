"""Synthetic pids for processes whose pid is not reported: larger than any real one.

The same process gets the same number in the next sample, so that it is recognised.
"""

_FIRST = 1 << 31  # Linux has no pid above 4,194,304
_COUNT = 1 << 30  # the largest still fits the 32 bits that a report allows


def synthetic_pid(*traits: str | int | None) -> int:
    """Return a number that is the same for the same traits of a process."""
    from zlib import crc32  # most commands never need it

    return _FIRST + crc32(repr(traits).encode("utf-8", "replace")) % _COUNT
