"""What nvidia-smi prints when it fails, by name: most of it comes on stdout, like an answer."""

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
_FIELD = re.compile(
    r'^[ \t]{0,8}Field "([^"\n]{1,200})" is not a valid field to query', re.MULTILINE
)
_LIBRARY = re.compile(r"NVML library version:\s*([\d.]{1,20})")
_KERNEL = re.compile(r"kernel module(?: has)?(?: the)? version:?\s*([\d.]{1,20})", re.IGNORECASE)
_NVML = r"^[ \t]{0,8}Failed to initialize NVML:\s*"

_BY_WORDS: tuple[tuple[str, type[CollectError], str], ...] = (
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

# Those of the manual page that name a cause, and 18, which was seen.
_BY_EXIT: dict[int, tuple[type[CollectError], str]] = {
    2: (ReadFailed, "nvidia-smi does not know what it was asked (exit 2): its driver is too old"),
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
    """The error that `text` and the exit code name, with what to do; `None` when they name none."""
    text = text[:65_536]
    if "<nvidia_smi_log" in text and not _HANDLE.search(text):
        return None
    for recognise in _RECOGNISERS:
        if error := recognise(text):
            return error
    for pattern, kind, message in _BY_WORDS:
        if re.search(pattern, text, re.IGNORECASE | re.MULTILINE):
            return kind(message)
    return None if not exit_code else _by_exit(text, exit_code)


def failed_devices(text: str) -> dict[str, str]:
    """The devices that nvidia-smi could not get hold of, by PCI address, and its words."""
    found = (_HANDLE.search(part) for part in _unwrapped(text[:65_536]).splitlines())
    return {normalize_pci_address(m[1]) or m[1]: _words(m[2]) for m in found if m}


def invalid_field(text: str) -> str | None:
    """The field that this nvidia-smi does not know, when `text` names one."""
    match = _FIELD.search(text[:65_536])
    return None if match is None else match[1]


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
    told = ", ".join(f"GPU {pci} ({words})" for pci, words in list(failed.items())[:4])
    if all("permission" in words.lower() for words in failed.values()):
        return ReadFailed(f"the driver does not open {told}: allow this user /dev/nvidia*")
    return ReadFailed(f"the driver cannot reach {told}: reboot the machine to recover it")


def _field(text: str) -> CollectError | None:
    field = invalid_field(text)
    if field is None:
        return None
    return ReadFailed(f"this nvidia-smi has no field {sanitize_text(field, 80)!r}: ask without it")


_RECOGNISERS: tuple[Callable[[str], CollectError | None], ...] = (_mismatch, _handle, _field)


def _by_exit(text: str, exit_code: int) -> CollectError:
    kind, message = _BY_EXIT.get(exit_code, (ReadFailed, ""))
    if message:
        return kind(message)
    said = sanitize_text(text.strip().partition("\n")[0], 200) or "it printed nothing"
    return ReadFailed(f"nvidia-smi failed (exit {exit_code}): {said}")


def _words(said: str) -> str:
    # "GPU is lost.  Reboot the system to recover this GPU": the remedy is told apart.
    return sanitize_text(re.split(r"\.\s", said, maxsplit=1)[0].rstrip(" ."), 200)


def _unwrapped(text: str) -> str:
    # A console of 80 columns breaks the sentence: the rest starts with one blank.
    return re.sub(r"\r?\n (?=\S)", " ", text)
