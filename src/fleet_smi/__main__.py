"""`python -m fleet_smi`, `fleet-smi` and `fsmi`."""

import os
import sys


def main() -> None:
    """Run the command line and exit with its code."""
    from fleet_smi.cli.main import main as run

    code = run(sys.argv[1:])
    sys.stdout.flush()
    sys.stderr.flush()
    # All is said: the interpreter's own cleaning up would take another 5 ms.
    os._exit(code)


if __name__ == "__main__":
    main()
