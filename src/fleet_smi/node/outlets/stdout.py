"""The node's end of `ssh`, and of any pipe: one report a line, as JSON."""

import sys
import time
from typing import BinaryIO

from fleet_smi.model.snapshot import Snapshot
from fleet_smi.node.outlets import OutletOptions
from fleet_smi.wire.report import encode_report_json


class StdoutOutlet:
    """Writes each snapshot as a line of its own."""

    name = "stdout"
    requested_interval_seconds = None

    def __init__(self, stream: BinaryIO) -> None:
        self._stream = stream

    def publish(self, snapshot: Snapshot) -> None:
        """Write it; raise `BrokenPipeError` when nobody reads any more."""
        self._stream.write(encode_report_json([snapshot], time.time()) + b"\n")
        self._stream.flush()

    deliver = publish

    def close(self) -> None:
        """The stream is not ours."""


def create_outlet(_target: None, _options: OutletOptions) -> StdoutOutlet:
    """Make the outlet of `--stdout`."""
    return StdoutOutlet(sys.stdout.buffer)
