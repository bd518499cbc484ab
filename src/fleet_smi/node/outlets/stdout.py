"""The `stdout` outlet: prints one report per line, as JSON, for ssh and pipes."""

import sys
import time
from typing import BinaryIO

from fleet_smi.model.snapshot import Snapshot
from fleet_smi.node.outlets import OutletOptions
from fleet_smi.wire.report import encode_report_json


class StdoutOutlet:
    """Writes each snapshot as one line."""

    name = "stdout"
    requested_interval_seconds = None

    def __init__(self, stream: BinaryIO) -> None:
        self._stream = stream

    def publish(self, snapshot: Snapshot) -> None:
        """Write the snapshot; raise `BrokenPipeError` when the pipe was closed."""
        self._stream.write(encode_report_json([snapshot], time.time()) + b"\n")
        self._stream.flush()

    deliver = publish

    def close(self) -> None:
        """Leave the stream open: the caller owns it."""


def create_outlet(_target: None, _options: OutletOptions) -> StdoutOutlet:
    """Make the outlet of `--stdout`."""
    return StdoutOutlet(sys.stdout.buffer)
