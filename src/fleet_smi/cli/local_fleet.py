"""This machine for a command: its reader starts before anything else is imported."""

from typing import TYPE_CHECKING

from fleet_smi.node.reader_process import Reader, fork_worker

if TYPE_CHECKING:
    from fleet_smi.local import LocalFleet


def start_reader() -> Reader:
    """A reader that loads the driver's binding while this process imports the rest.

    Nobody closes it: it ends when this process does, because then its pipes are closed.
    """
    reader = Reader(fork_worker)
    reader.preload("nvidia")
    return reader


def open_local_fleet(reader: Reader, *, full: bool) -> "LocalFleet":
    """This machine as a fleet of one; `full` also reads what takes longer."""
    from fleet_smi import config
    from fleet_smi.local import LocalFleet
    from fleet_smi.node.collectors import ALL_SUBJECTS, QUICK_SUBJECTS

    return LocalFleet(
        config.load(), reader, subjects=ALL_SUBJECTS if full else QUICK_SUBJECTS, traffic=full
    )
