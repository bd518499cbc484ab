"""Run `xpu-smi`: for Intel GPUs whose load and memory the kernel gives to root only."""

import time
from typing import Any

from fleet_smi.node.bindings.program import read_outputs

_COMMANDS = (
    # By number: device, name, clock, PCI address, PCIe generation and width, memory size.
    ("discovery", "--dump", "1,2,6,11,13,14,16"),
    # Utilisation, power, clock, temperatures, memory bandwidth and memory used; one sample.
    ("dump", "-d", "-1", "--metrics", "0,1,2,3,4,17,18", "-n", "1"),
    ("ps",),
)


def read(program: str = "xpu-smi", timeout_seconds: float = 3.0) -> dict[str, Any]:
    """Return, as `texts`, what each command that ended in time printed; see `read_outputs`."""
    deadline = time.monotonic() + timeout_seconds
    commands = [(program, *arguments) for arguments in _COMMANDS]
    return {"texts": read_outputs(commands, deadline, "install Intel's XPU Manager")}
