"""Decoding errors as plain messages that name the field."""

from typing import Annotated, Any, Literal

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import Meta, Struct

from fleet_smi.wire.error_text import describe_error

JARGON = ("`", "$", "Expected", "got ", "Object", "malformed", "truncated", "regex")


class Part(Struct, forbid_unknown_fields=True):
    count: int
    share: float | None = None
    name: Annotated[str, Meta(min_length=1, max_length=3)] = "a"
    key: Annotated[str, Meta(pattern="^[a-z]+$")] = "a"
    level: Annotated[int, Meta(ge=0, le=5)] = 0
    state: Literal["on", "off"] = "on"
    sizes: Annotated[tuple[int, ...], Meta(max_length=2)] = ()
    labels: dict[str, int] = {}
    ready: bool = False


class Whole(Struct):
    parts: tuple[Part, ...]


def why(body: bytes, kind: Any = Whole, *, json: bool = True) -> str:
    with pytest.raises((ValueError, RecursionError)) as refused:
        (msgspec.json if json else msgspec.msgpack).decode(body, type=kind)
    return describe_error(refused.value)


@pytest.mark.parametrize(
    "part, expected",
    [
        ('"count":"many"', "count must be a whole number, not a text"),
        ('"count":1.5', "count must be a whole number, not a fraction"),
        ('"count":null', "count must be a whole number, not null"),
        ('"count":1,"share":[]', "share must be a number or null, not a list"),
        ('"count":1,"ready":1', "ready must be true or false, not a whole number"),
        ('"count":1,"name":"long"', "name must be a text no longer than 3"),
        ('"count":1,"name":""', "name must be a text no shorter than 1"),
        ('"count":1,"key":"A"', "key must be a text like '^[a-z]+$'"),
        ('"count":1,"level":-1', "level must be a whole number no less than 0"),
        ('"count":1,"level":9', "level must be a whole number no more than 5"),
        ('"count":1,"state":"?"', "state cannot be '?'"),
        ('"count":1,"sizes":[1,2,3]', "sizes must be a list no longer than 2"),
        ('"count":1,"labels":{"a":{}}', "labels[...] must be a whole number, not an object"),
        ('"count":1,"other":1', "other is not known"),
        ("", "count is missing"),
    ],
)
def test_a_wrong_field_is_named_by_its_path(part: str, expected: str) -> None:
    description = why(b'{"parts":[{"count":1},{%s}]}' % part.encode())
    assert description == f"parts[1].{expected}"


@pytest.mark.parametrize(
    "body, expected",
    [
        (b"[]", "it must be an object, not a list"),
        (b"{}", "parts is missing"),
        (b"", "it breaks off"),
        (b'{"parts":[', "it breaks off"),
        (b"<html>", "it is not JSON: invalid character (byte 0)"),
        (b'{"parts":[{"name":"\xff"}]}', "a text in it is not UTF-8"),
    ],
)
def test_bytes_that_are_no_message_are_described(body: bytes, expected: str) -> None:
    assert why(body) == expected


def test_wrong_formats_and_wrong_keys_are_described() -> None:
    assert why(b"\xc1", json=False).startswith("it is not msgpack: ")
    assert why(b"\x81\x01\x01", json=False) == "a name in it must be a text, not a whole number"
    assert why(b'{"a":1}', dict[int, int]) == "a name in it must be a whole number, not a text"
    assert why(b"[" * 100_000, Any) == "it is nested too deep"


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-99, 99) | st.floats(-9, 9) | st.text("ab", max_size=4),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from([*Part.__struct_fields__, "parts", "x"]), inner, max_size=4
        )
    ),
    max_leaves=8,
)


@given(VALUES, st.booleans())
def test_no_message_contains_the_wording_of_the_decoder(value: Any, json: bool) -> None:
    coder = msgspec.json if json else msgspec.msgpack
    for message in (value, {"parts": value}, {"parts": [value]}):
        try:
            coder.decode(coder.encode(message), type=Whole)
        except ValueError as error:
            description = describe_error(error).replace("'^[a-z]+$'", "")
            assert not any(word in description for word in JARGON), description
