"""Subscribes to a hub's event stream many times: `stream_listeners.py PORT COUNT`.

Started as a file. For each line on stdin it prints, as JSON, what has come since the line
before: bytes and events of one listener on average, and how late each event of the first was.
"""

import json
import re
import sys
import threading
import time
import zlib
from http.client import HTTPConnection, HTTPException

_TAKEN_AT = re.compile(rb'\ndata: \{"taken_at":([0-9.]+)')
_PART = 1 << 16


class StreamListener(threading.Thread):
    """One subscriber; the first also parses the events."""

    def __init__(self, port: int, *, records_delays: bool) -> None:
        super().__init__(daemon=True)
        self._port, self._looks = port, records_delays
        self.bytes = 0
        self.delays: list[float] = []

    def run(self) -> None:
        """Read the stream until the hub ends."""
        connection = HTTPConnection("127.0.0.1", self._port)
        connection.request("GET", "/api/v1/stream", headers={"Accept-Encoding": "gzip"})
        unpack, text = zlib.decompressobj(zlib.MAX_WBITS | 16), b""
        try:
            with connection.getresponse() as answer:
                while part := answer.read1(_PART):
                    self.bytes += len(part)
                    if self._looks:
                        text = self._look(text + unpack.decompress(part), time.time())
        except (OSError, HTTPException):
            pass  # the hub has ended

    def _look(self, text: bytes, now: float) -> bytes:
        whole, end, rest = text.rpartition(b"\n\n")
        found = _TAKEN_AT.findall(whole + end)
        self.delays += [now - float(taken_at) for taken_at in found]
        return rest


def main(port: int, count: int) -> None:
    """Subscribe, and print statistics on request."""
    listeners = [StreamListener(port, records_delays=not number) for number in range(count)]
    for listener in listeners:
        listener.start()
    for _ in sys.stdin:
        total, delays = sum(each.bytes for each in listeners), listeners[0].delays
        print(json.dumps({"bytes": total / count, "delays": delays}), flush=True)
        listeners[0].delays = []
        for listener in listeners:
            listener.bytes = 0


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]))
