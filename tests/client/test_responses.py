"""Decoding the responses of a hub, and of servers that are not hubs."""

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fleet_smi.client.responses import decode_error, decode_join_token, decode_response
from fleet_smi.errors import Undecodable

NO_ANSWERS = [
    b"",
    b"<html>",
    b"[]",
    b"\xff",
    b'{"error":"no"}',
    b'{"error":{"code":"x"}}',
    b'{"error":{"code":1,"message":"x"}}',
    b'{"error":' * 100_000,
]


def test_an_error_has_the_hubs_message_sanitised() -> None:
    refusal = decode_error(b'{"error":{"code":"late","message":"too\\u001b[31m late"},"more":1}')
    assert refusal is not None
    assert (refusal.code, refusal.message) == ("late", "too [31m late")


@pytest.mark.parametrize("body", NO_ANSWERS, ids=lambda body: repr(body[:20]))
def test_other_bodies_are_neither_errors_nor_tokens(body: bytes) -> None:
    assert decode_error(body) is None
    with pytest.raises(Undecodable, match=r"have the same version$"):
        decode_join_token(body)


def test_the_token_of_a_joined_node_is_decoded() -> None:
    assert decode_join_token(b'{"token":"fsmi_node_x"}') == "fsmi_node_x"


@given(st.binary(max_size=200) | st.text().map(lambda text: msgspec.json.encode({"a": text})))
def test_any_body_is_decoded_or_undecodable(body: bytes) -> None:
    decode_error(body)
    try:
        assert isinstance(decode_response(body, dict), dict)
    except Undecodable as error:
        assert str(error).isprintable()
