"""ZeroMQ peers that behave like the programs of cluster-smi: a node, a router, a client."""

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Self

import zmq

from fleet_smi.compat.cluster_smi.sockets import format_endpoint

SECONDS = 10.0


class _Peer:
    """A peer that is closed at the end of a `with` block."""

    def __init__(self) -> None:
        self._context = zmq.Context[zmq.Socket[bytes]]()

    def close(self) -> None:
        """Send what is queued, and close."""
        self._context.destroy(linger=1000)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class ZeromqNode(_Peer):
    """Pushes messages to a port, from the local address `address` if given."""

    def __init__(self, to: str, address: str | None = None) -> None:
        super().__init__()
        self._socket = self._context.socket(zmq.PUSH)
        self._socket.set(zmq.SNDHWM, 0)  # unlimited: `push` never blocks
        place = to.removeprefix("tcp://")
        self._socket.connect(f"tcp://{address}:0;{place}" if address else to)

    def push(self, *frames: bytes) -> None:
        """Send one message."""
        self._socket.send_multipart(frames)


class ZeromqRouter(_Peer):
    """Responds to every request with what `response` returns, as cluster-smi-router does."""

    def __init__(
        self, response: Callable[[], list[bytes]], port: int = 0, nodes_port: int = 0
    ) -> None:
        super().__init__()
        self.requests: list[bytes] = []
        self.pushed: list[bytes] = []
        self._response = response
        self._clients = self._context.socket(zmq.ROUTER)
        self._nodes = self._context.socket(zmq.PULL)
        self.clients_port = _bind(self._clients, port)
        self.nodes_port = _bind(self._nodes, nodes_port)
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._serve)
        self._thread.start()

    def _serve(self) -> None:
        while not self._stopping.is_set():
            if self._clients.poll(5):
                client, empty, request = self._clients.recv_multipart()
                self.requests.append(request)
                self._clients.send_multipart([client, empty, *self._response()])
            if self._nodes.poll(5):
                self.pushed.append(self._nodes.recv())

    def close(self) -> None:
        """Stop; may be called twice."""
        if self._thread.is_alive():
            self._stopping.set()
            self._thread.join()
            self._context.destroy(linger=0)


class ZeromqClient(_Peer):
    """Sends frames to a port that responds, from a socket of any kind."""

    def __init__(self, to: str, kind: int = zmq.REQ) -> None:
        super().__init__()
        self._socket = self._context.socket(kind)
        self._socket.connect(to)

    def send(self, *frames: bytes) -> None:
        """Send one message, without waiting for the response."""
        self._socket.send_multipart(frames)

    def receive(self, seconds: float = SECONDS) -> list[bytes] | None:
        """Return the next message, or `None` after `seconds`."""
        return self._socket.recv_multipart() if self._socket.poll(int(seconds * 1000)) else None

    def request(self, *frames: bytes) -> bytes:
        """Send a request, by default the one of cluster-smi; return the response."""
        self.send(*(frames or (bytes.fromhex("81a84964656e74697479a552455120"),)))
        response = self.receive()
        assert response is not None, "not answered"
        assert len(response) == 1
        return response[0]


def _bind(socket: zmq.Socket[bytes], port: int) -> int:
    socket.set(zmq.LINGER, 0)
    if port:
        socket.bind(format_endpoint("127.0.0.1", port))
        return port
    return socket.bind_to_random_port("tcp://127.0.0.1")


@contextmanager
def running_router(nodes: Callable[[], bytes]) -> Iterator[ZeromqRouter]:
    """Run a router that responds with these nodes."""
    with ZeromqRouter(lambda: [nodes()]) as opened:
        yield opened
