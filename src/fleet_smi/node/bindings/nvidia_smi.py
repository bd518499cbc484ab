"""`nvidia-smi`, run as a program: for machines on which NVML cannot be loaded."""

import re
import time
from typing import Any

from fleet_smi.errors import CollectError, NotAnswering
from fleet_smi.node.bindings import program
from fleet_smi.node.bindings.program import run_program, too_much_output

_SECONDS = 3.0
_MOST_DEVICES = 64
_END = "</nvidia_smi_log>"
_HANDLE = re.compile(
    r"Unable to determine the device handle for GPU\s*(?:\d+:\s+)?"
    r"([0-9a-f:.]{7,20})\s*: ([^.\r\n]+)",
    re.IGNORECASE,
)
_ATTACHED = re.compile(r"<attached_gpus>(\d{1,4})</attached_gpus>")
_NOTHING: dict[str, Any] = {
    "xml": None,
    "exit_code": 0,
    "kernel_version": None,
    "list": None,
    "parts": [],
    "failed": [],
}


def read(root: str = "/", timeout_seconds: float = _SECONDS) -> dict[str, Any]:
    """What `nvidia-smi -q -x` printed, be it XML or why not, and `-L` for MIG instances.

    Where one device fails the whole command, or sleeps, the others are asked one by one: then
    `xml` is `None`, `parts` has their documents and `failed` the rest, with the driver's words.
    """
    from fleet_smi.node.bindings.nvidia_kernel import list_devices, module_version

    deadline = time.monotonic() + min(timeout_seconds, _SECONDS)
    devices = list_devices(root)
    if any(device["asleep"] for device in devices):
        return _one_by_one(devices, {}, deadline)
    output, exit_code = _run(("-q", "-x"), deadline)
    lost = {_place(address): words.strip() for address, words in _HANDLE.findall(output)}
    if lost:
        return _one_by_one(devices, lost, deadline) if devices else _by_index(lost, deadline)
    return {
        **_NOTHING,
        "xml": output,
        "exit_code": exit_code,
        "kernel_version": module_version(root),
        "list": _listing([output], deadline),
    }


def _one_by_one(
    devices: list[dict[str, Any]], lost: dict[str, str], deadline: float
) -> dict[str, Any]:
    parts: list[str] = []
    failed: list[dict[str, Any]] = []
    left = dict(lost)
    for device in devices:
        words = left.pop(_place(device["pci"]), None)
        if words is None and not device["asleep"]:
            output = _ask(device["pci"], deadline)
            if output is not None and _END in output:
                _keep(output, parts)
                continue
            words = _words(output)
        known = {key: device[key] for key in ("pci", "uuid", "name", "asleep")}
        failed.append(_failed(words, **known))
    return _joined(parts, failed, left, deadline)


def _by_index(lost: dict[str, str], deadline: float) -> dict[str, Any]:
    """As one by one, where nothing lists the devices: until the program knows no further one."""
    parts: list[str] = []
    failed: list[dict[str, Any]] = []
    left = dict(lost)
    seen: set[str] = set()
    attached = 0
    for index in range(_MOST_DEVICES):
        output = _ask(str(index), deadline)
        if output is not None and _END in output:
            _keep(output, parts)
            attached = max([attached, *map(int, _ATTACHED.findall(output))])
            continue
        match = _HANDLE.search(output or "")
        address = match[1] if match and _place(match[1]) not in seen else None
        # What names no device of its own is one only if the others count it.
        if address is None and index >= attached:
            break
        if address is not None:
            seen.add(_place(address))
            left.pop(_place(address), None)
        failed.append(_failed(_words(output), pci=address, index=index))
    return _joined(parts, failed, left, deadline)


def _keep(document: str, parts: list[str]) -> None:
    parts.append(document)
    if sum(map(len, parts)) > program.MAX_OUTPUT_BYTES:
        raise too_much_output("nvidia-smi")


def _joined(
    parts: list[str], failed: list[dict[str, Any]], left: dict[str, str], deadline: float
) -> dict[str, Any]:
    failed = failed + [_failed(words, pci=address) for address, words in left.items()]
    return {**_NOTHING, "list": _listing(parts, deadline), "parts": parts, "failed": failed}


def _failed(words: str | None, **known: Any) -> dict[str, Any]:
    """A device that told nothing; `index` is its place, where that is known."""
    nothing = {"pci": None, "uuid": None, "name": None, "asleep": False, "index": None}
    return {**nothing, **known, "message": words}


def _ask(device: str, deadline: float) -> str | None:
    """What is printed for one device; nothing when there is no answer in time."""
    if time.monotonic() >= deadline:
        return None
    try:
        return _run(("-q", "-x", "-i", device), deadline)[0]
    except NotAnswering:
        return None


def _words(output: str | None) -> str | None:
    """The words a device failed with."""
    if output is None:
        return None
    match = _HANDLE.search(output)
    return match[2].strip() if match else output.strip().partition("\n")[0][:200]


def _listing(documents: list[str], deadline: float) -> str | None:
    """The text of `-L`: the only place where the UUIDs of MIG instances are told."""
    if not any("<mig_device>" in document for document in documents):
        return None
    try:
        return _run(("-L",), deadline)[0]
    except CollectError:
        return None


def _run(arguments: tuple[str, ...], deadline: float) -> tuple[str, int]:
    """Return what nvidia-smi printed, and its exit code; killed at the deadline."""
    return run_program(("nvidia-smi", *arguments), deadline, "install the NVIDIA driver's tools")


def _place(address: str) -> str:
    """A PCI address without what spellings differ in: case, and the length of the domain."""
    domain, _, rest = address.lower().partition(":")
    return f"{domain.lstrip('0') or '0'}:{rest}"
