"""Erase a secret from the arguments or the environment that the kernel shows of this process."""

# The fields of /proc/self/stat with the first and last address of each.
_ARGUMENTS, _ENVIRONMENT = slice(47, 49), slice(49, 51)


def erase_argument(secret: str) -> None:
    """Erase a secret from /proc/PID/cmdline, which every user can read."""
    _erase(_ARGUMENTS, secret.encode(errors="surrogateescape"))


def erase_variable(secret: str) -> None:
    """Erase a secret from /proc/PID/environ."""
    _erase(_ENVIRONMENT, secret.encode(errors="surrogateescape"))


def _erase(fields: slice, secret: bytes) -> None:
    try:
        with open("/proc/self/stat", "rb") as file:
            # The second field may have spaces in it, and ends with the last parenthesis.
            values = file.read().rpartition(b")")[2].split()
        start, end = (int(value) for value in [b"", b"", *values][fields])
        with open("/proc/self/mem", "r+b", buffering=0) as memory:
            memory.seek(start)
            region = memory.read(end - start)
            at = region.find(secret)
            while at >= 0:
                memory.seek(start + at)
                memory.write(b"x" * len(secret))
                at = region.find(secret, at + len(secret))
    except (OSError, ValueError):  # not Linux, or /proc is closed to this process
        return
