"""Signal binding: send a signal to one process, and to no other that has its pid by now."""

import os
import signal

from fleet_smi.errors import NotPresent, ReadFailed
from fleet_smi.node.bindings.proc_files import BootTime

_TICKS = os.sysconf("SC_CLK_TCK")
# Start times are computed from the time of boot, which moves when a clock is set.
_MAX_DIFFERENCE_SECONDS = 5.0


def send_signal(pid: int, number: int, started_at: float | None) -> None:
    """Send a signal to the process that has this pid and began at this time.

    Raise `NotPresent` if it has ended, `ReadFailed` if the kernel does not allow it.
    """
    try:
        # From here on the descriptor means this very process, whatever happens to its pid.
        descriptor = os.pidfd_open(pid)
    except ProcessLookupError:
        raise NotPresent(f"process {pid} has ended") from None
    try:
        began = _began(pid)
        if began is None or (
            started_at is not None and abs(began - started_at) > _MAX_DIFFERENCE_SECONDS
        ):
            raise NotPresent(f"process {pid} has ended: another one has its number now")
        signal.pidfd_send_signal(descriptor, number)
    except ProcessLookupError:
        raise NotPresent(f"process {pid} has ended") from None
    except PermissionError:
        raise ReadFailed(
            f"process {pid} is not yours: only its owner or root can do that"
        ) from None
    finally:
        os.close(descriptor)


def _began(pid: int) -> float | None:
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:
            data = file.read()
        ticks = int(data[data.rindex(b")") + 2 :].split()[19])
    except (OSError, ValueError, IndexError):
        return None
    booted_at = BootTime().read("/")
    return None if booted_at is None else booted_at + ticks / _TICKS
