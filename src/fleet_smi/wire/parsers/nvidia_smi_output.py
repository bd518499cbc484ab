"""Merge the outputs of `nvidia-smi` on one machine: one XML document, or one for each GPU."""

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
    """Return the GPUs of all documents, and those of which only the identity is known.

    `xml` is what one call for all GPUs printed, with its `exit_code`; `None` where each was
    queried by itself: then `parts` has their documents and `failed` what is known of the others.
    Raise `NotPresent` where no GPU is listed, or the error that nvidia-smi printed.
    """
    _raise_failure(raw)
    documents = raw["parts"] if raw["xml"] is None else [raw["xml"]]
    readings = [parse_xml(text, raw["list"] or "") for text in documents]
    gpus = [gpu for reading in readings for gpu in reading.gpus]
    if raw["xml"] is None:
        gpus = _merge_failed(gpus, raw["failed"])
    if not gpus:
        raise NotPresent("nvidia-smi lists no GPU")
    return NvidiaSmiReading(
        gpus=tuple(gpus),
        driver_version=next((r.driver_version for r in readings if r.driver_version), None),
        cuda_version=next((r.cuda_version for r in readings if r.cuda_version), None),
    )


def _raise_failure(raw: dict[str, Any]) -> None:
    """Raise the error that nvidia-smi printed instead of a document, if it did."""
    output = raw["xml"]
    if output is None or "<nvidia_smi_log" in output:
        return
    if raw["kernel_version"]:
        # nvidia-smi itself prints only the version of its library.
        output += f"\nkernel module version: {raw['kernel_version']}"
    raise classify_failure(output, raw["exit_code"]) or ReadFailed("nvidia-smi printed no document")


def _merge_failed(gpus: list[Gpu], failed: list[dict[str, Any]]) -> list[Gpu]:
    # nvidia-smi numbers GPUs in PCI order; queried one by one, each of them is number 0.
    numbered = {device["index"]: device for device in failed if device["index"] is not None}
    others = [_identity_only(device) for device in failed if device["index"] is None]
    placed = sorted([*gpus, *others], key=lambda gpu: gpu.pci_bus_id or "~")
    # Ascending: an insertion must not move a device that was already inserted at its number.
    for index in sorted(numbered):
        placed.insert(index, _identity_only(numbered[index]))
    return [replace(gpu, index=index) for index, gpu in enumerate(placed)]


def _identity_only(device: dict[str, Any]) -> Gpu:
    """Build a GPU of which only the identity is known."""
    pci = normalize_pci_address(device["pci"] or "")
    return Gpu(
        uuid=sanitize_text(device["uuid"] or "", 96) or placeholder_uuid(pci, device["index"] or 0),
        uuid_is_made=not device["uuid"],
        index=0,
        vendor="nvidia",
        name=sanitize_text(device["name"] or "", 128) or None,
        pci_bus_id=pci,
        asleep=device["asleep"],
        fault=None if device["asleep"] else _fault(device["message"], pci),
    )


def _fault(message: str | None, pci: str | None) -> Fault:
    if message is None:
        return Fault(
            kind="not_answering",
            detail="nvidia-smi did not answer in time for this device",
            remedy=NOT_ANSWERING_REMEDY,
        )
    return fault_from_message(message, pci)
