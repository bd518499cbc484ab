"""`python -m fleet_smi`, `fleet-smi` and `fsmi`."""

import os
import sys


def main() -> None:
    """Run the command line and exit with its code."""
    try:
        _open_streams()
        from fleet_smi.cli.main import main as run

        code = run(sys.argv[1:])
        sys.stderr.flush()
    except KeyboardInterrupt:  # so early that nobody else could see to it
        code = 130
    # All is said: the interpreter's own cleaning up would take another 5 ms.
    os._exit(code)


def _open_streams() -> None:
    """Make sure of the three standard streams: a closed one would be taken by a pipe of ours."""
    while (opened := os.open(os.devnull, os.O_RDWR)) < 3:
        pass
    os.close(opened)
    for name, number in (("stdout", 1), ("stderr", 2)):
        stream = getattr(sys, name)
        if stream is None:
            setattr(sys, name, open(number, "w", encoding="utf-8"))  # noqa: SIM115, PTH123
        else:
            # An ASCII terminal gets question marks for what it cannot show.
            stream.reconfigure(errors="replace")


if __name__ == "__main__":
    main()
