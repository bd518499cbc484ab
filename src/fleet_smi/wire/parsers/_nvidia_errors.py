"""Classify what nvidia-smi prints when it fails; most of it comes on stdout, like output."""

import re
from collections.abc import Callable

from fleet_smi.errors import CollectError, DriverMismatch, NotPresent, ReadFailed
from fleet_smi.model.pci import normalize_pci_address
from fleet_smi.model.safe_text import sanitize_text

_HANDLE = re.compile(
    r"^[ \t]{0,8}Unable to determine the device handle for GPU\s*(?:\d+:\s*)?"
    r"([0-9a-f]{4,8}:[0-9a-f]{2}:[0-9a-f]{2}\.[0-7])\s*:\s*(.+)$",
    re.IGNORECASE | re.MULTILINE,
)
_LIBRARY = re.compile(r"NVML library version:\s*([\d.]{1,20})")
_KERNEL = re.compile(r"kernel module(?: has)?(?: the)? version:?\s*([\d.]{1,20})", re.IGNORECASE)
_NVML = r"^[ \t]{0,8}Failed to initialize NVML:\s*"

_BY_MESSAGE: tuple[tuple[str, type[CollectError], str], ...] = (
    (
        r"^[ \t]{0,8}NVIDIA-SMI has failed because it couldn't communicate with the NVIDIA driver",
        NotPresent,
        "the NVIDIA driver is not loaded: install it, or load it with modprobe nvidia",
    ),
    (
        _NVML + r"Driver Not Loaded",
        NotPresent,
        "the NVIDIA driver is not loaded: install it, or load it with modprobe nvidia",
    ),
    (
        r"^[ \t]{0,8}No devices (?:were )?found",
        NotPresent,
        "the NVIDIA driver finds no device: none is visible, or it did not start (see dmesg)",
    ),
    (
        r"^[ \t]{0,8}NVIDIA-SMI couldn't find libnvidia-ml\.so|" + _NVML + r"NVML Shared Library",
        NotPresent,
        "the NVIDIA driver's library libnvidia-ml.so is missing: install the whole driver",
    ),
    (
        _NVML + r"GPU access blocked by the operating system",
        ReadFailed,
        "the system blocks access to the GPU: on WSL, run wsl --update and update the driver",
    ),
    (
        _NVML + r"Unknown Error",
        ReadFailed,
        "NVML cannot start (Unknown Error): in a container, it lost its devices; restart it",
    ),
    (
        _NVML + r"Insufficient Permissions|nvml error: insufficient permissions"
        r"|^[ \t]{0,8}NVML: .{0,200}: Insufficient Permissions",
        ReadFailed,
        "insufficient permissions to read the GPU: allow this user /dev/nvidia*",
    ),
    (
        _NVML + r"GPU is lost",
        ReadFailed,
        "a GPU is lost and NVML cannot start: reboot the machine",
    ),
)

# The exit codes of the manual page that name a cause, and 18, which occurs in practice.
_BY_EXIT: dict[int, tuple[type[CollectError], str]] = {
    2: (ReadFailed, "nvidia-smi does not know the options -q -x (exit 2): its driver is too old"),
    4: (ReadFailed, "insufficient permissions to read the GPU: allow this user /dev/nvidia*"),
    6: (NotPresent, "the NVIDIA driver finds no such device (exit 6)"),
    9: (NotPresent, "the NVIDIA driver is not loaded (exit 9): load it with modprobe nvidia"),
    12: (NotPresent, "the NVIDIA driver's library is missing (exit 12): install the whole driver"),
    15: (ReadFailed, "a GPU is lost (exit 15): reboot the machine"),
    18: (
        DriverMismatch,
        "the NVIDIA driver and its library do not match (exit 18): reboot the machine",
    ),
}


def classify_failure(text: str, exit_code: int | None = None) -> CollectError | None:
    """Return the error, with a remedy, that output and exit code stand for; else `None`."""
    text = text[:65_536]
    # A document is no failure, unless messages beside it name devices that it lacks.
    if "<nvidia_smi_log" in text and not _HANDLE.search(text):
        return None
    for recognise in _RECOGNISERS:
        if error := recognise(text):
            return error
    for pattern, kind, message in _BY_MESSAGE:
        if re.search(pattern, text, re.IGNORECASE | re.MULTILINE):
            return kind(message)
    return None if not exit_code else _by_exit(text, exit_code)


def failed_devices(text: str) -> dict[str, str]:
    """Return the devices that nvidia-smi could not open: PCI address -> its message."""
    matches = (_HANDLE.search(line) for line in _unwrap(text[:65_536]).splitlines())
    return {normalize_pci_address(m[1]) or m[1]: _message(m[2]) for m in matches if m}


def _mismatch(text: str) -> CollectError | None:
    if not re.search(r"Driver/library version mismatch|API mismatch:", text, re.IGNORECASE):
        return None
    kernel, library = _KERNEL.search(text), _LIBRARY.search(text)
    driver = kernel[1].rstrip(".") if kernel else "version unknown"
    libraries = library[1].rstrip(".") if library else "version unknown"
    return DriverMismatch(
        f"the NVIDIA driver ({driver}) and its library ({libraries}) do not match: "
        "reload the driver or reboot; running jobs are not affected"
    )


def _handle(text: str) -> CollectError | None:
    failed = failed_devices(text)
    if not failed:
        return None
    devices = ", ".join(f"GPU {pci} ({message})" for pci, message in list(failed.items())[:4])
    if all("permission" in message.lower() for message in failed.values()):
        return ReadFailed(f"the driver does not open {devices}: allow this user /dev/nvidia*")
    return ReadFailed(f"the driver cannot reach {devices}: reboot the machine to recover it")


_RECOGNISERS: tuple[Callable[[str], CollectError | None], ...] = (_mismatch, _handle)


def _by_exit(text: str, exit_code: int) -> CollectError:
    kind, message = _BY_EXIT.get(exit_code, (ReadFailed, ""))
    if message:
        return kind(message)
    first_line = sanitize_text(text.strip().partition("\n")[0], 200) or "it printed nothing"
    return ReadFailed(f"nvidia-smi failed (exit {exit_code}): {first_line}")


def _message(text: str) -> str:
    # "GPU is lost.  Reboot the system to recover this GPU": our own remedy replaces the second.
    return sanitize_text(re.split(r"\.\s", text, maxsplit=1)[0].rstrip(" ."), 200)


def _unwrap(text: str) -> str:
    # Captured from a console of 80 columns, the sentence is broken; the rest starts with a blank.
    return re.sub(r"\r?\n (?=\S)", " ", text)
