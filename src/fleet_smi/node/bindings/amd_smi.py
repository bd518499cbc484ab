"""Run `amd-smi`: for AMD GPUs whose figures the kernel's files do not give."""

import time
from typing import Any

from fleet_smi.node.bindings.program import read_outputs

_COMMANDS = (
    ("static", "--json"),
    ("metric", "--json"),
    ("process", "--json"),
)


def read(program: str = "amd-smi", timeout_seconds: float = 3.0) -> dict[str, Any]:
    """Return, as `texts`, what each command that ended in time printed; see `read_outputs`."""
    deadline = time.monotonic() + timeout_seconds
    commands = [(program, *arguments) for arguments in _COMMANDS]
    return {"texts": read_outputs(commands, deadline, "install ROCm's amd-smi-lib")}
