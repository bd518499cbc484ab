"""HTTP/1.1 over a real socket pair: whole answers, and everything that is none."""

import contextlib
import socket
import threading
from collections.abc import Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fleet_smi.client.exchange import Exchange, NotHttp, Response

MOST = 1 << 20


class Peer:
    """The other end: says what it is told to, in pieces as small as wanted."""

    def __init__(self, said: bytes, piece: int = 1 << 16) -> None:
        listener = socket.create_server(("127.0.0.1", 0))
        self.exchange = Exchange(socket.create_connection(listener.getsockname(), 5), "hub:7070")
        self._sock, _ = listener.accept()
        listener.close()
        self._speaker = threading.Thread(target=self._speak, args=(said, piece))
        self._speaker.start()

    def _speak(self, said: bytes, piece: int) -> None:
        with contextlib.suppress(OSError):  # the test has seen enough
            for at in range(0, len(said), piece):
                self._sock.sendall(said[at : at + piece])
            self._sock.shutdown(socket.SHUT_WR)

    def close(self) -> bytes:
        """What was asked."""
        self.exchange.close()
        self._speaker.join()
        heard = b""
        with self._sock:
            while more := self._sock.recv(1 << 16):
                heard += more
        return heard


def answer(said: bytes, piece: int = 1 << 16) -> Response:
    peer = Peer(said, piece)
    try:
        return peer.exchange.ask("GET", "/", None, {}, MOST)
    finally:
        peer.close()


@pytest.fixture
def peer() -> Iterator[Peer]:
    started = Peer(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nokHTTP/1.1 204 No Content\r\n\r\n")
    yield started
    started.close()


def test_one_answer_after_the_other_over_one_connection(peer: Peer) -> None:
    first = peer.exchange.ask("POST", "/a", b"body", {"X": "1"}, MOST)
    second = peer.exchange.ask("GET", "/b", None, {}, MOST)
    assert (first.status, first.body, second.status) == (200, b"ok", 204)
    assert first.headers == {"content-length": "2"}


def test_what_is_asked_is_what_the_other_end_hears() -> None:
    peer = Peer(b"HTTP/1.1 204 No Content\r\n\r\n")
    peer.exchange.ask("POST", "/a", b"body", {"X": "1"}, MOST)
    expected = b"POST /a HTTP/1.1\r\nHost: hub:7070\r\nX: 1\r\nContent-Length: 4\r\n\r\nbody"
    assert peer.close() == expected


@given(body=st.binary(max_size=300), cuts=st.lists(st.integers(1, 50), max_size=8))
def test_chunks_of_any_size_make_one_body(body: bytes, cuts: list[int]) -> None:
    said, left = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n", body
    for cut in [*cuts, len(left)]:
        if chunk := left[:cut]:
            said += b"%x;x=y\r\n%b\r\n" % (len(chunk), chunk)
        left = left[cut:]
    if left:
        said += b"%x\r\n%b\r\n" % (len(left), left)
    assert answer(said + b"0\r\nTrailer: x\r\n\r\n", piece=7).body == body


def test_a_hub_that_says_continue_first_is_understood() -> None:
    said = b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"
    assert answer(said).body == b"ok"


@pytest.mark.parametrize(
    "said",
    [
        b"SSH-2.0-OpenSSH_9.2\r\n\r\n",
        b"HTTP/1.1 abc\r\n\r\n",
        b"HTTP/1.1 200 OK\r\n\r\nwithout an end",
        b"HTTP/1.1 200 OK\r\nContent-Length: -1\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length: 99999999999\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n-5\r\n",
        b"x" * (1 << 17),
    ],
)
def test_what_is_no_answer_is_told(said: bytes) -> None:
    with pytest.raises(NotHttp):
        answer(said)


@pytest.mark.parametrize(
    "said", [b"", b"HTTP/1.1 200", b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nx"]
)
def test_an_answer_that_breaks_off_is_a_broken_connection(said: bytes) -> None:
    with pytest.raises(ConnectionError):
        answer(said)


@given(st.binary(max_size=200))
def test_whatever_comes_it_is_an_answer_or_an_error_of_these(said: bytes) -> None:
    try:
        answer(said)
    except (NotHttp, OSError):
        return


def test_a_line_break_cannot_be_smuggled_into_a_header(peer: Peer) -> None:
    with pytest.raises(ValueError, match="line break"):
        peer.exchange.ask("GET", "/", None, {"X": "a\r\nEvil: 1"}, MOST)


def test_it_tells_when_the_other_end_will_hang_up() -> None:
    peer = Peer(b"HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 0\r\n\r\n")
    peer.exchange.ask("GET", "/", None, {}, MOST)
    assert peer.exchange.is_over
    peer.close()
