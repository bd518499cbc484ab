"""Process lists of NVML, in every struct layout that drivers have had.

Version 1 has pid and memory, versions 2 and 3 add the MIG ids. For a few drivers of the
535 branch version 3 had one more field; read with the wrong layout, every second pid is
garbage.
"""

import ctypes
from typing import Any

import pynvml

PROCESS_KINDS = {"compute": "Compute", "graphics": "Graphics", "mps": "MPSCompute"}
# What NVML writes for "not available" and for a process outside MIG.
_UNKNOWN_MEMORY = 2**64 - 1
_NO_INSTANCE = 2**32 - 1


class _InfoV1(ctypes.Structure):
    _fields_ = (("pid", ctypes.c_uint), ("memory", ctypes.c_ulonglong))
    # Class attributes instead of fields, so that `_entry` can read every layout alike.
    gpu_instance = compute_instance = _NO_INSTANCE


class _InfoV2(ctypes.Structure):
    _fields_ = (
        ("pid", ctypes.c_uint),
        ("memory", ctypes.c_ulonglong),
        ("gpu_instance", ctypes.c_uint),
        ("compute_instance", ctypes.c_uint),
    )


class _InfoV3Early(ctypes.Structure):
    _fields_ = (*_InfoV2._fields_, ("protected_memory", ctypes.c_ulonglong))


class _Sample(ctypes.Structure):
    _fields_ = (
        ("pid", ctypes.c_uint),
        ("stamp", ctypes.c_ulonglong),
        ("busy", ctypes.c_uint),
        ("memory_busy", ctypes.c_uint),
        ("encoder", ctypes.c_uint),
        ("decoder", ctypes.c_uint),
    )


ProcessEntry = tuple[int, int | None, int | None, int | None]


class ProcessListReader:
    """Reads the lists in the newest layout that this driver has."""

    def __init__(self, driver: str) -> None:
        newest = _InfoV3Early if _is_early_535(driver) else _InfoV2
        self._layouts = (("_v3", newest), ("_v2", _InfoV2), ("", _InfoV1))
        self._chosen: dict[str, tuple[Any, Any]] = {}
        self._capacity = 64
        self._last_sample: dict[int, int] = {}
        self._buffers: dict[Any, Any] = {}

    def read(self, handle: Any, device: int | None) -> dict[str, Any]:
        """Return the entries by kind, the error codes by kind, and the utilisation by pid."""
        lists: dict[str, Any] = {"errors": {}}
        for kind, list_name in PROCESS_KINDS.items():
            try:
                lists[kind] = self._list(handle, list_name)
            except pynvml.NVMLError as error:
                lists["errors"][kind] = error.value
        # Not for a MIG instance, of which the driver knows no utilisation.
        if device is not None and (lists.get("compute") or lists.get("graphics")):
            lists["busy"] = self._busy(handle, device)
        return lists

    def _list(self, handle: Any, list_name: str) -> list[ProcessEntry]:
        function, layout = self._chosen.get(list_name) or self._choose(handle, list_name)
        for _ in range(4):
            buffer, count = self._buffer(layout), ctypes.c_uint(self._capacity)
            code = function(handle, ctypes.byref(count), buffer)
            if code == pynvml.NVML_SUCCESS:
                return [_entry(buffer[at]) for at in range(count.value)]
            if code != pynvml.NVML_ERROR_INSUFFICIENT_SIZE:
                raise pynvml.NVMLError(code)
            # Processes start between two calls: leave room for more than were counted.
            self._capacity = max(self._capacity, count.value) * 2
            self._buffers.clear()
        raise pynvml.NVMLError(pynvml.NVML_ERROR_INSUFFICIENT_SIZE)

    def _choose(self, handle: Any, list_name: str) -> tuple[Any, Any]:
        """Find the newest function for this list that the driver has, and its layout."""
        for suffix, layout in self._layouts:
            name = f"nvmlDeviceGet{list_name}RunningProcesses{suffix}"
            function = getattr(pynvml.nvmlLib, name, None)
            if function is None:
                continue
            # With room for 0 entries only the count is returned: safe with any layout.
            code = function(handle, ctypes.byref(ctypes.c_uint(0)), None)
            if code != pynvml.NVML_ERROR_FUNCTION_NOT_FOUND:
                self._chosen[list_name] = function, layout
                return function, layout
        return self._chosen.setdefault(list_name, (_not_found, _InfoV1))

    def _buffer(self, layout: Any) -> Any:
        # Reused: each new ctypes array is also a new type, which only the garbage collector frees.
        if layout not in self._buffers:
            self._buffers[layout] = (layout * self._capacity)()
        return self._buffers[layout]

    def _busy(self, handle: Any, device: int) -> dict[int, float]:
        """Return the utilisation of each process in its newest sample since the last read."""
        function = getattr(pynvml.nvmlLib, "nvmlDeviceGetProcessUtilization", None)
        if function is None:
            return {}
        since = ctypes.c_ulonglong(self._last_sample.get(device, 0))
        samples, count = self._buffer(_Sample), ctypes.c_uint(self._capacity)
        if function(handle, samples, ctypes.byref(count), since) != pynvml.NVML_SUCCESS:
            return {}
        newest: dict[int, tuple[int, int]] = {}
        for at in range(count.value):
            sample = samples[at]
            pid, stamp = sample.pid, sample.stamp
            # Unused entries have pid 0.
            if pid and stamp >= newest.get(pid, (0, 0))[0]:
                newest[pid] = (stamp, sample.busy)
        if newest:
            self._last_sample[device] = max(stamp for stamp, _ in newest.values())
        return {pid: percent for pid, (_, percent) in newest.items()}


def _not_found(*_: Any) -> int:
    return int(pynvml.NVML_ERROR_FUNCTION_NOT_FOUND)


def _entry(info: Any) -> ProcessEntry:
    return (
        info.pid,
        None if info.memory == _UNKNOWN_MEMORY else info.memory,
        None if info.gpu_instance == _NO_INSTANCE else info.gpu_instance,
        None if info.compute_instance == _NO_INSTANCE else info.compute_instance,
    )


def _is_early_535(driver: str) -> bool:
    try:
        branch, minor = (int(part) for part in driver.split(".")[:2])
    except ValueError:
        return False
    return branch == 535 and 43 <= minor < 98
