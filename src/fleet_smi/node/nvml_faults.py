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

# What the driver recommends once nobody uses the device; until then new work may be launched.
DRAIN_ACTIONS = (3, 4)
_USABLE_ACTIONS = (0, *DRAIN_ACTIONS)

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
            detail="fell off the bus",
            remedy="reboot; if it returns, check the hardware",
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
    """The fault of a device that works but must be reset before it is used again."""
    action = values.get("recovery", 0)
    if action not in DRAIN_ACTIONS and (remedy := RECOVERY_ACTIONS.get(action)):
        return Fault(kind="needs_reset", detail="the driver asks for recovery", remedy=remedy)
    # Each is yes (1) or no (0); anything else means "not available".
    if (values.get("remapped") or (0, 0, 0, 0))[3] == 1:
        return Fault(
            kind="needs_reset",
            detail="memory rows could not be remapped",
            remedy="have the GPU replaced",
        )
    return None


def reset_pending(values: dict[str, Any]) -> str | None:
    """What waits for a reset of a device that can be used until then."""
    if (values.get("remapped") or (0, 0, 0, 0))[2] == 1:
        return "remapped rows wait for a reset"
    if values.get("retired_pending") == 1:
        return "retired memory pages wait for a reset"
    action = values.get("recovery", 0)
    return RECOVERY_ACTIONS[action] if action in DRAIN_ACTIONS else None


def errors_are_contained(values: dict[str, Any]) -> bool | None:
    """Whether an uncorrectable error ends the process that met it, and harms no other.

    The cards that can remap rows (data-centre cards since Ampere) contain errors; where that
    failed, the driver asks for a reset.
    """
    if values.get("remapped") is None:
        return None
    return values.get("recovery", 0) in _USABLE_ACTIONS
