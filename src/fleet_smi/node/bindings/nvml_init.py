"""NVML's initialisation: versions, and errors that say why the driver cannot be used."""

from typing import Any

import pynvml

from fleet_smi.errors import DriverMismatch, NotPresent, ReadFailed
from fleet_smi.node.bindings import nvidia_kernel


def as_text(value: Any) -> str:
    """Decode what pynvml returned as text in one version and as bytes in another."""
    return value.decode("utf-8", "replace") if isinstance(value, bytes) else str(value)


def read_versions() -> dict[str, Any]:
    """The versions of the driver and of CUDA; `None` where one cannot be read."""
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


def initialize(root: str) -> None:
    """Initialise NVML; raise the error that says why it does not work."""
    try:
        pynvml.nvmlInit()
    except pynvml.NVMLError as error:
        raise init_error(error, root) from None


def init_error(error: Any, root: str) -> Exception:
    """Translate an NVML error that concerns the whole driver."""
    if error.value == pynvml.NVML_ERROR_LIBRARY_NOT_FOUND:
        return NotPresent("no NVIDIA driver library (libnvidia-ml.so.1)")
    if error.value == pynvml.NVML_ERROR_DRIVER_NOT_LOADED:
        return NotPresent("the NVIDIA kernel module is not loaded")
    if error.value == pynvml.NVML_ERROR_LIB_RM_VERSION_MISMATCH:
        return DriverMismatch(mismatch_message(root))
    if error.value == pynvml.NVML_ERROR_NO_PERMISSION:
        return ReadFailed("no permission to open /dev/nvidia*: ask for access to the GPU devices")
    return ReadFailed(
        f"NVML does not work: {error}; inside a container this means that it lost its GPU "
        "devices: restart the container"
        if error.value == pynvml.NVML_ERROR_UNKNOWN
        else f"NVML does not work: {error}"
    )


def mismatch_message(root: str) -> str:
    """Say which versions of kernel module and library do not match."""
    loaded = nvidia_kernel.module_version(root) or "version unknown"
    library = _library_version() or "version unknown"
    return (
        f"the NVIDIA driver ({loaded}) and its library ({library}) do not match: "
        "reload the driver or reboot; running jobs are not affected"
    )


def _library_version() -> str | None:
    # The driver's version follows a first number for the CUDA release: 12.535.104.05.
    try:
        return as_text(pynvml.nvmlSystemGetNVMLVersion()).split(".", 1)[1]
    except (pynvml.NVMLError, IndexError):
        return None
