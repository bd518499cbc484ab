"""Run `rocm-smi`: for AMD GPUs on machines whose ROCm has no `amd-smi` yet."""

import time
from typing import Any

from fleet_smi.node.bindings.program import read_outputs

_COMMANDS = (
    (
        "--showid",
        "--showproductname",
        "--showuniqueid",
        "--showbus",
        "--showuse",
        "--showmemuse",
        "--showmeminfo",
        "vram",
        "gtt",
        "--showtemp",
        "--showpower",
        "--showmaxpower",
        "--showfan",
        "--showclocks",
        "--showperflevel",
        "--showpids",
        "--json",
    ),
)


def read(program: str = "rocm-smi", timeout_seconds: float = 3.0) -> dict[str, Any]:
    """Return, as `texts`, what each command that ended in time printed; see `read_outputs`."""
    deadline = time.monotonic() + timeout_seconds
    commands = [(program, *arguments) for arguments in _COMMANDS]
    return {"texts": read_outputs(commands, deadline, "install ROCm's rocm-smi-lib")}
