"""A running program that uses unmodified nvidia-ml-py, and executes commands line by line."""

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
        answer = {"value": eval(line)}
    except N.NVMLError as error:
        answer = {"error": error.value}
    print(json.dumps(answer, default=plain), flush=True)
"""


class NvmlFailed(Exception):
    """The driver answered with an error code."""

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
        """Have it evaluate this, without waiting."""
        assert self.process.stdin is not None
        self.process.stdin.write(expression + "\n")
        self.process.stdin.flush()

    def receive(self) -> Any:
        """The next answer."""
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        if not line:
            raise AssertionError(f"the program ended: {self.process.communicate()[1]}")
        answer = json.loads(line)
        if "error" in answer:
            raise NvmlFailed(answer["error"])
        return answer["value"]

    def evaluate(self, expression: str) -> Any:
        """Evaluate this there and return the answer."""
        self.send(expression)
        return self.receive()

    def error_code(self, expression: str) -> int:
        """The error code that this answers; 0 when all is well."""
        try:
            self.evaluate(expression)
        except NvmlFailed as failed:
            return failed.code
        return 0

    def is_silent(self, seconds: float) -> bool:
        """Whether no answer comes in this time."""
        assert self.process.stdout is not None
        return not select.select([self.process.stdout], [], [], seconds)[0]
