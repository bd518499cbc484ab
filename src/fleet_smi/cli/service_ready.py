"""Readiness of a service: tell systemd that it has started (`Type=notify`)."""

import os
import socket
from contextlib import suppress


def notify_ready() -> None:
    """Tell systemd that this program has started; do nothing where systemd did not start it."""
    # Removed: programs that the service runs must not speak for it.
    address = os.environ.pop("NOTIFY_SOCKET", None)
    if not address:
        return
    # systemd writes the NUL of an abstract address as "@".
    path = "\0" + address[1:] if address.startswith("@") else address
    # A service that works does not end because systemd cannot be notified.
    with suppress(OSError), socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as sender:
        sender.connect(path)
        sender.send(b"READY=1")
