"""A subprocess with unmodified nvidia-ml-py that evaluates expressions line by line."""

from __future__ import annotations

import json
import select
import subprocess
import sys
from types import TracebackType
from typing import Any, Self

_CODE = """
import ctypes, json, sys, time
import pynvml as N

def plain(value):
    if isinstance(value, bytes):
        return value.decode()
    if isinstance(value, ctypes.Structure):
        return {name: getattr(value, name) for name, *_ in value._fields_}
    if isinstance(value, ctypes._Pointer):
        return "handle"
    if isinstance(value, ctypes._SimpleCData):
        return value.value
    return vars(value)

def gpu(index):
    return N.nvmlDeviceGetHandleByIndex(index)

for line in sys.stdin:
    try:
        result = {"value": eval(line)}
    except N.NVMLError as error:
        result = {"error": error.value}
    print(json.dumps(result, default=plain), flush=True)
"""


class NvmlFailed(Exception):
    """The driver returned an error code."""

    def __init__(self, code: int) -> None:
        super().__init__(f"NVML error {code}")
        self.code = code


class NvmlProgram:
    """A Python process with `pynvml` as `N` and handles by `gpu(index)`."""

    def __init__(self, env: dict[str, str], *, start: bool = True) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-c", _CODE],
            env=env,
            text=True,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )
        if start:
            self.evaluate("N.nvmlInit()")

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.process.kill()
        self.process.communicate()

    def send(self, expression: str) -> None:
        """Send an expression, without waiting for its result."""
        assert self.process.stdin is not None
        self.process.stdin.write(expression + "\n")
        self.process.stdin.flush()

    def receive(self) -> Any:
        """Return the next result; raise `NvmlFailed` for an NVML error."""
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        if not line:
            raise AssertionError(f"the program ended: {self.process.communicate()[1]}")
        result = json.loads(line)
        if "error" in result:
            raise NvmlFailed(result["error"])
        return result["value"]

    def evaluate(self, expression: str) -> Any:
        """Evaluate an expression and return its result."""
        self.send(expression)
        return self.receive()

    def error_code(self, expression: str) -> int:
        """Return the NVML error code of an expression; 0 for success."""
        try:
            self.evaluate(expression)
        except NvmlFailed as failed:
            return failed.code
        return 0

    def is_silent(self, seconds: float) -> bool:
        """Whether no result comes within `seconds`."""
        assert self.process.stdout is not None
        return not select.select([self.process.stdout], [], [], seconds)[0]
