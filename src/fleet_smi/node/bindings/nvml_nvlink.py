"""NVLink of a device, read through NVML: its links, which of them are up, and their traffic."""

import ctypes
from collections.abc import Callable
from ctypes import c_uint
from typing import Any

import pynvml

_MAX_LINKS = 36
_ALL_LINKS = 0xFFFF_FFFF
# Beyond the last link of a card, for a card without NVLink, and of a driver without this function.
_NO_LINK_ERRORS = (
    pynvml.NVML_ERROR_INVALID_ARGUMENT,
    pynvml.NVML_ERROR_NOT_SUPPORTED,
    pynvml.NVML_ERROR_FUNCTION_NOT_FOUND,
)
_TRAFFIC_FIELDS = (
    pynvml.NVML_FI_DEV_NVLINK_THROUGHPUT_DATA_RX,
    pynvml.NVML_FI_DEV_NVLINK_THROUGHPUT_DATA_TX,
)


def _missing(*_: Any) -> int:
    return int(pynvml.NVML_ERROR_FUNCTION_NOT_FOUND)


class NvlinkReader:
    """Reads links and their counters; the traffic is how much these grew since the last time."""

    def __init__(self) -> None:
        self._get_state = getattr(pynvml.nvmlLib, "nvmlDeviceGetNvLinkState", _missing)
        self._get_fields = getattr(pynvml.nvmlLib, "nvmlDeviceGetFieldValues", _missing)
        self._active = c_uint()
        self._fields = (pynvml.c_nvmlFieldValue_t * len(_TRAFFIC_FIELDS))()
        for value, field_id in zip(self._fields, _TRAFFIC_FIELDS, strict=True):
            value.fieldId, value.scopeId = field_id, _ALL_LINKS
        self._counters: dict[int, tuple[float, tuple[int, ...]]] = {}

    def forget(self) -> None:
        """Forget the counters: devices may have other indexes."""
        self._counters.clear()

    def read(
        self, handle: Any, device: dict[str, Any], now: float, report_progress: Callable[[], None]
    ) -> None:
        """Add `nvlink`, links and active ones, and `nvlink_traffic`, KiB/s received and sent.

        A card without NVLink has neither. `now` is a monotonic time in seconds.
        """
        links = active = code = 0
        for link in range(_MAX_LINKS):
            report_progress()
            code = self._get_state(handle, c_uint(link), ctypes.byref(self._active))
            if code:
                break
            links += 1
            active += self._active.value == 1
        if code and code not in _NO_LINK_ERRORS:
            device["errors"]["nvlink"] = code
        elif links:
            device["values"]["nvlink"] = links, active
            self._read_traffic(handle, device, now)

    def _read_traffic(self, handle: Any, device: dict[str, Any], now: float) -> None:
        code = self._get_fields(handle, ctypes.c_int32(len(self._fields)), self._fields)
        codes = [code, *[int(value.nvmlReturn) for value in self._fields]]
        if any(codes):
            device["errors"]["nvlink_traffic"] = next(filter(None, codes))
            return
        # Counters in KiB, of all links together.
        counters = tuple([int(value.value.ullVal) for value in self._fields])
        before_at, before = self._counters.get(device["index"], (now, counters))
        self._counters[device["index"]] = now, counters
        grown = [after - last for last, after in zip(before, counters, strict=True)]
        # They start from 0 when the driver is loaded.
        if now > before_at and min(grown) >= 0:
            device["values"]["nvlink_traffic"] = tuple(
                [round(each / (now - before_at)) for each in grown]
            )
