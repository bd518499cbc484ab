"""`nvidia-smi`, run as a program: for machines on which NVML cannot be loaded."""

import os
import re
import select
import time
from typing import TYPE_CHECKING, Any

from fleet_smi.errors import CollectError, NotAnswering, NotPresent, ReadFailed

if TYPE_CHECKING:
    import subprocess

_SECONDS = 3.0
_KILL_GRACE_SECONDS = 0.2
_LARGEST = 16 * 2**20
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

_stuck: list[tuple["subprocess.Popen[bytes]", float]] = []
"""Programs that could not be killed, and when they were started: no other is started beside."""


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
    if sum(map(len, parts)) > _LARGEST:
        raise _too_much()


def _joined(
    parts: list[str], failed: list[dict[str, Any]], left: dict[str, str], deadline: float
) -> dict[str, Any]:
    failed = failed + [_failed(words, pci=address) for address, words in left.items()]
    return {**_NOTHING, "list": _listing(parts, deadline), "parts": parts, "failed": failed}


def _failed(words: str | None, **known: Any) -> dict[str, Any]:
    """A device that told nothing; `index` is its place, where that is known."""
    nothing = {"pci": None, "uuid": None, "name": None, "asleep": False, "index": None}
    return {**nothing, **known, "words": words}


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
        output, complaint = _printed(child, deadline)
        child.wait(max(0.0, deadline - time.monotonic()))
    except (subprocess.TimeoutExpired, TimeoutError):
        raise _ended(child) from None
    except ReadFailed as error:
        raise _ended(child, error) from None
    # A process name may be any bytes.
    text = (output if output.strip() else complaint).decode("utf-8", errors="replace")
    return text, child.returncode


def _printed(child: "subprocess.Popen[bytes]", deadline: float) -> tuple[bytes, bytes]:
    """All that the program prints until it closes its output and its complaints."""
    pipes = [pipe for pipe in (child.stdout, child.stderr) if pipe is not None]
    said = {pipe.fileno(): bytearray() for pipe in pipes}
    try:
        _listen(said, deadline)
    finally:
        for pipe in pipes:
            pipe.close()
    output, complaint = map(bytes, said.values())
    return output, complaint


def _listen(said: dict[int, bytearray], deadline: float) -> None:
    """Read from each until all are closed; never much more than is allowed."""
    still_open = set(said)
    poll = select.poll()
    for pipe in said:
        poll.register(pipe, select.POLLIN)
    while still_open:
        left = deadline - time.monotonic()
        if left <= 0:
            raise TimeoutError
        for pipe, _ in poll.poll(left * 1000):
            some = os.read(pipe, 65536)
            said[pipe] += some
            if not some:
                poll.unregister(pipe)
                still_open.remove(pipe)
        if sum(map(len, said.values())) > _LARGEST:
            raise _too_much()


def _too_much() -> ReadFailed:
    return ReadFailed(f"nvidia-smi printed more than {_LARGEST >> 20} MiB")


def _ended(child: "subprocess.Popen[bytes]", why: CollectError | None = None) -> CollectError:
    """Kill what did not answer, or not as it should, without waiting for ever for it to die."""
    import signal
    import subprocess

    since = time.time() - _SECONDS
    try:
        os.killpg(child.pid, signal.SIGKILL)
    except OSError:
        child.kill()
    try:
        child.wait(_KILL_GRACE_SECONDS)
    except subprocess.TimeoutExpired:
        _stuck.append((child, since))
        return NotAnswering(
            f"nvidia-smi (process {child.pid}) hangs in the driver and cannot be killed: "
            "see dmesg; a reboot is likely needed",
            since,
        )
    return why or NotAnswering("nvidia-smi did not answer in time: see dmesg", since)


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
