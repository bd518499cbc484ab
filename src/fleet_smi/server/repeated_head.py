"""Recognition of a request head that is the same as the one before, except for its length.

An agent sends the same request line and headers with every report; only the digits of its
Content-Length differ. Comparing the bytes costs a hundredth of parsing them again.
"""

import re
from typing import NamedTuple

_LENGTH = re.compile(rb"\r\ncontent-length:[ \t]*(\d+)(?=[ \t]*\r\n)", re.IGNORECASE)
_END = b"\r\n\r\n"
_MAX_DIGITS = 6


class RepeatedHead(NamedTuple):
    """A request head, before and after the digits of its Content-Length."""

    before: bytes
    after: bytes

    @classmethod
    def of(cls, data: bytes, body_bytes: int) -> "RepeatedHead | None":
        """Return the head of a request that is all of `data` and was parsed to this body's size.

        `None` where the bytes are not exactly such a request, so that no other can be taken for
        a repetition of it.
        """
        end = data.find(_END) + len(_END)
        lengths = list(_LENGTH.finditer(data, 0, end))
        if len(lengths) != 1 or end + body_bytes != len(data) or int(lengths[0][1]) != body_bytes:
            return None
        return cls(data[: lengths[0].start(1)], data[lengths[0].end(1) : end])

    def body_of(self, data: bytes) -> bytes | None:
        """Return the body of a request with this head, if `data` is all of it and nothing more."""
        if not data.startswith(self.before):
            return None
        start = len(self.before)
        end = data.find(self.after, start, start + _MAX_DIGITS + len(self.after))
        digits = data[start:end] if end >= 0 else b""
        body_start = end + len(self.after)
        if not digits.isdigit() or int(digits) != len(data) - body_start:
            return None
        return data[body_start:]
