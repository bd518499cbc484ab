"""The GPUs in an answer over ssh: what `nvidia-smi` printed, and what the kernel lists."""

from itertools import pairwise
from typing import Any, NamedTuple

from msgspec.structs import replace

from fleet_smi.errors import CollectError, NotAnswering, NotPresent
from fleet_smi.model.merge import fault_from_error
from fleet_smi.model.pci import normalize_pci_address
from fleet_smi.model.safe_text import sanitize_text
from fleet_smi.model.snapshot import Gpu
from fleet_smi.wire.cli_text import excerpt, parse_int
from fleet_smi.wire.parsers._remote_sections import ScriptOutput
from fleet_smi.wire.parsers.nvidia_smi import NvidiaSmiReading, failed_devices
from fleet_smi.wire.parsers.nvidia_smi_output import parse_nvidia_smi

_END = "</nvidia_smi_log>"
_MOST_DEVICES = 1024
# What `timeout` ends with when it has killed: of coreutils, of busybox.
_KILLED = (124, 137, 143)

DeviceRecord = dict[str, Any]


class _Asked(NamedTuple):
    """One call of nvidia-smi: for which device, or for all; without a code, it hangs."""

    device: str
    text: str
    exit_code: int | None

    @property
    def was_killed(self) -> bool:
        return self.exit_code is None or self.exit_code in _KILLED


def parse_gpus(output: ScriptOutput) -> tuple[NvidiaSmiReading, CollectError | None]:
    """The GPUs, and why they could not be read, if so: then only their identity is known."""
    devices = _devices(output.text("devices"))
    try:
        return _reading(output, devices), None
    except CollectError as error:
        version = sanitize_text(output.text("kernel_version"), 64) or None
        return NvidiaSmiReading(gpus=_identities(devices, error), driver_version=version), error


def _reading(answer: ScriptOutput, devices: list[DeviceRecord]) -> NvidiaSmiReading:
    if "devices" not in answer:
        raise NotPresent("no nvidia-smi on PATH: install the NVIDIA driver's tools, or fleet-smi")
    if "hangs" in answer:
        raise NotAnswering("an earlier nvidia-smi still hangs in the driver: see dmesg")
    calls = _calls(answer)
    if any(call.device for call in calls) or any(device["asleep"] for device in devices):
        return parse_nvidia_smi(_raw(answer, **_one_by_one(calls, devices)))
    if not calls or calls[0].was_killed:
        raise NotAnswering("nvidia-smi did not answer in time: see dmesg")
    return parse_nvidia_smi(_raw(answer, xml=calls[0].text, exit_code=calls[0].exit_code))


def _raw(answer: ScriptOutput, **told: Any) -> dict[str, Any]:
    """What was told, as the binding for `nvidia-smi` on this machine has it."""
    whole_machine = {
        "kernel_version": answer.text("kernel_version") or None,
        "list": answer.text("list") or None,
    }
    return {"xml": None, "exit_code": None, "parts": [], "failed": [], **whole_machine, **told}


def _calls(answer: ScriptOutput) -> list[_Asked]:
    calls = []
    for part, following in pairwise([*answer.sections, answer.sections[-1]]):
        if part.name.startswith("nvidia_smi"):
            code = parse_int(following.text.strip()) if following.name == "exit_code" else None
            calls.append(_Asked(part.name.partition("@")[2], part.text, code))
    return calls


def _one_by_one(calls: list[_Asked], devices: list[DeviceRecord]) -> dict[str, Any]:
    """The documents of the devices that have one, and what is known of the others."""
    answers = {call.device: call for call in calls if call.device}
    lost = failed_devices("\n".join(call.text for call in calls))
    failed = [
        {**device, "words": lost.pop(device["pci"], None) or _words(answers.get(device["address"]))}
        for device in devices
        if not _has_document(answers.get(device["address"]))
    ]
    failed += [{**_device(pci), "words": words} for pci, words in lost.items()]
    documents = [call.text for call in answers.values() if _has_document(call)]
    return {"parts": documents, "failed": failed}


def _has_document(call: _Asked | None) -> bool:
    return call is not None and _END in call.text


def _words(call: _Asked | None) -> str | None:
    return None if call is None or call.was_killed else excerpt(call.text)


def _device(address: str) -> DeviceRecord:
    return {
        "address": address,
        "pci": normalize_pci_address(address),
        "uuid": None,
        "name": None,
        "asleep": False,
        "index": None,
        "words": None,
    }


def _devices(text: str) -> list[DeviceRecord]:
    """The devices that the kernel lists: who they are, and whether they sleep."""
    devices: list[DeviceRecord] = []
    for line in text.splitlines():
        key, _, value = (word.strip() for word in line.partition(":"))
        if key == "device" and len(devices) < _MOST_DEVICES:
            devices.append(_device(value))
        elif key == "state" and devices:
            devices[-1]["asleep"] = value == "suspended"
        elif key == "Model" and devices:
            devices[-1]["name"] = value
        # The kernel writes question marks until somebody has opened the device.
        elif key == "GPU UUID" and devices and "?" not in value:
            devices[-1]["uuid"] = value
    return devices


def _identities(devices: list[DeviceRecord], error: CollectError) -> tuple[Gpu, ...]:
    if not devices:
        return ()
    nothing = {"xml": None, "parts": [], "failed": devices, "list": None}
    fault = fault_from_error(error)
    return tuple(
        gpu if gpu.asleep else replace(gpu, fault=fault) for gpu in parse_nvidia_smi(nothing).gpus
    )
