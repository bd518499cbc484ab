"""NVML binding: NVIDIA GPUs through the driver's library, which only `nvml*` call.

Read-only calls on one long-lived session. Each call can fail alone: results are in `values`,
failures in `errors` with the driver's error code.
"""

import time
from collections.abc import Callable
from time import monotonic
from typing import Any

import pynvml

from fleet_smi.errors import DriverMismatch
from fleet_smi.node.bindings import nvidia_kernel, nvml_queries
from fleet_smi.node.bindings.nvml_init import (
    as_text,
    init_error,
    initialize,
    mismatch_message,
    read_versions,
)
from fleet_smi.node.bindings.nvml_nvlink import NvlinkReader
from fleet_smi.node.bindings.nvml_processes import PROCESS_KINDS, ProcessListReader
from fleet_smi.node.bindings.nvml_queries import NvmlQuery

LOST_ERRORS = (pynvml.NVML_ERROR_GPU_IS_LOST, pynvml.NVML_ERROR_RESET_REQUIRED)
REINITIALIZE_ERRORS = (pynvml.NVML_ERROR_UNINITIALIZED, pynvml.NVML_ERROR_DRIVER_NOT_LOADED)

_PERMANENT_ERRORS = (
    pynvml.NVML_ERROR_NOT_SUPPORTED,
    pynvml.NVML_ERROR_NO_PERMISSION,
    pynvml.NVML_ERROR_FUNCTION_NOT_FOUND,
)
_SLOW_CHANGING_SECONDS = 10.0
_PROGRESS_SECONDS = 0.02
_MAX_DEVICES = 256
_MAX_INSTANCES = 64
ProgressListener = Callable[[dict[Any, Any]], None]
"""Receives what was found so far: the number of devices, and the identity of each by index."""

IDENTITY_CALLS: tuple[tuple[str, Callable[[Any], Any]], ...] = (
    ("uuid", pynvml.nvmlDeviceGetUUID),
    ("name", pynvml.nvmlDeviceGetName),
    ("pci", lambda handle: as_text(pynvml.nvmlDeviceGetPciInfo(handle).busId)),
    ("addressing", pynvml.nvmlDeviceGetAddressingMode),
)


def _read_identity(handle: Any, device: dict[str, Any], fields: tuple[str, ...]) -> None:
    for field, call in IDENTITY_CALLS:
        if field not in fields:
            continue
        try:
            device["values"][field] = call(handle)
        except pynvml.NVMLError as error:
            device["errors"][field] = error.value
        except UnicodeDecodeError:  # pynvml decodes names strictly
            device["errors"][field] = pynvml.NVML_ERROR_UNKNOWN


def _run_queries(
    handle: Any,
    queries: tuple[NvmlQuery, ...],
    device: dict[str, Any],
    report_progress: Callable[[], None],
) -> None:
    values, errors = device["values"], device["errors"]
    due = monotonic() + _PROGRESS_SECONDS
    for query in queries:
        # On a slow driver one call may take as long as all of them should.
        if (now := monotonic()) > due:
            report_progress()
            due = now + _PROGRESS_SECONDS
        # Here, not in a method: of the hundred calls of a sample each would cost a third more.
        code = query.function(handle, *query.arguments)
        if code:
            code = query.retry_older(handle, code)
        if code:
            errors[query.field] = code
        else:
            # Now: the buffer behind it is shared by all devices.
            values[query.field] = query.get_value()


def _empty_device(index: int) -> dict[str, Any]:
    return {"index": index, "values": {}, "errors": {}}


def _sleeping_device(index: int, known: dict[str, Any]) -> dict[str, Any]:
    values = {key: known[key] for key in ("uuid", "name", "pci")}
    return {**_empty_device(index), "values": values, "asleep": True}


def _pids(devices: list[dict[str, Any]]) -> list[int]:
    parts = [part for device in devices for part in (device, *device.get("instances", ()))]
    lists = (part["processes"] for part in parts if "processes" in part)
    kinds = (found.get(kind, ()) for found in lists for kind in PROCESS_KINDS)
    return sorted({entry[0] for entries in kinds for entry in entries})


