"""The local machine as a fleet; its reader process starts before the slow imports."""

import os
import sys
from typing import TYPE_CHECKING

from fleet_smi.node.reader import Reader
from fleet_smi.node.reader_process import fork_worker

if TYPE_CHECKING:
    from fleet_smi.local import LocalFleet


def start_reader() -> Reader:
    """Start a reader that loads the driver binding while this process imports the rest.

    It needs no closing: it ends with this process, when its pipes are closed.
    """
    reader = Reader(fork_worker)
    if sys.stderr.isatty():
        reader.on_wait = _show_wait
    reader.preload("nvidia")
    return reader


def _show_wait(step: str | None, seconds: float) -> None:
    """Show on the terminal what the command waits for, on one line that is cleared in the end."""
    text = "" if step is None else f"waiting for {seconds:.0f} s: {step}"
    # Not wider than the terminal: a line that wraps could not be cleared.
    columns = os.get_terminal_size(sys.stderr.fileno()).columns or 80
    sys.stderr.write(f"\r\x1b[K{text[: columns - 1]}")
    sys.stderr.flush()


def open_local_fleet(reader: Reader, *, full: bool) -> "LocalFleet":
    """Return this machine as a fleet of one; `full` also reads the slow subjects."""
    from fleet_smi import config
    from fleet_smi.local import LocalFleet
    from fleet_smi.node.collectors import ALL_SUBJECTS, QUICK_SUBJECTS

    return LocalFleet(
        config.load(), reader, subjects=ALL_SUBJECTS if full else QUICK_SUBJECTS, traffic=full
    )
