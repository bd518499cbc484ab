"""What a hub says, and all that others may say in its place."""

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


def test_a_refusal_is_told_in_the_hubs_words_made_harmless() -> None:
    refusal = decode_error(b'{"error":{"code":"late","message":"too\\u001b[31m late"},"more":1}')
    assert refusal is not None
    assert (refusal.code, refusal.message) == ("late", "too [31m late")


@pytest.mark.parametrize("body", NO_ANSWERS, ids=lambda body: repr(body[:20]))
def test_what_no_hub_wrote_is_neither_a_refusal_nor_a_token(body: bytes) -> None:
    assert decode_error(body) is None
    with pytest.raises(Undecodable, match=r"have the same version$"):
        decode_join_token(body)


def test_a_joined_node_has_its_token() -> None:
    assert decode_join_token(b'{"token":"fsmi_node_x"}') == "fsmi_node_x"


@given(st.binary(max_size=200) | st.text().map(lambda text: msgspec.json.encode({"a": text})))
def test_whatever_comes_is_read_or_undecodable(body: bytes) -> None:
    decode_error(body)
    try:
        assert isinstance(decode_response(body, dict), dict)
    except Undecodable as error:
        assert str(error).isprintable()
