"""Parse NVIDIA GPUs in the output of the ssh script: `nvidia-smi -q -x` and the kernel list."""

from typing import Any

from msgspec.structs import replace

from fleet_smi.errors import CollectError, NotAnswering, NotPresent
from fleet_smi.model.merge import fault_from_error
from fleet_smi.model.pci import normalize_pci_address
from fleet_smi.model.safe_text import sanitize_text
from fleet_smi.model.snapshot import Gpu
from fleet_smi.wire.parsers._remote_sections import ProgramCall, ScriptOutput
from fleet_smi.wire.parsers.nvidia_smi import NvidiaSmiReading, failed_devices
from fleet_smi.wire.parsers.nvidia_smi_output import parse_nvidia_smi
from fleet_smi.wire.program_output import excerpt

_END = "</nvidia_smi_log>"
_MAX_DEVICES = 1024

DeviceRecord = dict[str, Any]


def parse_nvidia_gpus(output: ScriptOutput) -> tuple[NvidiaSmiReading, CollectError | None]:
    """Return the GPUs and the error, if any; with an error, only their identity is known."""
    devices = _devices(output.text("devices"))
    try:
        return _reading(output, devices), None
    except CollectError as error:
        version = sanitize_text(output.text("kernel_version"), 64) or None
        return NvidiaSmiReading(gpus=_identities(devices, error), driver_version=version), error


def _reading(output: ScriptOutput, devices: list[DeviceRecord]) -> NvidiaSmiReading:
    if "devices" not in output:
        raise NotPresent("no nvidia-smi on PATH: install the NVIDIA driver's tools, or fleet-smi")
    if "hangs" in output:
        raise NotAnswering("an earlier nvidia-smi still hangs in the driver: see dmesg")
    calls = output.calls("nvidia_smi")
    # The script queries devices one by one where one of them sleeps or is lost.
    if any(call.detail for call in calls) or any(device["asleep"] for device in devices):
        return parse_nvidia_smi(_raw(output, **_one_by_one(calls, devices)))
    if not calls or calls[0].timed_out:
        raise NotAnswering("nvidia-smi did not answer in time: see dmesg")
    return parse_nvidia_smi(_raw(output, xml=calls[0].text, exit_code=calls[0].exit_code))


def _raw(output: ScriptOutput, **printed: Any) -> dict[str, Any]:
    """Return what was printed, in the form of the local binding `nvidia_smi`."""
    whole_machine = {
        "kernel_version": output.text("kernel_version") or None,
        "list": output.text("list") or None,
    }
    return {"xml": None, "exit_code": None, "parts": [], "failed": [], **whole_machine, **printed}


def _one_by_one(calls: list[ProgramCall], devices: list[DeviceRecord]) -> dict[str, Any]:
    """Return the XML documents of the devices that have one, and what is known of the others."""
    by_address = {call.detail: call for call in calls if call.detail}
    lost = failed_devices("\n".join(call.text for call in calls))
    failed = [
        {
            **device,
            "message": lost.pop(device["pci"], None) or _message(by_address.get(device["address"])),
        }
        for device in devices
        if not _has_document(by_address.get(device["address"]))
    ]
    # Left over are devices that the kernel does not list, known by nvidia-smi's message alone.
    failed += [{**_device(pci), "message": message} for pci, message in lost.items()]
    documents = [call.text for call in by_address.values() if _has_document(call)]
    return {"parts": documents, "failed": failed}


def _has_document(call: ProgramCall | None) -> bool:
    return call is not None and _END in call.text


def _message(call: ProgramCall | None) -> str | None:
    return None if call is None or call.timed_out else excerpt(call.text)


def _device(address: str) -> DeviceRecord:
    return {
        "address": address,
        "pci": normalize_pci_address(address),
        "uuid": None,
        "name": None,
        "asleep": False,
        "index": None,
        "message": None,
    }


def _devices(text: str) -> list[DeviceRecord]:
    """Return the devices that the kernel lists: their identity, and whether they sleep."""
    devices: list[DeviceRecord] = []
    for line in text.splitlines():
        key, _, value = (part.strip() for part in line.partition(":"))
        if key == "device" and len(devices) < _MAX_DEVICES:
            devices.append(_device(value))
        elif key == "state" and devices:
            devices[-1]["asleep"] = value == "suspended"
        elif key == "Model" and devices:
            devices[-1]["name"] = value
        # The kernel writes question marks until the device has been opened once.
        elif key == "GPU UUID" and devices and "?" not in value:
            devices[-1]["uuid"] = value
    return devices


def _identities(devices: list[DeviceRecord], error: CollectError) -> tuple[Gpu, ...]:
    if not devices:
        return ()
    raw = {"xml": None, "parts": [], "failed": devices, "list": None}
    fault = fault_from_error(error)
    return tuple(
        gpu if gpu.asleep else replace(gpu, fault=fault) for gpu in parse_nvidia_smi(raw).gpus
    )
