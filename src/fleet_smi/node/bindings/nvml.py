"""NVIDIA GPUs through NVML: the only file that talks to the driver's library.

Read-only calls on one long-lived handle. Each call fails alone: what was answered is in
`values`, what was not is in `errors` with the driver's code.
"""

import time
from collections.abc import Callable
from typing import Any

import pynvml

from fleet_smi.errors import DriverMismatch, NotPresent, ReadFailed
from fleet_smi.node.bindings import nvidia_kernel, nvml_queries
from fleet_smi.node.bindings.nvml_processes import PROCESS_KINDS, ProcessListReader
from fleet_smi.node.bindings.nvml_queries import NvmlQuery

LOST_ERRORS = (pynvml.NVML_ERROR_GPU_IS_LOST, pynvml.NVML_ERROR_RESET_REQUIRED)
REINITIALIZE_ERRORS = (pynvml.NVML_ERROR_UNINITIALIZED, pynvml.NVML_ERROR_DRIVER_NOT_LOADED)

_LASTING = (
    pynvml.NVML_ERROR_NOT_SUPPORTED,
    pynvml.NVML_ERROR_NO_PERMISSION,
    pynvml.NVML_ERROR_FUNCTION_NOT_FOUND,
)
_SELDOM_SECONDS = 10.0
_PROGRESS_SECONDS = 0.02
_MOST_DEVICES = 256
_MOST_INSTANCES = 64
ProgressListener = Callable[[dict[Any, Any]], None]
"""Takes what was found so far: the count of devices, and who each is by its index."""

IDENTITY_CALLS: tuple[tuple[str, Callable[[Any], Any]], ...] = (
    ("uuid", pynvml.nvmlDeviceGetUUID),
    ("name", pynvml.nvmlDeviceGetName),
    ("pci", lambda handle: _as_text(pynvml.nvmlDeviceGetPciInfo(handle).busId)),
    ("addressing", pynvml.nvmlDeviceGetAddressingMode),
)


def _as_text(value: Any) -> str:
    return value.decode("utf-8", "replace") if isinstance(value, bytes) else str(value)


def _name(handle: Any, device: dict[str, Any], fields: tuple[str, ...]) -> None:
    for field, call in IDENTITY_CALLS:
        if field not in fields:
            continue
        try:
            device["values"][field] = call(handle)
        except pynvml.NVMLError as error:
            device["errors"][field] = error.value
        except UnicodeDecodeError:
            device["errors"][field] = pynvml.NVML_ERROR_UNKNOWN


def _ask(handle: Any, questions: tuple[NvmlQuery, ...], device: dict[str, Any]) -> None:
    values, errors = device["values"], device["errors"]
    for question in questions:
        if code := question.execute(handle):
            errors[question.field] = code
        else:
            values[question.field] = question.get_value()


def _blank(index: int) -> dict[str, Any]:
    return {"index": index, "values": {}, "errors": {}}


def _asleep(index: int, known: dict[str, Any]) -> dict[str, Any]:
    values = {key: known[key] for key in ("uuid", "name", "pci")}
    return {**_blank(index), "values": values, "asleep": True}


def _pids(devices: list[dict[str, Any]]) -> list[int]:
    parts = [part for device in devices for part in (device, *device.get("instances", ()))]
    lists = (part["processes"] for part in parts if "processes" in part)
    kinds = (found.get(kind, ()) for found in lists for kind in PROCESS_KINDS)
    return sorted({entry[0] for entries in kinds for entry in entries})


