"""Which GPUs a value of CUDA_VISIBLE_DEVICES leaves visible, by CUDA's own rules. Pure."""

from collections.abc import Iterable

from fleet_smi.model.snapshot import Gpu


def visible_uuids(value: str, gpus: Iterable[Gpu]) -> frozenset[str]:
    """Return the UUIDs of the NVIDIA GPUs and MIG instances that CUDA would use.

    The value is a list of indices or of UUIDs, which may be shortened. CUDA ignores everything
    after the first entry that names no device: so "-1", "none" and an empty value hide all.
    Indices are those of the driver, as CUDA counts with `CUDA_DEVICE_ORDER=PCI_BUS_ID`.
    """
    cards = [gpu for gpu in gpus if gpu.vendor == "nvidia"]
    visible: set[str] = set()
    for entry in value.split(","):
        found = _named(entry.strip(), cards)
        if not found:
            break
        visible |= found
    return frozenset(visible)


def _named(entry: str, cards: list[Gpu]) -> set[str]:
    """Return the UUIDs that one entry names: of an instance, or of a GPU with its instances."""
    if entry.isdecimal():
        chosen = [gpu for gpu in cards if gpu.index == int(entry)]
    elif entry.startswith("GPU-"):
        chosen = [gpu for gpu in cards if gpu.uuid.startswith(entry)]
    else:
        instances = [instance.uuid for gpu in cards for instance in gpu.instances]
        return {uuid for uuid in instances if entry.startswith("MIG-") and uuid.startswith(entry)}
    return {gpu.uuid for gpu in chosen} | {
        instance.uuid for gpu in chosen for instance in gpu.instances
    }
