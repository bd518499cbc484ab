"""Request heads that are the same as the one before: recognised only where a parser agrees."""

import httptools
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fleet_smi.server.repeated_head import RepeatedHead

HEAD = b"POST /api/v1/reports HTTP/1.1\r\nHost: hub\r\nContent-Length: %b\r\nX: y\r\n\r\n"
pieces = st.sampled_from(
    [b"0", b"1", b"3", b"12", b" ", b"\t", b"\r\n", b"\r\n\r\n", b"Content-Length: 3", b"abc", b":"]
)


class Parsed:
    """All requests in some bytes, as httptools sees them."""

    def __init__(self, data: bytes) -> None:
        self.bodies: list[bytes] = []
        self.headers: list[tuple[bytes, bytes]] = []
        self.complete = 0
        httptools.HttpRequestParser(self).feed_data(data)

    def on_header(self, name: bytes, value: bytes) -> None:
        self.headers.append((name.lower(), value))

    def on_body(self, body: bytes) -> None:
        self.bodies.append(body)

    def on_message_complete(self) -> None:
        self.complete += 1


def test_the_body_of_a_request_with_the_same_head_is_returned() -> None:
    repeated = RepeatedHead.of(HEAD % b"3" + b"abc", 3)
    assert repeated is not None
    assert repeated.body_of(HEAD % b"12" + b"twelve bytes") == b"twelve bytes"
    assert repeated.body_of(HEAD % b"0") == b""


@pytest.mark.parametrize(
    "data",
    [
        b"",
        HEAD % b"3" + b"ab",
        HEAD % b"3" + b"abcd",
        HEAD % b"" + b"abc",
        HEAD % b"+3" + b"abc",
        HEAD % b"3 " + b"abc",
        HEAD % b"0x3" + b"abc",
        (HEAD % b"3" + b"abc") * 2,
        HEAD.replace(b"hub", b"bub") % b"3" + b"abc",
        HEAD.replace(b"X: y", b"X: z") % b"3" + b"abc",
    ],
)
def test_any_other_bytes_are_left_to_the_parser(data: bytes) -> None:
    repeated = RepeatedHead.of(HEAD % b"3" + b"abc", 3)
    assert repeated is not None
    assert repeated.body_of(data) is None


@pytest.mark.parametrize(
    "data",
    [
        HEAD % b"3" + b"ab",
        HEAD % b"3" + b"abcd",
        HEAD % b"4" + b"abc",
        HEAD.replace(b"X: y", b"Content-Length: 3") % b"3" + b"abc",
        b"abc",
    ],
)
def test_a_head_that_is_not_all_of_one_request_is_not_remembered(data: bytes) -> None:
    assert RepeatedHead.of(data, 3) is None


@given(st.lists(pieces, max_size=6), st.lists(pieces, max_size=6))
def test_what_is_recognised_is_one_request_for_the_parser_too(
    length: list[bytes], body: list[bytes]
) -> None:
    first = HEAD % b"3" + b"abc"
    repeated = RepeatedHead.of(first, 3)
    assert repeated is not None
    data = HEAD % b"".join(length) + b"".join(body)
    found = repeated.body_of(data)
    if found is not None:
        parsed, before = Parsed(data), Parsed(first)
        assert parsed.complete == 1
        assert b"".join(parsed.bodies) == found
        others = [header for header in parsed.headers if header[0] != b"content-length"]
        assert others == [header for header in before.headers if header[0] != b"content-length"]
