"""Table of NVML queries: which functions give which field of a device.

The calls go straight to the library that `pynvml` has loaded, into buffers that are
allocated once: a sample of eight GPUs makes a hundred of them, and through the module's own
functions each would cost three times as much.
"""

import ctypes
from collections.abc import Callable
from ctypes import c_uint, c_ulonglong
from typing import Any, NamedTuple

import pynvml

# The library lacks the function, or the function does not know this version of its struct.
_TRY_OLDER_ERRORS = (
    pynvml.NVML_ERROR_FUNCTION_NOT_FOUND,
    pynvml.NVML_ERROR_ARGUMENT_VERSION_MISMATCH,
)


class NvmlCall(NamedTuple):
    """One function, its arguments after the handle, and how to get the value out of them."""

    function: Callable[..., int]
    arguments: tuple[Any, ...]
    get_value: Callable[[], Any]


class NvmlQuery:
    """One field of a device, read with the newest of several functions that the driver has."""

    __slots__ = ("_older", "arguments", "field", "function", "get_value")

    def __init__(self, field: str, newest: NvmlCall, *older: NvmlCall) -> None:
        self.field = field
        self.function, self.arguments, self.get_value = newest
        self._older = list(older)

    def retry_older(self, handle: Any, code: int) -> int:
        """After a call that returned `code`, try older functions; return the last code.

        One is chosen for good: another driver means another session.
        """
        while code in _TRY_OLDER_ERRORS and self._older:
            self.function, self.arguments, self.get_value = self._older.pop(0)
            code = self.function(handle, *self.arguments)
        return code


def _missing(*_: Any) -> int:
    return int(pynvml.NVML_ERROR_FUNCTION_NOT_FOUND)


def _call(
    name: str,
    *outs: Any,
    before: tuple[Any, ...] = (),
    value: Callable[[], Any] | None = None,
) -> NvmlCall:
    function = getattr(pynvml.nvmlLib, f"nvmlDeviceGet{name}", _missing)
    arguments = (*before, *(ctypes.byref(out) for out in outs))
    return NvmlCall(function, arguments, value or (lambda: outs[0].value))


def _number(field: str, *names: str, before: tuple[Any, ...] = (), of: Any = c_uint) -> NvmlQuery:
    return NvmlQuery(field, *(_call(name, of(), before=before) for name in names))


def _first_of_two(field: str, name: str) -> NvmlQuery:
    # The second value is of no use here: a sampling period, or the MIG mode after a reset.
    return NvmlQuery(field, _call(name, c_uint(), c_uint()))


def _memory() -> NvmlQuery:
    # Version 2 gives what the driver reserves for itself apart from what is used: a version
    # number, then total, reserved, free and used. Version 1 has total, free and used.
    new, old = (c_ulonglong * 5)(pynvml.nvmlMemory_v2), (c_ulonglong * 3)()
    return NvmlQuery(
        "memory",
        _call("MemoryInfo_v2", new, value=lambda: (new[4], new[1], new[2])),
        _call("MemoryInfo", old, value=lambda: (old[2], old[0], None)),
    )


def _utilization() -> NvmlQuery:
    rates = (c_uint * 2)()
    call = _call("UtilizationRates", rates, value=lambda: (rates[0], rates[1]))
    return NvmlQuery("utilization", call)


def _remapped() -> NvmlQuery:
    rows = [c_uint() for _ in range(4)]
    call = _call("RemappedRows", *rows, value=lambda: tuple(row.value for row in rows))
    return NvmlQuery("remapped", call)


def _field_value(field: str, field_id: int) -> NvmlQuery:
    """A number without a function of its own: a field value, which has its own return code."""
    values = (pynvml.c_nvmlFieldValue_t * 1)()
    values[0].fieldId = field_id
    call = _call("FieldValues", values, before=(ctypes.c_int32(1),))

    def function(*arguments: Any) -> int:
        # The call can succeed while the one field in it has failed.
        return call.function(*arguments) or int(values[0].nvmlReturn)

    return NvmlQuery(field, NvmlCall(function, call.arguments, lambda: int(values[0].value.uiVal)))


