"""The local machine as a fleet; its reader process starts before the slow imports."""

import os
import sys
from typing import TYPE_CHECKING

from fleet_smi.node.reader import Reader
from fleet_smi.node.reader_process import fork_worker

if TYPE_CHECKING:
    from fleet_smi.local import LocalFleet

# Longer than a driver without persistence mode needs on a machine with few GPUs.
_NOTICE_AFTER_SECONDS = 3.0


def start_reader() -> Reader:
    """Start a reader that loads the driver binding while this process imports the rest.

    It needs no closing: it ends with this process, when its pipes are closed.
    """
    reader = Reader(fork_worker)
    reader.on_wait = _show_wait if sys.stderr.isatty() else _WaitNotice()
    reader.preload("nvidia")
    return reader


def _show_wait(step: str | None, seconds: float) -> None:
    """Show on the terminal what the command waits for, on one line that is cleared in the end."""
    text = "" if step is None else f"waiting for {seconds:.0f} s: {step}"
    # Not wider than the terminal: a line that wraps could not be cleared.
    columns = os.get_terminal_size(sys.stderr.fileno()).columns or 80
    sys.stderr.write(f"\r\x1b[K{text[: columns - 1]}")
    sys.stderr.flush()


class _WaitNotice:
    """Says once in a log or a pipe what the command waits for."""

    def __init__(self) -> None:
        self._is_said = False

    def __call__(self, step: str | None, seconds: float) -> None:
        if step is not None and seconds >= _NOTICE_AFTER_SECONDS and not self._is_said:
            self._is_said = True
            print(f"fleet-smi: waiting: {step}", file=sys.stderr, flush=True)


def open_local_fleet(reader: Reader, *, full: bool, patient: bool = True) -> "LocalFleet":
    """Return this machine as a fleet of one; `full` also reads the slow subjects."""
    from fleet_smi import config
    from fleet_smi.local import LocalFleet
    from fleet_smi.node.collectors import ALL_SUBJECTS, QUICK_SUBJECTS

    return LocalFleet(
        config.load(),
        reader,
        subjects=ALL_SUBJECTS if full else QUICK_SUBJECTS,
        traffic=full,
        patient=patient,
    )
