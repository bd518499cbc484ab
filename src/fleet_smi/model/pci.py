"""PCI addresses in one spelling, and the choice of a unique id for a device."""

import re
from collections.abc import Iterable

# nvidia-smi up to 375, sysfs and dmesg write a domain of 4 digits, newer nvidia-smi 8.
# Not compiled here but when first used: it takes half a millisecond of every start.
_ADDRESS = r"(?:([0-9A-F]{1,8}):)?([0-9A-F]{1,2}):([0-9A-F]{1,2})(?:\.([0-7]))?"


def normalize_pci_address(text: str) -> str | None:
    """Return the address as "00000000:04:00.0", upper case, or `None` when it is not one."""
    match = re.fullmatch(_ADDRESS, text.strip().upper())
    if match is None:
        return None
    domain, bus, device, function = match.groups()
    return f"{domain or '':0>8}:{bus:0>2}:{device:0>2}.{function or '0'}"


def first_unused_id(candidates: Iterable[str | None], taken: set[str]) -> str:
    """Return the first known id that is not in use; partitions of one card share theirs."""
    chosen = next(c for c in candidates if c is not None and c not in taken)
    taken.add(chosen)
    return chosen
