"""Run `nvidia-smi`: a fallback for machines on which NVML cannot be loaded."""

import re
import time
from typing import Any

from fleet_smi.errors import CollectError, NotAnswering
from fleet_smi.node.bindings import program
from fleet_smi.node.bindings.program import run_program, too_much_output

_MAX_SECONDS = 3.0
_MAX_DEVICES = 64
_END = "</nvidia_smi_log>"
# One lost GPU makes the whole query fail, with this line instead of XML.
_HANDLE = re.compile(
    r"Unable to determine the device handle for GPU\s*(?:\d+:\s+)?"
    r"([0-9a-f:.]{7,20})\s*: ([^.\r\n]+)",
    re.IGNORECASE,
)
_ATTACHED = re.compile(r"<attached_gpus>(\d{1,4})</attached_gpus>")
_EMPTY: dict[str, Any] = {
    "xml": None,
    "exit_code": 0,
    "kernel_version": None,
    "list": None,
    "parts": [],
    "failed": [],
}


def read(root: str = "/", timeout_seconds: float = _MAX_SECONDS) -> dict[str, Any]:
    """Return what `nvidia-smi -q -x` printed, XML or an error, and `-L` for MIG instances.

    Where one device fails the whole command, or sleeps, the others are read one by one: then
    `xml` is `None`, `parts` has their documents and `failed` the rest, with the driver's error.
    """
    from fleet_smi.node.bindings.nvidia_kernel import list_devices, module_version

    deadline = time.monotonic() + min(timeout_seconds, _MAX_SECONDS)
    devices = list_devices(root)
    # A query of all devices would wake those that sleep.
    if any(device["asleep"] for device in devices):
        return _one_by_one(devices, {}, deadline)
    output, exit_code = _run(("-q", "-x"), deadline)
    lost = {
        _normalized_pci(address): message.strip() for address, message in _HANDLE.findall(output)
    }
    if lost:
        return _one_by_one(devices, lost, deadline) if devices else _by_index(lost, deadline)
    return {
        **_EMPTY,
        "xml": output,
        "exit_code": exit_code,
        "kernel_version": module_version(root),
        "list": _list_output([output], deadline),
    }


def _one_by_one(
    devices: list[dict[str, Any]], lost: dict[str, str], deadline: float
) -> dict[str, Any]:
    parts: list[str] = []
    failed: list[dict[str, Any]] = []
    left = dict(lost)
    for device in devices:
        message = left.pop(_normalized_pci(device["pci"]), None)
        if message is None and not device["asleep"]:
            output = _query_device(device["pci"], deadline)
            if output is not None and _END in output:
                _add_document(output, parts)
                continue
            message = _error_message(output)
        known = {key: device[key] for key in ("pci", "uuid", "name", "asleep")}
        failed.append(_failed(message, **known))
    return _combine(parts, failed, left, deadline)


def _by_index(lost: dict[str, str], deadline: float) -> dict[str, Any]:
    """Read one by one by index, where the kernel lists no devices, until there is none left."""
    parts: list[str] = []
    failed: list[dict[str, Any]] = []
    left = dict(lost)
    seen: set[str] = set()
    attached = 0
    for index in range(_MAX_DEVICES):
        output = _query_device(str(index), deadline)
        if output is not None and _END in output:
            _add_document(output, parts)
            attached = max([attached, *map(int, _ATTACHED.findall(output))])
            continue
        # An index beyond the last may repeat the error of a lost device: that ends the list.
        match = _HANDLE.search(output or "")
        address = match[1] if match and _normalized_pci(match[1]) not in seen else None
        # An error without an address is a device only if the other devices count it as attached.
        if address is None and index >= attached:
            break
        if address is not None:
            seen.add(_normalized_pci(address))
            left.pop(_normalized_pci(address), None)
        failed.append(_failed(_error_message(output), pci=address, index=index))
    return _combine(parts, failed, left, deadline)


def _add_document(document: str, parts: list[str]) -> None:
    parts.append(document)
    if sum(map(len, parts)) > program.MAX_OUTPUT_BYTES:
        raise too_much_output("nvidia-smi")


def _combine(
    parts: list[str], failed: list[dict[str, Any]], left: dict[str, str], deadline: float
) -> dict[str, Any]:
    failed = failed + [_failed(message, pci=address) for address, message in left.items()]
    return {**_EMPTY, "list": _list_output(parts, deadline), "parts": parts, "failed": failed}


def _failed(message: str | None, **known: Any) -> dict[str, Any]:
    """The entry of a device that could not be read; `index` where that is known."""
    nothing = {"pci": None, "uuid": None, "name": None, "asleep": False, "index": None}
    return {**nothing, **known, "message": message}


def _query_device(device: str, deadline: float) -> str | None:
    """Return what is printed for one device; `None` when the deadline passes."""
    if time.monotonic() >= deadline:
        return None
    try:
        return _run(("-q", "-x", "-i", device), deadline)[0]
    except NotAnswering:
        return None


def _error_message(output: str | None) -> str | None:
    """The error message that a device failed with."""
    if output is None:
        return None
    match = _HANDLE.search(output)
    return match[2].strip() if match else output.strip().partition("\n")[0][:200]


def _list_output(documents: list[str], deadline: float) -> str | None:
    """The output of `-L`, the only place with the UUIDs of MIG instances."""
    if not any("<mig_device>" in document for document in documents):
        return None
    try:
        return _run(("-L",), deadline)[0]
    except CollectError:
        return None


def _run(arguments: tuple[str, ...], deadline: float) -> tuple[str, int]:
    """Return what nvidia-smi printed, and its exit code; killed at the deadline."""
    return run_program(("nvidia-smi", *arguments), deadline, "install the NVIDIA driver's tools")


def _normalized_pci(address: str) -> str:
    """Normalise a PCI address: spellings differ in case and in the length of the domain."""
    domain, _, rest = address.lower().partition(":")
    return f"{domain.lstrip('0') or '0'}:{rest}"