class NvmlSession:
    """An initialised NVML with cached handles; what cannot change is read once per device."""

    def __init__(self, root: str, on_progress: ProgressListener) -> None:
        self._root = root
        self._on_progress = on_progress
        self._progress_at = 0.0
        self._count = 0
        self._initialized = False
        self._versions: dict[str, Any] = {}
        self._kernel = nvidia_kernel.list_devices(root)
        # Where every GPU sleeps, NVML is not even initialised, as that would wake them.
        if not (self._kernel and all(device["asleep"] for device in self._kernel)):
            self._start()

    def _start(self) -> None:
        no_persistence = not nvidia_kernel.has_persistence_daemon(self._root)
        hint = "; without persistence mode that can take 30 s and more" if no_persistence else ""
        step = f"the NVIDIA driver is being initialised{hint}"
        self._on_progress({"initialising": True, "step": step, "no_persistence": no_persistence})
        initialize(self._root)
        self._on_progress({"initialising": False, "step": "the NVIDIA driver"})
        self._initialized = True
        self._versions = read_versions()
        self._process_lists = ProcessListReader(self._versions.get("driver") or "")
        self._identity_queries = nvml_queries.identity_queries()
        self._state_queries = nvml_queries.state_queries()
        self._slow_changing_queries = nvml_queries.slow_changing_queries()
        self._throughput_queries = nvml_queries.pcie_throughput_queries()
        self._instance_queries = nvml_queries.mig_instance_queries()
        self._nvlink = NvlinkReader()
        self._handles: dict[int, tuple[Any, dict[str, Any]]] = {}
        self._slow_changing_cache: dict[int, tuple[float, dict[str, Any]]] = {}

    def close(self) -> None:
        if self._initialized:
            try:
                pynvml.nvmlShutdown()
            except pynvml.NVMLError:
                self._initialized = False

    def read(self, traffic: bool) -> dict[str, Any]:
        # On a server no GPU may sleep, and the kernel's list is read only once.
        if any(device["may_sleep"] for device in self._kernel):
            self._kernel = nvidia_kernel.list_devices(self._root)
        asleep = [device for device in self._kernel if device["asleep"]]
        if not self._initialized and len(asleep) < len(self._kernel):
            self._start()
        devices = self._awake_devices(asleep, traffic) if asleep else self._devices(traffic)
        return {
            **self._versions,
            "devices": devices,
            "kernel": self._kernel,
            "pids": _pids(devices),
        }

    def _devices(self, traffic: bool) -> list[dict[str, Any]]:
        by_index = pynvml.nvmlDeviceGetHandleByIndex
        count = min(pynvml.nvmlDeviceGetCount(), _MAX_DEVICES)
        if count != self._count:
            # A device was added or removed: the indexes of the others may have changed.
            self._handles.clear()
            self._slow_changing_cache.clear()
            self._nvlink.forget()
            self._count = count
            self._on_progress({"count": count})
        return [self._device(index, by_index, index, traffic) for index in range(count)]

    def _awake_devices(self, asleep: list[dict[str, Any]], traffic: bool) -> list[dict[str, Any]]:
        # NVML wakes every lower-numbered device to get a handle by index; by address it does not.
        by_address = pynvml.nvmlDeviceGetHandleByPciBusId
        return [
            _sleeping_device(index, known)
            if known in asleep
            else self._device(index, by_address, known["pci"].encode(), traffic)
            for index, known in enumerate(self._kernel)
        ]

    def _device(
        self, index: int, get_handle: Callable[[Any], Any], key: int | bytes, traffic: bool
    ) -> dict[str, Any]:
        device = _empty_device(index)
        self._report_progress()
        handle = self._identify(index, get_handle, key, device)
        if handle is None:
            return device
        _run_queries(handle, self._state_queries, device, self._report_progress)
        self._read_slow_changing(handle, device)
        if traffic:
            _run_queries(handle, self._throughput_queries, device, self._report_progress)
        # A lost device fails every further call as well.
        if not any(code in LOST_ERRORS for code in device["errors"].values()):
            device["processes"] = self._process_lists.read(handle, index)
            if device["values"].get("mig_mode") == 1:
                self._read_instances(handle, device)
        return device

    def _identify(
        self,
        index: int,
        get_handle: Callable[[Any], Any],
        key: int | bytes,
        device: dict[str, Any],
    ) -> Any | None:
        if index in self._handles:
            handle, identity = self._handles[index]
            device["values"].update(identity)
            return handle
        # The first handle of a device initialises it: without persistence mode that takes seconds.
        step = f"the NVIDIA driver opens GPU {index}"
        self._on_progress({"initialising": True, "step": step})
        try:
            handle = get_handle(key)
        except pynvml.NVMLError as error:
            self._on_progress({"initialising": False, "step": "the NVIDIA driver"})
            device["errors"]["handle"] = error.value
            return None
        _read_identity(handle, device, ("uuid", "name", "pci", "addressing"))
        self._on_progress({"initialising": False, "step": f"the NVIDIA driver reads GPU {index}"})
        _run_queries(handle, self._identity_queries, device, self._report_progress)
        # Without its UUID the identity is not cached, but read again at the next sample.
        if "uuid" in device["values"]:
            self._handles[index] = (handle, dict(device["values"]))
        self._on_progress(
            {index: {key: device["values"].get(key) for key in ("pci", "uuid", "name")}}
        )
        return handle

    def _read_slow_changing(self, handle: Any, device: dict[str, Any]) -> None:
        """Add the slowly changing values, from a cache of some seconds."""
        now, index = time.monotonic(), device["index"]
        read_at, cached = self._slow_changing_cache.get(index, (0.0, {}))
        if not cached or now - read_at >= _SLOW_CHANGING_SECONDS:
            cached = _empty_device(index)
            _run_queries(handle, self._slow_changing_queries, cached, self._report_progress)
            self._nvlink.read(handle, cached, now, self._report_progress)
            # An error that may pass is not cached: it is tried again at the next sample.
            cacheable = all(code in _PERMANENT_ERRORS for code in cached["errors"].values())
            self._slow_changing_cache[index] = (now, cached if cacheable else {})
        device["values"].update(cached["values"])
        device["errors"].update(cached["errors"])

    def _report_progress(self) -> None:
        """Report that the driver still answers; rate-limited, as each costs two system calls."""
        now = time.monotonic()
        if now - self._progress_at >= _PROGRESS_SECONDS:
            self._progress_at = now
            self._on_progress({})

    def _read_instances(self, handle: Any, device: dict[str, Any]) -> None:
        """Read the MIG instances; a failure is an error, not an empty list."""
        try:
            slots = min(pynvml.nvmlDeviceGetMaxMigDeviceCount(handle), _MAX_INSTANCES)
            device["instances"] = self._instances(handle, slots)
        except pynvml.NVMLError as error:
            device["errors"]["instances"] = error.value

    def _instances(self, handle: Any, slots: int) -> list[dict[str, Any]]:
        found = []
        for index in range(slots):
            try:
                instance = pynvml.nvmlDeviceGetMigDeviceHandleByIndex(handle, index)
            except pynvml.NVMLError_NotFound:
                continue  # an unused slot of a partly divided GPU
            part = _empty_device(index)
            _read_identity(instance, part, ("uuid", "name"))
            _run_queries(instance, self._instance_queries, part, self._report_progress)
            part["processes"] = self._process_lists.read(instance, None)
            found.append(part)
        return found


class NvmlReader:
    """Reads through one NVML session, which is reopened when the driver was restarted."""

    def __init__(self) -> None:
        self._session: NvmlSession | None = None
        self.on_progress: ProgressListener = lambda found: None

    def read(self, root: str = "/", traffic: bool = False) -> dict[str, Any]:
        """Read every device; `traffic` adds PCIe throughput, which takes 20 ms per GPU.

        Raise a `CollectError` where NVML cannot be used: `NotPresent`, `DriverMismatch` or another.
        """
        if self._session is None:
            self._session = NvmlSession(root, self.on_progress)
        try:
            raw = self._session.read(traffic)
        except pynvml.NVMLError as error:
            self._close()
            raise init_error(error, root) from None
        # After a restart of the driver the calls fail one by one, not the whole read.
        codes = {code for device in raw["devices"] for code in device["errors"].values()}
        if codes & {*REINITIALIZE_ERRORS, pynvml.NVML_ERROR_LIB_RM_VERSION_MISMATCH}:
            self._close()
        if pynvml.NVML_ERROR_LIB_RM_VERSION_MISMATCH in codes:
            raise DriverMismatch(mismatch_message(root))
        return raw

    def _close(self) -> None:
        if self._session is not None:
            self._session.close()
            self._session = None
