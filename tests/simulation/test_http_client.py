"""HTTP responses on a keep-alive connection, however the bytes are split."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fleet_smi.errors import Undecodable
from fleet_smi.simulation.http_client import RawResponse, split_response

STATUSES, BODIES = st.integers(200, 599), st.binary(max_size=200)


def written(status: int, body: bytes) -> bytes:
    return b"HTTP/1.1 %d Fine\r\nDate: now\r\nContent-Length: %d\r\n\r\n%s" % (
        status,
        len(body),
        body,
    )


@given(STATUSES, BODIES, BODIES)
def test_a_response_ends_at_its_content_length(status: int, body: bytes, after: bytes) -> None:
    assert split_response(written(status, body) + after) == (RawResponse(status, body), after)


@given(STATUSES, BODIES, st.data())
def test_an_incomplete_response_is_none(status: int, body: bytes, data: st.DataObject) -> None:
    whole = written(status, body)
    part = whole[: data.draw(st.integers(0, len(whole) - 1))]
    assert split_response(part) == (None, part)


def test_a_response_without_a_body_is_empty() -> None:
    assert split_response(b"HTTP/1.1 204 No Content\r\n\r\n") == (RawResponse(204, b""), b"")


@pytest.mark.parametrize(
    "said",
    [
        b"SSH-2.0-OpenSSH_9.2\r\n",
        b"HTTP/1.1 OK\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length: -1\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length: 99999999999\r\n\r\n",
    ],
)
def test_a_malformed_response_is_an_error(said: bytes) -> None:
    with pytest.raises(Undecodable):
        split_response(said)


@given(st.binary(max_size=300))
def test_any_bytes_are_a_response_incomplete_or_an_error(data: bytes) -> None:
    try:
        answer, rest = split_response(data)
    except Undecodable:
        return
    assert answer is not None or rest == data
