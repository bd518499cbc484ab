"""Trees of /sys and /proc files, written by a test or linked from a capture."""

import os
from collections.abc import Mapping
from pathlib import Path

import pytest

Content = str | bytes | Path | None
"""A file's text or bytes, a link's target, or `None` for a folder."""


def write_tree(root: Path, files: Mapping[str, Content]) -> str:
    """Write the files below `root`; return it as a string, as bindings expect it."""
    for name, content in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        if content is None:
            path.mkdir(exist_ok=True)
        elif isinstance(content, Path):
            path.symlink_to(content)
        else:
            path.write_bytes(content.encode() if isinstance(content, str) else content)
    return str(root)


def drm_card(
    driver: str,
    pci_id: str = "1002:744C",
    pci: str = "0000:03:00.0",
    number: int = 1,
    files: Mapping[str, Content] | None = None,
) -> dict[str, Content]:
    """Return the files of one card; names in `files` are below its device."""
    device = f"sys/class/drm/card{number}/device"
    uevent = f"DRIVER={driver}\nPCI_CLASS=30000\nPCI_ID={pci_id}\nPCI_SLOT_NAME={pci}\n"
    found: dict[str, Content] = {
        f"{device}/uevent": uevent,
        f"{device}/vendor": f"0x{pci_id[:4]}\n",
        f"{device}/device": f"0x{pci_id[5:].lower()}\n",
        f"{device}/power/runtime_status": "active\n",
        f"{device}/drm/renderD{127 + number}": None,
    }
    return found | {f"{device}/{name}": content for name, content in (files or {}).items()}


def drm_client(pid: int, node: str, descriptor: int = 5, **fields: str) -> dict[str, Content]:
    """Return the files of a process that has a GPU's device file open."""
    written = {"drm-client-id": "7", **{k.replace("_", "-"): v for k, v in fields.items()}}
    text = "pos:\t0\nflags:\t02100002\n" + "".join(f"{k}:\t{v}\n" for k, v in written.items())
    return {
        f"proc/{pid}/comm": "python\n",
        f"proc/{pid}/fd/0": Path("/dev/null"),
        f"proc/{pid}/fd/{descriptor}": Path(f"/dev/dri/{node}"),
        f"proc/{pid}/fdinfo/{descriptor}": text,
    }


def capture_paths(folder: str) -> list[Path]:
    """Return the paths in a folder of captures; empty without captures."""
    captures = os.environ.get("FLEET_SMI_CAPTURES")
    path = Path(captures or "/nonexistent", folder)
    return sorted(path.iterdir()) if captures and path.is_dir() else []


def link_capture(root: Path, capture: Path) -> str:
    """Link the cards and the compute driver (kfd) of a capture to their original paths."""
    cards = {f"sys/class/drm/{path.name}": path for path in capture.glob("card*")}
    kfd = {"sys/class/kfd/kfd": capture / "kfd"} if (capture / "kfd").is_dir() else {}
    return write_tree(root, cards | kfd)


def record_opened_paths(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Return a list that every path opened from now on is added to."""
    opened: list[str] = []
    real = os.open

    def record(path: str, flags: int) -> int:
        opened.append(path)
        return real(path, flags)

    monkeypatch.setattr(os, "open", record)
    return opened
