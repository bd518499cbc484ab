"""Numbers that stand for pids which a way does not tell: no real one is as large.

The same process has the same number in the next sample, so that it is known for the one that
was there before.
"""

_FIRST = 1 << 31  # Linux has no pid above 4,194,304
_COUNT = 1 << 30


def synthetic_pid(*traits: str | int | None) -> int:
    """The number for a process of which this is known; other traits have another number."""
    from zlib import crc32  # most commands never need it

    return _FIRST + crc32(repr(traits).encode("utf-8", "replace")) % _COUNT
