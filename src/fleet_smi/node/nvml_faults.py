"""Faults of NVIDIA GPUs: what NVML's error codes mean and what to do about them."""

from typing import Any

from fleet_smi.model.snapshot import Fault

# NVML's return codes as numbers: pynvml is loaded by the reader, never by this process.
NOT_SUPPORTED, NO_PERMISSION, FUNCTION_NOT_FOUND, GPU_LOST, RESET_REQUIRED = 3, 4, 13, 15, 16

ERROR_TEXTS = {
    1: "driver restarted",
    4: "insufficient permissions",
    6: "not found",
    9: "driver not loaded",
    10: "timeout",
    11: "interrupt problem",
    14: "corrupted infoROM",
    15: "GPU is lost",
    16: "GPU requires reset",
    17: "blocked by the operating system",
    28: "GPU not found",
    999: "unknown error",
}

RECOVERY_ACTIONS = {
    1: "nvidia-smi --gpu-reset, once nobody uses it",
    2: "reboot the machine",
    3: "stop the jobs that use peer-to-peer memory, then reset the GPU",
    4: "let its jobs end, then nvidia-smi --gpu-reset",
    5: "recover the IMEX domain",
    6: "reset the bus of the GPU, or reboot",
    7: "power-cycle the machine",
}


def fault_from_codes(values: dict[str, Any], errors: dict[str, int]) -> Fault | None:
    """The fault of a device by the codes of failed calls, or else by what the driver reports."""
    codes = set(errors.values())
    if GPU_LOST in codes:
        return Fault(
            kind="lost",
            detail="lost: fell off the bus",
            remedy="reboot; if it returns, have the hardware checked",
        )
    if RESET_REQUIRED in codes:
        return Fault(kind="needs_reset", detail="GPU requires reset", remedy=RECOVERY_ACTIONS[1])
    if "handle" in errors:
        return _open_fault(errors["handle"])
    return _pending_reset(values)


def _open_fault(code: int) -> Fault:
    message = ERROR_TEXTS.get(code, f"NVML error {code}")
    if code == NO_PERMISSION:
        return Fault(
            kind="unreadable",
            detail=f"the device could not be opened: {message}",
            remedy="ask for access to /dev/nvidia*",
        )
    return Fault(
        kind="lost",
        detail=f"the device could not be opened: {message}",
        remedy="look at the kernel log (dmesg) for Xid or RmInit; reboot",
    )


def _pending_reset(values: dict[str, Any]) -> Fault | None:
    """The fault of a device that works but needs a reset."""
    if remedy := RECOVERY_ACTIONS.get(values.get("recovery", 0)):
        return Fault(kind="needs_reset", detail="the driver asks for recovery", remedy=remedy)
    # Each is yes (1) or no (0); anything else means "not available".
    _, _, pending, failed = values.get("remapped") or (0, 0, 0, 0)
    if failed == 1:
        return Fault(
            kind="needs_reset",
            detail="memory rows could not be remapped",
            remedy="have the GPU replaced",
        )
    if pending == 1 or values.get("retired_pending") == 1:
        cause = "remapped rows" if pending == 1 else "retired memory pages"
        return Fault(
            kind="needs_reset",
            detail=f"{cause} wait for a reset of the GPU",
            remedy=RECOVERY_ACTIONS[1],
        )
    return None
