"""TCP ports for programs that have to be given one."""

import random
import socket

# Below the range that the kernel takes ports of connections from: none of those, which other tests
# open all the time, can take the port before the program that it is for listens.
_PORTS = range(10_000, 32_000)


def free_port() -> int:
    """Return a free TCP port."""
    chance = random.SystemRandom()
    while True:
        port = chance.choice(_PORTS)
        with socket.socket() as listener:
            try:
                listener.bind(("127.0.0.1", port))
            except OSError:
                continue
            return port
