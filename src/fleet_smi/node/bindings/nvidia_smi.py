"""`nvidia-smi`, run as a program: for machines on which NVML cannot be loaded."""

import os
import re
import time
from typing import TYPE_CHECKING, Any

from fleet_smi.errors import CollectError, NotAnswering, NotPresent, ReadFailed

if TYPE_CHECKING:
    import subprocess

_SECONDS = 3.0
_KILL_GRACE_SECONDS = 0.2
_LARGEST = 16 * 2**20
_END = "</nvidia_smi_log>"
_HANDLE = re.compile(
    r"Unable to determine the device handle for GPU\s*([0-9a-f:.]{7,20})\s*: ([^.\r\n]+)",
    re.IGNORECASE,
)
_LISTED = re.compile(r"^GPU \d+: (.*) \(UUID: (\S+)\)", re.MULTILINE)
_NOTHING: dict[str, Any] = {
    "xml": None,
    "exit_code": 0,
    "kernel_version": None,
    "list": None,
    "parts": [],
    "failed": [],
}

_stuck: list[tuple["subprocess.Popen[bytes]", float]] = []
"""Programs that could not be killed, and when they were started: no other is started beside."""


def read(root: str = "/", seconds: float = _SECONDS) -> dict[str, Any]:
    """What `nvidia-smi -q -x` printed, be it XML or why not, and `-L` for MIG instances.

    Where one device fails the whole command, or sleeps, the others are asked one by one: then
    `xml` is `None`, `parts` has their documents and `failed` the rest, with the driver's words.
    """
    from fleet_smi.node.bindings.nvidia_kernel import inventory, module_version

    deadline = time.monotonic() + min(seconds, _SECONDS)
    devices = inventory(root)
    if any(device["asleep"] for device in devices):
        return _one_by_one(devices, {}, deadline)
    output, exit_code = _run(("-q", "-x"), deadline)
    lost = {_place(address): words.strip() for address, words in _HANDLE.findall(output)}
    if lost:
        return _one_by_one(devices or _listed(deadline), lost, deadline)
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
        words = left.pop(_place(device["pci"] or ""), None)
        if words is None and not device["asleep"]:
            part, words = _ask(device["pci"] or device["uuid"], deadline)
            if part is not None:
                parts.append(part)
                continue
        failed.append({key: device[key] for key in ("pci", "uuid", "name", "asleep")})
        failed[-1]["words"] = words
    for address, words in left.items():
        failed.append({"pci": address, "uuid": None, "name": None, "asleep": False})
        failed[-1]["words"] = words
    return {**_NOTHING, "list": _listing(parts, deadline), "parts": parts, "failed": failed}


def _ask(device: str, deadline: float) -> tuple[str | None, str | None]:
    """One device's document, or the words it failed with; neither when it did not answer."""
    try:
        output, _ = _run(("-q", "-x", "-i", device), deadline)
    except NotAnswering:
        return None, None
    if _END in output:
        return output, None
    match = _HANDLE.search(output)
    return None, match[2].strip() if match else output.strip().partition("\n")[0][:200]


def _listed(deadline: float) -> list[dict[str, Any]]:
    """The devices that `-L` still names, where the kernel does not list them."""
    output, _ = _run(("-L",), deadline)
    return [
        {"pci": None, "uuid": uuid, "name": name, "asleep": False}
        for name, uuid in _LISTED.findall(output)
    ]


def _listing(documents: list[str], deadline: float) -> str | None:
    """The text of `-L`: the only place where the UUIDs of MIG instances are told."""
    if not any("<mig_device>" in document for document in documents):
        return None
    try:
        return _run(("-L",), deadline)[0]
    except CollectError:
        return None


def _run(arguments: tuple[str, ...], deadline: float) -> tuple[str, int]:
    """What nvidia-smi printed, and its exit code; killed at the deadline."""
    import subprocess

    _refuse_while_stuck()
    try:
        child = subprocess.Popen(
            ["nvidia-smi", *arguments],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env={**os.environ, "LC_ALL": "C"},
            start_new_session=True,
        )
    except FileNotFoundError:
        raise NotPresent("no nvidia-smi on PATH: install the NVIDIA driver's tools") from None
    except OSError as error:
        raise ReadFailed(f"nvidia-smi cannot be run: {error.strerror}") from None
    try:
        output, complaint = child.communicate(timeout=max(0.0, deadline - time.monotonic()))
    except subprocess.TimeoutExpired:
        raise _ended(child) from None
    if len(output) > _LARGEST:
        raise ReadFailed(f"nvidia-smi printed more than {_LARGEST >> 20} MiB")
    # A process name may be any bytes.
    text = (output if output.strip() else complaint).decode("utf-8", errors="replace")
    return text, child.returncode


def _ended(child: "subprocess.Popen[bytes]") -> NotAnswering:
    """Kill what did not answer, without waiting for ever for it to die."""
    import signal
    import subprocess

    since = time.time() - _SECONDS
    try:
        os.killpg(child.pid, signal.SIGKILL)
    except OSError:
        child.kill()
    for pipe in (child.stdout, child.stderr):
        if pipe is not None:
            pipe.close()
    try:
        child.wait(_KILL_GRACE_SECONDS)
    except subprocess.TimeoutExpired:
        _stuck.append((child, since))
        return NotAnswering(
            f"nvidia-smi (process {child.pid}) hangs in the driver and cannot be killed: "
            "see dmesg; a reboot is likely needed",
            since,
        )
    return NotAnswering("nvidia-smi did not answer in time: see dmesg", since)


def _refuse_while_stuck() -> None:
    _stuck[:] = [(child, since) for child, since in _stuck if child.poll() is None]
    for child, since in _stuck:
        raise NotAnswering(
            f"an earlier nvidia-smi (process {child.pid}) still hangs in the driver: "
            "see dmesg; a reboot is likely needed",
            since,
        )


def _place(address: str) -> str:
    """A PCI address without what spellings differ in: case, and the length of the domain."""
    domain, _, rest = address.lower().partition(":")
    return f"{domain.lstrip('0') or '0'}:{rest}"
