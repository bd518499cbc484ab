"""The HTTP/1.1 client over a real socket pair: valid responses, and all the others."""

import contextlib
import socket
import threading
from collections.abc import Iterable, Iterator
from itertools import chain, repeat

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fleet_smi.client.http1 import Http1Connection, ProtocolError, Response

MOST = 1 << 20


class Peer:
    """A scripted server: sends its response piece by piece, then closes the connection."""

    def __init__(self, pieces: Iterable[bytes], timeout_seconds: float = 5.0) -> None:
        with socket.create_server(("127.0.0.1", 0)) as listener:
            sock = socket.create_connection(listener.getsockname())
            self.exchange = Http1Connection(sock, "hub:7070", timeout_seconds)
            self._sock, _ = listener.accept()
        self._speaker = threading.Thread(target=self._speak, args=(pieces,))
        self._speaker.start()

    def _speak(self, pieces: Iterable[bytes]) -> None:
        with contextlib.suppress(OSError):  # the client has closed the connection
            for piece in pieces:
                self._sock.sendall(piece)
            self._sock.shutdown(socket.SHUT_WR)

    def close(self) -> bytes:
        """The request that was received."""
        self.exchange.close()
        self._speaker.join()
        received = b""
        with self._sock, contextlib.suppress(ConnectionError):
            while more := self._sock.recv(1 << 16):
                received += more
        return received


def response(*pieces: bytes) -> Response:
    return answer_of(pieces)


def answer_of(pieces: Iterable[bytes], timeout_seconds: float = 5.0) -> Response:
    peer = Peer(pieces, timeout_seconds)
    try:
        return peer.exchange.request("GET", "/", None, {}, MOST)
    finally:
        peer.close()


@pytest.fixture
def peer() -> Iterator[Peer]:
    started = Peer([b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok", b"HTTP/1.1 204 No\r\n\r\n"])
    yield started
    started.close()


def test_responses_follow_each_other_on_one_connection(peer: Peer) -> None:
    first = peer.exchange.request("POST", "/a", b"body", {"X": "1"}, MOST)
    second = peer.exchange.request("GET", "/b", None, {}, MOST)
    assert (first.status, first.body, second.status) == (200, b"ok", 204)
    assert first.headers == {"content-length": "2"}


def test_the_request_is_sent_as_given() -> None:
    peer = Peer([b"HTTP/1.1 204 No Content\r\n\r\n"])
    peer.exchange.request("POST", "/a", b"body", {"X": "1"}, MOST)
    expected = b"POST /a HTTP/1.1\r\nHost: hub:7070\r\nX: 1\r\nContent-Length: 4\r\n\r\nbody"
    assert peer.close() == expected


@given(body=st.binary(max_size=300), cuts=st.lists(st.integers(1, 50), max_size=8))
def test_chunks_of_any_size_make_one_body(body: bytes, cuts: list[int]) -> None:
    output, left = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n", body
    for cut in [*cuts, len(left)]:
        if chunk := left[:cut]:
            output += b"%x;x=y\r\n%b\r\n" % (len(chunk), chunk)
        left = left[cut:]
    if left:
        output += b"%x\r\n%b\r\n" % (len(left), left)
    output += b"0\r\nTrailer: x\r\n\r\n"
    assert answer_of(output[at : at + 7] for at in range(0, len(output), 7)).body == body


def test_interim_responses_are_skipped() -> None:
    output = b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"
    assert response(output).body == b"ok"


@pytest.mark.parametrize(
    "output",
    [
        b"SSH-2.0-OpenSSH_9.2\r\n\r\n",
        b"HTTP/1.1 abc\r\n\r\n",
        b"HTTP/1.1 %b OK\r\n\r\n" % (b"2" * 5000),
        b"HTTP/1.1 200 OK\r\nContent-Length: %b\r\n\r\n" % (b"1" * 5000),
        b"HTTP/1.1 200 OK\r\n\r\nwithout an end",
        b"HTTP/1.1 200 OK\r\nContent-Length: -1\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length: 99999999999\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n-5\r\n",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nlong\r\n0\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n%x\r\n" % (MOST + 1),
        b"x" * (1 << 17),
    ],
)
def test_an_invalid_response_is_a_protocol_error(output: bytes) -> None:
    with pytest.raises(ProtocolError):
        response(output)


@pytest.mark.parametrize(
    "output", [b"", b"HTTP/1.1 200", b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nx"]
)
def test_a_truncated_response_is_a_connection_error(output: bytes) -> None:
    with pytest.raises(ConnectionError):
        response(output)


HEADS = st.sampled_from(
    [
        b"",
        b"HTTP/1.1 200 OK\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length: ",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n",
    ]
)


@given(HEADS, st.binary(max_size=200))
def test_any_bytes_are_a_response_or_a_known_error(head: bytes, output: bytes) -> None:
    try:
        response(head + output)
    except (ProtocolError, OSError):
        return


@pytest.mark.parametrize(
    "begun, endless",
    [
        (b"", b"HTTP/1.1 102 Processing\r\n\r\n"),
        (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n", b"Trailer: x\r\n"),
    ],
)
def test_the_timeout_is_for_the_whole_response(begun: bytes, endless: bytes) -> None:
    with pytest.raises(TimeoutError):
        answer_of(chain([begun], repeat(endless)), timeout_seconds=0.1)


def test_sending_to_a_peer_that_does_not_read_times_out() -> None:
    peer = Peer([], timeout_seconds=0.1)
    with pytest.raises(TimeoutError):
        peer.exchange.request("POST", "/", bytes(32 << 20), {}, MOST)
    peer.close()


def test_line_breaks_in_headers_are_refused(peer: Peer) -> None:
    with pytest.raises(ValueError, match="line break"):
        peer.exchange.request("GET", "/", None, {"X": "a\r\nEvil: 1"}, MOST)


@pytest.mark.parametrize(
    "output, is_over",
    [
        (b"Content-Length: 2\r\n\r\nok", False),
        (b"Connection: Close\r\nContent-Length: 2\r\n\r\nok", True),
        (b"Content-Length: 2\r\n\r\nok and more than it said", True),
    ],
)
def test_must_close_says_whether_the_connection_is_reusable(output: bytes, is_over: bool) -> None:
    peer = Peer([b"HTTP/1.1 200 OK\r\n" + output])
    assert peer.exchange.request("GET", "/", None, {}, MOST).body == b"ok"
    assert peer.exchange.must_close is is_over
    peer.close()
