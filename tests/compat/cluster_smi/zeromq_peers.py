"""The other ends of ZeroMQ, as the programs of cluster-smi are: a node, a router, a client."""

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Self

import zmq

from fleet_smi.compat.cluster_smi.sockets import format_endpoint

SECONDS = 10.0


class ZeromqNode:
    """Pushes messages to a port; by `address` it can be another machine's."""

    def __init__(self, to: str, address: str | None = None) -> None:
        self._context = zmq.Context[zmq.Socket[bytes]]()
        self._socket = self._context.socket(zmq.PUSH)
        self._socket.set(zmq.SNDHWM, 0)
        place = to.removeprefix("tcp://")
        self._socket.connect(f"tcp://{address}:0;{place}" if address else to)

    def push(self, *frames: bytes) -> None:
        """One message."""
        self._socket.send_multipart(frames)

    def close(self) -> None:
        """Send what is left, and go."""
        self._context.destroy(linger=1000)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class ZeromqRouter:
    """Answers every request with what `answer` gives, as cluster-smi-router does."""

    def __init__(
        self, response: Callable[[], list[bytes]], port: int = 0, nodes_port: int = 0
    ) -> None:
        self.requests: list[bytes] = []
        self.pushed: list[bytes] = []
        self._answer = response
        self._context = zmq.Context[zmq.Socket[bytes]]()
        self._clients = self._context.socket(zmq.ROUTER)
        self._nodes = self._context.socket(zmq.PULL)
        self.clients_port = _bound(self._clients, port)
        self.nodes_port = _bound(self._nodes, nodes_port)
        self._ending = threading.Event()
        self._thread = threading.Thread(target=self._live)
        self._thread.start()

    def _live(self) -> None:
        while not self._ending.is_set():
            if self._clients.poll(5):
                asker, empty, sent_text = self._clients.recv_multipart()
                self.requests.append(sent_text)
                self._clients.send_multipart([asker, empty, *self._answer()])
            if self._nodes.poll(5):
                self.pushed.append(self._nodes.recv())

    def close(self) -> None:
        """Be gone."""
        if self._thread.is_alive():
            self._ending.set()
            self._thread.join()
            self._context.destroy(linger=0)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class ZeromqClient:
    """Sends frames to a port that answers, as whatever socket it likes to be."""

    def __init__(self, to: str, kind: int = zmq.REQ) -> None:
        self._context = zmq.Context[zmq.Socket[bytes]]()
        self._socket = self._context.socket(kind)
        self._socket.connect(to)

    def send(self, *frames: bytes) -> None:
        """Send this, and wait for nothing."""
        self._socket.send_multipart(frames)

    def receive(self, seconds: float = SECONDS) -> list[bytes] | None:
        """What comes back, if anything does."""
        return self._socket.recv_multipart() if self._socket.poll(int(seconds * 1000)) else None

    def request(self, *frames: bytes) -> bytes:
        """Ask as cluster-smi does; the answer."""
        self.send(*(frames or (bytes.fromhex("81a84964656e74697479a552455120"),)))
        response = self.receive()
        assert response is not None, "not answered"
        assert len(response) == 1
        return response[0]

    def close(self) -> None:
        """Send what is left, and go."""
        self._context.destroy(linger=1000)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def _bound(socket: zmq.Socket[bytes], port: int) -> int:
    socket.set(zmq.LINGER, 0)
    if port:
        socket.bind(format_endpoint("127.0.0.1", port))
        return port
    return socket.bind_to_random_port("tcp://127.0.0.1")


@contextmanager
def running_router(nodes: Callable[[], bytes]) -> Iterator[ZeromqRouter]:
    """A router that tells these nodes."""
    with ZeromqRouter(lambda: [nodes()]) as opened:
        yield opened