class NvmlSession:
    """NVML, initialised once; what cannot change is asked once a device."""

    def __init__(self, root: str, on_progress: ProgressListener) -> None:
        self._root = root
        self._tell = on_progress
        self._told_at = 0.0
        self._count = 0
        self._up = False
        self._versions: dict[str, Any] = {}
        self._kernel = nvidia_kernel.list_devices(root)
        if not (self._kernel and all(device["asleep"] for device in self._kernel)):
            self._start()

    def _start(self) -> None:
        _initialise(self._root)
        self._up = True
        self._versions = _versions()
        self._lists = ProcessListReader(self._versions.get("driver") or "")
        self._identity = nvml_queries.identity_queries()
        self._condition = nvml_queries.state_queries()
        self._seldom = nvml_queries.slow_changing_queries()
        self._traffic = nvml_queries.pcie_throughput_queries()
        self._instance = nvml_queries.mig_instance_queries()
        self._known: dict[int, tuple[Any, dict[str, Any]]] = {}
        self._told_seldom: dict[int, tuple[float, dict[str, Any]]] = {}

    def close(self) -> None:
        if self._up:
            try:
                pynvml.nvmlShutdown()
            except pynvml.NVMLError:
                self._up = False

    def read(self, traffic: bool) -> dict[str, Any]:
        if any(device["may_sleep"] for device in self._kernel):
            self._kernel = nvidia_kernel.list_devices(self._root)
        asleep = [device for device in self._kernel if device["asleep"]]
        if not self._up and len(asleep) < len(self._kernel):
            self._start()
        devices = self._devices_beside(asleep, traffic) if asleep else self._devices(traffic)
        return {
            **self._versions,
            "devices": devices,
            "kernel": self._kernel,
            "pids": _pids(devices),
        }

    def _devices(self, traffic: bool) -> list[dict[str, Any]]:
        by_index = pynvml.nvmlDeviceGetHandleByIndex
        count = min(pynvml.nvmlDeviceGetCount(), _MOST_DEVICES)
        if count != self._count:
            # A device came or went: the numbers of the others have moved.
            self._known.clear()
            self._told_seldom.clear()
            self._count = count
            self._tell({"count": count})
        return [self._device(index, by_index, index, traffic) for index in range(count)]

    def _devices_beside(self, asleep: list[dict[str, Any]], traffic: bool) -> list[dict[str, Any]]:
        # Getting a handle by index would wake every device before it: go by address instead.
        by_address = pynvml.nvmlDeviceGetHandleByPciBusId
        return [
            _asleep(index, known)
            if known in asleep
            else self._device(index, by_address, known["pci"].encode(), traffic)
            for index, known in enumerate(self._kernel)
        ]

    def _device(
        self, index: int, get_handle: Callable[[Any], Any], key: int | bytes, traffic: bool
    ) -> dict[str, Any]:
        device = _blank(index)
        self._tell_progress()
        handle = self._identify(index, get_handle, key, device)
        if handle is None:
            return device
        _ask(handle, self._condition, device)
        self._ask_seldom(handle, device)
        if traffic:
            _ask(handle, self._traffic, device)
        if not any(code in LOST_ERRORS for code in device["errors"].values()):
            device["processes"] = self._lists.read(handle, index)
            if device["values"].get("mig_mode") == 1:
                self._divide(handle, device)
        return device

    def _identify(
        self,
        index: int,
        get_handle: Callable[[Any], Any],
        key: int | bytes,
        device: dict[str, Any],
    ) -> Any | None:
        if index in self._known:
            handle, identity = self._known[index]
            device["values"].update(identity)
            return handle
        try:
            handle = get_handle(key)
        except pynvml.NVMLError as error:
            device["errors"]["handle"] = error.value
            return None
        _name(handle, device, ("uuid", "name", "pci", "addressing"))
        _ask(handle, self._identity, device)
        if "uuid" in device["values"]:
            self._known[index] = (handle, dict(device["values"]))
        self._tell({index: {key: device["values"].get(key) for key in ("pci", "uuid", "name")}})
        return handle

    def _ask_seldom(self, handle: Any, device: dict[str, Any]) -> None:
        """Add what is asked seldom, as it was when it was last asked."""
        now, index = time.monotonic(), device["index"]
        asked_at, told = self._told_seldom.get(index, (0.0, {}))
        if not told or now - asked_at >= _SELDOM_SECONDS:
            told = _blank(index)
            _ask(handle, self._seldom, told)
            # An error that may pass is asked about again at the next look.
            lasting = all(code in _LASTING for code in told["errors"].values())
            self._told_seldom[index] = (now, told if lasting else {})
        device["values"].update(told["values"])
        device["errors"].update(told["errors"])

    def _tell_progress(self) -> None:
        """Say that the driver still answers; each time costs a system call here and there."""
        now = time.monotonic()
        if now - self._told_at >= _PROGRESS_SECONDS:
            self._told_at = now
            self._tell({})

    def _divide(self, handle: Any, device: dict[str, Any]) -> None:
        """Read the MIG instances; what cannot be told is an error, not an empty list."""
        try:
            slots = min(pynvml.nvmlDeviceGetMaxMigDeviceCount(handle), _MOST_INSTANCES)
            device["instances"] = self._instances(handle, slots)
        except pynvml.NVMLError as error:
            device["errors"]["instances"] = error.value

    def _instances(self, handle: Any, slots: int) -> list[dict[str, Any]]:
        found = []
        for index in range(slots):
            try:
                instance = pynvml.nvmlDeviceGetMigDeviceHandleByIndex(handle, index)
            except pynvml.NVMLError_NotFound:
                continue  # the slots of a partly divided GPU are empty
            part = _blank(index)
            _name(instance, part, ("uuid", "name"))
            _ask(instance, self._instance, part)
            part["processes"] = self._lists.read(instance, None)
            found.append(part)
        return found


