"""A PCI address in one spelling, so that what one tool says can be joined to what another says."""

import re

# nvidia-smi up to 375, sysfs and dmesg write a domain of 4 digits, newer nvidia-smi 8.
# A text, so that it is compiled when first used: half a millisecond that every start would pay.
_ADDRESS = r"(?:([0-9A-F]{1,8}):)?([0-9A-F]{1,2}):([0-9A-F]{1,2})(?:\.([0-7]))?"


def normal_pci(text: str) -> str | None:
    """Return the address as "00000000:04:00.0", upper case, or `None` when it is not one."""
    match = re.fullmatch(_ADDRESS, text.strip().upper())
    if match is None:
        return None
    domain, bus, device, function = match.groups()
    return f"{domain or '':0>8}:{bus:0>2}:{device:0>2}.{function or '0'}"
