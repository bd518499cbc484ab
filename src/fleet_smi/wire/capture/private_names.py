"""Find the private names in what was read: hosts, users, groups, serial numbers."""

import re
from collections.abc import Iterable, Mapping
from typing import Any

from fleet_smi.wire.capture.private_text import PrivateNames

_SERIAL = re.compile(
    r"<[\w.]*serial[\w.]*>([^<]{4,64})</"  # nvidia-smi
    r"|\"[\w ]*serial[\w ]*\"\s*:\s*\"([^\"]{4,64})\"",  # amd-smi, rocm-smi
    re.IGNORECASE,
)
_MIN_LENGTH = 2


def find_private_names(
    listed: Mapping[str, Iterable[str]],
    readings: Iterable[Mapping[str, Any]],
    outputs: Iterable[str],
) -> PrivateNames:
    """Return the names that files list, with those that the readings and outputs have."""
    hosts, users, groups = list(listed.get("hosts", ())), list(listed.get("users", ())), list[str]()
    texts = list(outputs)
    for sample in readings:
        hosts.append((sample.get("host") or {}).get("hostname") or "")
        for facts in (sample.get("processes") or {}).values():
            users.append((facts or {}).get("user") or "")
            groups.append((facts or {}).get("group") or "")
        users += [row.get("user") or "" for row in sample.get("leases") or ()]
        texts += _texts(sample)
    serials = [found for text in texts for pair in _SERIAL.findall(text) for found in pair]
    return PrivateNames(
        hosts=_distinct(hosts),
        users=_distinct(users),
        groups=_distinct(groups),
        paths=_distinct(listed.get("paths", ())),
        serials=_distinct(serial.strip() for serial in serials),
    )


def _texts(value: Any) -> list[str]:
    """Return every text in a value."""
    if isinstance(value, str):
        return [value]
    if isinstance(value, Mapping):
        return [text for item in value.values() for text in _texts(item)]
    if isinstance(value, list | tuple):
        return [text for item in value for text in _texts(item)]
    return []


def _distinct(names: Iterable[str]) -> tuple[str, ...]:
    # A single letter is no name that could be told from others.
    return tuple(dict.fromkeys(name for name in names if len(name) >= _MIN_LENGTH))