def identity_queries() -> tuple[NvmlQuery, ...]:
    """What cannot change while a device is present, besides its names."""
    sm, memory = (c_uint(pynvml.NVML_CLOCK_SM),), (c_uint(pynvml.NVML_CLOCK_MEM),)
    return (
        _number("sm_clock_max", "MaxClockInfo", before=sm),
        _number("memory_clock_max", "MaxClockInfo", before=memory),
        _number("pcie_generation_max", "MaxPcieLinkGeneration"),
        _number("pcie_width_max", "MaxPcieLinkWidth"),
    )


def state_queries() -> tuple[NvmlQuery, ...]:
    """What is read at every sample."""
    sm, memory = (c_uint(pynvml.NVML_CLOCK_SM),), (c_uint(pynvml.NVML_CLOCK_MEM),)
    reasons = ("CurrentClocksEventReasons", "CurrentClocksThrottleReasons")
    return (
        _memory(),
        _utilization(),
        _number("temperature", "Temperature", before=(c_uint(pynvml.NVML_TEMPERATURE_GPU),)),
        _number("power", "PowerUsage"),
        _number("sm_clock", "ClockInfo", before=sm),
        _number("memory_clock", "ClockInfo", before=memory),
        _number("performance_state", "PerformanceState"),
        _number("throttle", *reasons, of=c_ulonglong),
        _first_of_two("encoder", "EncoderUtilization"),
        _first_of_two("decoder", "DecoderUtilization"),
    )


def slow_changing_queries() -> tuple[NvmlQuery, ...]:
    """What changes rarely or slowly, and is cached for some seconds."""
    since_load = c_uint(pynvml.NVML_VOLATILE_ECC)
    corrected = (c_uint(pynvml.NVML_MEMORY_ERROR_TYPE_CORRECTED), since_load)
    uncorrected = (c_uint(pynvml.NVML_MEMORY_ERROR_TYPE_UNCORRECTED), since_load)
    return (
        _first_of_two("mig_mode", "MigMode"),
        _number("fan", "FanSpeed"),
        _number("power_limit", "EnforcedPowerLimit"),
        _number("ecc_corrected", "TotalEccErrors", before=corrected, of=c_ulonglong),
        _number("ecc_uncorrected", "TotalEccErrors", before=uncorrected, of=c_ulonglong),
        _number("pcie_generation", "CurrPcieLinkGeneration"),
        _number("pcie_width", "CurrPcieLinkWidth"),
        _number("persistence", "PersistenceMode"),
        _number("compute_mode", "ComputeMode"),
        _number("retired_pending", "RetiredPagesPendingStatus"),
        _number("energy", "TotalEnergyConsumption", of=c_ulonglong),
        _field_value("memory_temperature", pynvml.NVML_FI_DEV_MEMORY_TEMP),
        _remapped(),
        _field_value("recovery", pynvml.NVML_FI_DEV_GET_GPU_RECOVERY_ACTION),
    )


def pcie_throughput_queries() -> tuple[NvmlQuery, ...]:
    """PCIe throughput; the driver takes 20 ms per GPU to measure it, so it is read on request."""
    received = (c_uint(pynvml.NVML_PCIE_UTIL_RX_BYTES),)
    sent = (c_uint(pynvml.NVML_PCIE_UTIL_TX_BYTES),)
    return (
        _number("pcie_rx", "PcieThroughput", before=received),
        _number("pcie_tx", "PcieThroughput", before=sent),
    )


def mig_instance_queries() -> tuple[NvmlQuery, ...]:
    """What is read from a MIG instance."""
    return (
        _number("gpu_instance_id", "GpuInstanceId"),
        _number("compute_instance_id", "ComputeInstanceId"),
        _memory(),
    )
