"""A benchmarked program that is driven line by line over its standard streams."""

import subprocess
import tempfile
from collections.abc import Mapping
from typing import NoReturn, Self

from bench.peers import NotAvailable, last_error


class LineProgram:
    """Run a program until the block ends; its error output is saved."""

    def __init__(self, command: list[str], environment: Mapping[str, str]) -> None:
        # A file and not a pipe: a full pipe that is not read would block the program.
        self._errors = tempfile.TemporaryFile("w+")  # noqa: SIM115  # open as long as the program
        self._process = subprocess.Popen(
            command,
            env={**environment, "PYTHONUNBUFFERED": "1"},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._errors,
            text=True,
        )
        self.pid = self._process.pid

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._process.kill()
        self._process.communicate()
        self._errors.close()

    def read_line(self) -> str:
        """Return the next line of output; raise `NotAvailable` when the program ended."""
        assert self._process.stdout is not None
        return self._process.stdout.readline() or self._ended()

    def request(self, line: str = "") -> str:
        """Send a line and return the response."""
        assert self._process.stdin is not None
        try:
            self._process.stdin.write(f"{line}\n")
            self._process.stdin.flush()
        except BrokenPipeError:
            self._ended()
        return self.read_line()

    def _ended(self) -> NoReturn:
        self._process.wait()
        self._errors.seek(0)
        raise NotAvailable(last_error(self._errors.read()))
