"""All that `nvidia-smi` answered on one machine: one document, or one for each device."""

from typing import Any

from msgspec.structs import replace

from fleet_smi.errors import NotPresent, ReadFailed
from fleet_smi.model.pci import normalize_pci_address
from fleet_smi.model.safe_text import sanitize_text
from fleet_smi.model.snapshot import NOT_ANSWERING_REMEDY, Fault, Gpu
from fleet_smi.wire.parsers.nvidia_smi import (
    NvidiaSmiReading,
    classify_failure,
    fault_from_message,
    parse_xml,
    placeholder_uuid,
)


def parse_nvidia_smi(raw: dict[str, Any]) -> NvidiaSmiReading:
    """Join the documents that were read, and the devices that told nothing.

    `xml` is what one call for all devices printed, with its `exit_code`; `None` where each was
    asked by itself: then `parts` has their documents and `failed` what is known of the rest.
    """
    _raise_failure(raw)
    documents = raw["parts"] if raw["xml"] is None else [raw["xml"]]
    readings = [parse_xml(text, raw["list"] or "") for text in documents]
    gpus = [gpu for reading in readings for gpu in reading.gpus]
    if raw["xml"] is None:
        gpus = _in_place(gpus, raw["failed"])
    if not gpus:
        raise NotPresent("nvidia-smi lists no GPU")
    return NvidiaSmiReading(
        gpus=tuple(gpus),
        driver_version=next((r.driver_version for r in readings if r.driver_version), None),
        cuda_version=next((r.cuda_version for r in readings if r.cuda_version), None),
    )


def _raise_failure(raw: dict[str, Any]) -> None:
    """Why nvidia-smi printed no document, under its name."""
    said = raw["xml"]
    if said is None or "<nvidia_smi_log" in said:
        return
    if raw["kernel_version"]:
        said += f"\nkernel module version: {raw['kernel_version']}"
    raise classify_failure(said, raw["exit_code"]) or ReadFailed("nvidia-smi printed no document")


def _in_place(gpus: list[Gpu], failed: list[dict[str, Any]]) -> list[Gpu]:
    # nvidia-smi counts in PCI order; asked one by one, each device is its own number 0.
    known = {device["index"]: device for device in failed if device["index"] is not None}
    others = [_silent(device) for device in failed if device["index"] is None]
    placed = sorted([*gpus, *others], key=lambda gpu: gpu.pci_bus_id or "~")
    for index in sorted(known):
        placed.insert(index, _silent(known[index]))
    return [replace(gpu, index=index) for index, gpu in enumerate(placed)]


def _silent(device: dict[str, Any]) -> Gpu:
    """A device of which only its identity is known."""
    pci = normalize_pci_address(device["pci"] or "")
    return Gpu(
        uuid=sanitize_text(device["uuid"] or "", 96) or placeholder_uuid(pci, device["index"] or 0),
        uuid_is_made=not device["uuid"],
        index=0,
        vendor="nvidia",
        name=sanitize_text(device["name"] or "", 128) or None,
        pci_bus_id=pci,
        asleep=device["asleep"],
        fault=None if device["asleep"] else _fault(device["words"], pci),
    )


def _fault(words: str | None, pci: str | None) -> Fault:
    if words is None:
        return Fault(
            kind="not_answering",
            detail="nvidia-smi did not answer in time for this device",
            remedy=NOT_ANSWERING_REMEDY,
        )
    return fault_from_message(words, pci)
