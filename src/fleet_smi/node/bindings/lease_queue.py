"""The local queue: a locked ticket file per waiting process, in the order of arrival.

A ticket counts while its process holds the lock on it, so that one who is killed leaves the
queue. Its place is the change time of the file, which the kernel sets and no user can. Its name
says which process that is; a ticket that another user has locked does not count.
"""

import contextlib
import fcntl
import os
import stat
import time
from collections import Counter
from collections.abc import Iterator
from operator import itemgetter
from typing import NamedTuple

from fleet_smi.errors import StateError
from fleet_smi.node.bindings.lease_files import PREFIX
from fleet_smi.node.bindings.lease_lockers import find_holder, identify_self, read_locks
from fleet_smi.paths import user_name

_SUFFIX = ".queue"
_MAX_COUNT = 1024
_MAX_PER_USER, _MAX_TICKETS = 16, 1024
_MAX_BYTES = 65536
_STALE_SECONDS = 60.0


class Waiter(NamedTuple):
    """A process that waits for GPUs; `uuids` are those that it could use, `None` if unknown."""

    user: str
    pid: int
    wanted: int
    uuids: frozenset[str] | None


class Ticket:
    """The place of this process in the queue of a machine."""

    def __init__(self, folder: int, count: int, uuids: frozenset[str]) -> None:
        self._folder = folder
        # The kernel counts changes in ticks of milliseconds: the name decides within one.
        process = ".".join(identify_self().values())
        self.name = f"{PREFIX}{time.time_ns():020d}.{os.geteuid()}.{process}{_SUFFIX}"
        flags = os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
        try:
            # Closed to others until it is locked: a lock of theirs would keep this one out.
            self._file = os.open(self.name, flags, 0o600, dir_fd=folder)
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            os.write(self._file, " ".join([str(count), *sorted(uuids)]).encode()[:_MAX_BYTES])
            os.fchmod(self._file, 0o644)
        except OSError as error:
            raise StateError(f"no place in the queue of this machine: {error.strerror}") from None

    def leave(self) -> None:
        """Leave the queue."""
        if self._file >= 0:
            with contextlib.suppress(OSError):
                os.unlink(self.name, dir_fd=self._folder)
            os.close(self._file)
            self._file = -1


def waiters_ahead(folder: int, ticket: Ticket | None) -> list[Waiter]:
    """Return who came before a ticket, or everybody who waits; the first comes first."""
    names = [name for name in os.listdir(folder) if _is_ticket(name)]
    if not names or names == [getattr(ticket, "name", None)]:
        return []
    locks = read_locks()
    ahead: list[Waiter] = []
    counts: Counter[int] = Counter()
    for _, name, status in sorted(_find_tickets(folder, names), key=itemgetter(0)):
        if ticket is not None and name == ticket.name:
            break
        # Nobody waits for so much: each of them has to be read.
        if counts[status.st_uid] >= _MAX_PER_USER or len(ahead) >= _MAX_TICKETS:
            continue
        pids = locks.get((status.st_dev, status.st_ino))
        pid = find_holder("/", pids, status.st_uid, _identity(name))
        if pid is None:
            _remove_stale(folder, name, status)
        elif stat.S_ISREG(status.st_mode):
            counts[status.st_uid] += 1
            ahead.append(_waiter(folder, name, status.st_uid, pid))
    return ahead


def _find_tickets(
    folder: int, names: list[str]
) -> Iterator[tuple[tuple[int, str], str, os.stat_result]]:
    """Yield the place, the name and the status of each ticket."""
    for name in names:
        with contextlib.suppress(OSError):
            status = os.stat(name, dir_fd=folder, follow_symlinks=False)
            yield (status.st_ctime_ns, name), name, status


def _is_ticket(name: str) -> bool:
    return name.startswith(PREFIX) and name.endswith(_SUFFIX)


def _identity(name: str) -> dict[str, str]:
    """Return the process that a ticket names."""
    return dict(zip(("pid", "started"), name[: -len(_SUFFIX)].split(".")[-2:], strict=False))


def _waiter(folder: int, name: str, uid: int, pid: int) -> Waiter:
    words: list[str] = []
    try:
        flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
        file = os.open(name, flags, dir_fd=folder)
    except OSError:
        pass
    else:
        words = os.read(file, _MAX_BYTES).decode("utf-8", "replace").split(" ")
        os.close(file)
    number = words[0] if words and words[0].isdecimal() and len(words[0]) <= 4 else "1"
    count = max(1, min(int(number), _MAX_COUNT))
    return Waiter(user_name(uid), pid, count, frozenset(words[1:]) or None)


def _remove_stale(folder: int, name: str, status: os.stat_result) -> None:
    """Remove one's own ticket that a killed process has left."""
    if status.st_uid == os.geteuid() and time.time() - status.st_ctime > _STALE_SECONDS:
        with contextlib.suppress(OSError):
            os.unlink(name, dir_fd=folder)