def _versions() -> dict[str, Any]:
    versions: dict[str, Any] = {}
    for key, call in (
        ("driver", pynvml.nvmlSystemGetDriverVersion),
        ("cuda", pynvml.nvmlSystemGetCudaDriverVersion),
    ):
        try:
            versions[key] = call()
        except (pynvml.NVMLError, UnicodeDecodeError):
            versions[key] = None
    return versions


def _initialise(root: str) -> None:
    try:
        pynvml.nvmlInit()
    except pynvml.NVMLError as error:
        raise _init_error(error, root) from None


def _init_error(error: Any, root: str) -> Exception:
    if error.value == pynvml.NVML_ERROR_LIBRARY_NOT_FOUND:
        return NotPresent("no NVIDIA driver library (libnvidia-ml.so.1)")
    if error.value == pynvml.NVML_ERROR_DRIVER_NOT_LOADED:
        return NotPresent("the NVIDIA kernel module is not loaded")
    if error.value == pynvml.NVML_ERROR_LIB_RM_VERSION_MISMATCH:
        return DriverMismatch(_mismatch_words(root))
    if error.value == pynvml.NVML_ERROR_NO_PERMISSION:
        return ReadFailed("no permission to open /dev/nvidia*: ask for access to the GPU devices")
    return ReadFailed(
        f"NVML does not work: {error}; inside a container this means that it lost its GPU "
        "devices: restart the container"
        if error.value == pynvml.NVML_ERROR_UNKNOWN
        else f"NVML does not work: {error}"
    )


def _mismatch_words(root: str) -> str:
    loaded = nvidia_kernel.module_version(root) or "version unknown"
    library = _library_version() or "version unknown"
    return (
        f"the NVIDIA driver ({loaded}) and its library ({library}) do not match: "
        "reload the driver or reboot; running jobs are not affected"
    )


def _library_version() -> str | None:
    try:
        return _as_text(pynvml.nvmlSystemGetNVMLVersion()).split(".", 1)[1]
    except (pynvml.NVMLError, IndexError):
        return None


class NvmlReader:
    """The driver's library as a subject: a session is kept until the driver wants a new one."""

    def __init__(self) -> None:
        self._session: NvmlSession | None = None
        self.on_progress: ProgressListener = lambda found: None

    def read(self, root: str = "/", traffic: bool = False) -> dict[str, Any]:
        """All that NVML tells now."""
        if self._session is None:
            self._session = NvmlSession(root, self.on_progress)
        try:
            raw = self._session.read(traffic)
        except pynvml.NVMLError as error:
            self._close()
            raise _init_error(error, root) from None
        codes = {code for device in raw["devices"] for code in device["errors"].values()}
        if codes & {*REINITIALIZE_ERRORS, pynvml.NVML_ERROR_LIB_RM_VERSION_MISMATCH}:
            self._close()
        if pynvml.NVML_ERROR_LIB_RM_VERSION_MISMATCH in codes:
            raise DriverMismatch(_mismatch_words(root))
        return raw

    def _close(self) -> None:
        if self._session is not None:
            self._session.close()
            self._session = None
