"""Read the files of DRM drivers below `/sys`: cards, sensors, power state, PCIe links."""

import errno
import os
import re
from collections.abc import Iterable, Iterator
from typing import Any

_CARD = re.compile(r"card([0-9]{1,5})", re.ASCII)
_PCI = re.compile(r"[0-9a-f]{4,8}:[0-9a-f]{2}:[0-9a-f]{2}\.[0-7]", re.ASCII | re.IGNORECASE)
_SENSOR = re.compile(
    r"(?:temp|power|energy|fan|freq|pwm|in)[0-9]{1,2}"
    r"(?:_(?:input|label|average|cap|max|crit|rated_max))?",
    re.ASCII,
)
_LINK = ("current_link_speed", "current_link_width", "max_link_speed", "max_link_width")
_MAX_BYTES = 65_536  # sysfs gives a page; fdinfo of a busy client a few
_MAX_NAMES = 4_096
_MAX_CARDS = 256


class SysfsFolder:
    """A folder of small files, each of which can fail alone."""

    def __init__(self, *path: str) -> None:
        self.path = os.path.join(*path)
        self.read_errors: dict[str, str] = {}
        """File name -> name of the error, for files that exist and could not be read."""

    def read_text(self, name: str) -> str | None:
        """Return the text of a file, or `None` with its error in `read_errors`."""
        try:
            # A pipe put where a file is expected must not block the open.
            handle = os.open(os.path.join(self.path, name), os.O_RDONLY | os.O_NONBLOCK)
            try:
                raw = os.read(handle, _MAX_BYTES)
            finally:
                os.close(handle)
        except OSError as exc:
            # Which files there are depends on kernel and card: a missing one is no error.
            if exc.errno not in (errno.ENOENT, errno.ENOTDIR):
                self.read_errors[name] = errno.errorcode.get(exc.errno or 0, "OSError")
            return None
        # Some files are padded with zero bytes.
        return raw.decode("utf-8", "replace").replace("\0", "").strip()

    def read_texts(self, names: Iterable[str]) -> dict[str, str]:
        """Return the text of each file, without those that cannot be read."""
        found = ((name, self.read_text(name)) for name in names)
        return {name: text for name, text in found if text is not None}

    def list_names(self, subfolder: str = "") -> list[str]:
        """Return the names in this folder or one below it, none when it cannot be listed."""
        return list_folder(os.path.join(self.path, subfolder))

    def subfolder(self, *path: str) -> "SysfsFolder":
        """Return a folder below this one with its own `read_errors`."""
        return SysfsFolder(self.path, *path)


def list_folder(path: str) -> list[str]:
    """Return the names in a folder, none when it cannot be listed."""
    try:
        with os.scandir(path) as entries:
            return sorted(entry.name for entry, _ in zip(entries, range(_MAX_NAMES), strict=False))
    except OSError:
        return []


def parse_key_values(text: str | None, separator: str) -> dict[str, str]:
    """Return lines of `KEY<separator>VALUE` as a dict."""
    pairs = (line.partition(separator) for line in (text or "").splitlines())
    return {key.strip(): value.strip() for key, found, value in pairs if found}


def iter_cards(
    root: str, drivers: tuple[str, ...]
) -> Iterator[tuple[dict[str, Any], SysfsFolder, SysfsFolder]]:
    """Yield each card of these drivers: its identity, its folder, its device's folder.

    Only files are read that do not wake a sleeping device.
    """
    drm = os.path.join(root, "sys/class/drm")
    # cardN-HDMI-A-1 and the like are connectors, not cards.
    numbers = sorted(int(m[1]) for name in list_folder(drm) if (m := _CARD.fullmatch(name)))
    seen: set[str] = set()
    for number in numbers[:_MAX_CARDS]:
        card = SysfsFolder(drm, f"card{number}")
        device = card.subfolder("device")
        identity = _identity(f"card{number}", device)
        if identity["driver"] not in drivers or identity["pci"] in seen:
            continue
        if identity["pci"]:
            seen.add(identity["pci"])
        yield identity, card, device


def _identity(name: str, device: SysfsFolder) -> dict[str, Any]:
    uevent = parse_key_values(device.read_text("uevent"), "=")
    slot = uevent.get("PCI_SLOT_NAME", "")
    status = device.read_text("power/runtime_status")
    return {
        "card": name,
        "driver": uevent.get("DRIVER") or _driver(device),
        "pci": slot.lower() if _PCI.fullmatch(slot) else None,
        "pci_id": uevent.get("PCI_ID") or _ids(device),
        "asleep": status in ("suspended", "suspending"),
        "nodes": [name, *(n for n in device.list_names("drm") if n.startswith("renderD"))],
    }


def _driver(device: SysfsFolder) -> str | None:
    try:
        return os.path.basename(os.readlink(os.path.join(device.path, "driver")))
    except OSError:
        return None


def _ids(device: SysfsFolder) -> str | None:
    vendor, product = device.read_text("vendor"), device.read_text("device")
    return f"{vendor}:{product}".replace("0x", "") if vendor and product else None


def read_sensors(device: SysfsFolder) -> dict[str, str]:
    """Return the files of the device's first hwmon folder; its number varies from boot to boot."""
    for name in device.list_names("hwmon"):
        folder = device.subfolder("hwmon", name)
        found = folder.read_texts(n for n in folder.list_names() if _SENSOR.fullmatch(n))
        device.read_errors |= folder.read_errors
        if found:
            return found
    return {}


def read_pcie_link(device: SysfsFolder) -> dict[str, str]:
    """Return the state of the PCIe link that leads to the card.

    Newer cards carry a switch: the GPU's own link is then one inside the card, always at
    full speed (AMD) or at 2.5 GT/s x1 (Intel), and the one that matters is the switch's.
    """
    switch = _switch_of_card(device)
    return (switch and switch.read_texts(_LINK)) or device.read_texts(_LINK)


def _switch_of_card(device: SysfsFolder) -> SysfsFolder | None:
    try:
        path = os.path.realpath(device.path, strict=True)
    except OSError:
        return None
    upstream = os.path.dirname(os.path.dirname(path))
    above = os.path.dirname(upstream)
    # A bridge directly below "pci0000:00" is a port of the machine, not of the card.
    if not all(_PCI.fullmatch(os.path.basename(p)) for p in (path, upstream, above)):
        return None
    # A switch of the card's own vendor is on the card; any other is on the mainboard.
    switch = SysfsFolder(upstream)
    vendor = switch.read_text("vendor")
    return switch if vendor is not None and vendor == device.read_text("vendor") else None
