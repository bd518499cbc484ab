"""What an agent forwards for local users, and how it names them."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fleet_smi.wire.vouching import MAX_USER_LENGTH, decode_user, encode_user, may_forward


@pytest.mark.parametrize(
    "method, path",
    [
        ("GET", "/api/v1/queue"),
        ("POST", "/api/v1/queue"),
        ("DELETE", "/api/v1/queue/q-17"),
        ("PATCH", "/api/v1/reservations/4f.2"),
        ("GET", "/api/v1/free"),
        ("GET", "/api/v1/offers"),
        ("GET", "/api/v1/session"),
    ],
)
def test_the_queue_the_reservations_and_what_is_free_are_forwarded(method: str, path: str) -> None:
    assert may_forward(method, path)


@pytest.mark.parametrize(
    "method, path",
    [
        ("POST", "/api/v1/reports"),
        ("GET", "/api/v1/nodes"),
        ("DELETE", "/api/v1/session"),
        ("POST", "/api/v1/tokens"),
        ("POST", "/api/v1/personal-tokens"),
        ("GET", "/api/v1/free/x"),
        ("GET", "/api/v1/queue/../nodes"),
        ("GET", "/api/v1/queue/%2e%2e/nodes"),
        ("GET", "/api/v1/queue//nodes"),
        ("GET", "/api/v1/queue/"),
        ("GET", "/api/v1/queues"),
        ("GET", "//api/v1/queue"),
        ("GET", "/api/v1/queue\n"),
        ("CONNECT", "/api/v1/queue"),
    ],
)
def test_nothing_else_is_forwarded(method: str, path: str) -> None:
    assert not may_forward(method, path)


@given(st.text(max_size=200))
def test_a_name_arrives_as_it_is_or_not_at_all(name: str) -> None:
    header = encode_user(name.encode("utf-8", "ignore").decode())
    assert header.isascii()
    assert header.isprintable()
    decoded = decode_user(header)
    assert decoded is None or decoded == name.encode("utf-8", "ignore").decode()


@pytest.mark.parametrize("name", ["alice", "CORP\\alice", "j.müller@example.org", "李", "a b"])
def test_odd_names_are_kept(name: str) -> None:
    assert decode_user(encode_user(name)) == name


@pytest.mark.parametrize("name", ["", "a\nb", " a", "x" * (MAX_USER_LENGTH + 1), "\udcff"])
def test_names_that_cannot_be_shown_are_refused(name: str) -> None:
    assert decode_user(encode_user(name)) is None
