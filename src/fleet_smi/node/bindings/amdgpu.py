"""AMD GPUs from the files of the `amdgpu` driver, without ROCm and without root.

`pcie_bw` is not read on purpose: the driver measures for a second while it is read.
"""

import os
import re
from typing import Any

from fleet_smi.errors import NotPresent
from fleet_smi.node.bindings import drm, drm_clients

# They are in the driver's memory, so reading them does not wake a sleeping card; and as its
# identity they have to be the same whether it sleeps or not.
_IDENTITY = ("product_name", "unique_id")
_FIGURES = (
    "gpu_busy_percent",
    "mem_busy_percent",
    "mem_info_vram_total",
    "mem_info_vram_used",
    "mem_info_gtt_total",
    "mem_info_gtt_used",
    "pp_dpm_sclk",
    "pp_dpm_mclk",
    "power_dpm_state",
)
_KFD = "sys/class/kfd/kfd"
_VRAM = re.compile(r"vram_([0-9]{1,10})", re.ASCII)
_NODE_PROPERTIES = (
    "cpu_cores_count",
    "simd_count",
    "vendor_id",
    "device_id",
    "location_id",
    "domain",
    "drm_render_minor",
    "unique_id",
)


def read(root: str = "/") -> dict[str, Any]:
    """Read every card of the `amdgpu` driver below `root`; raise `NotPresent` if there is none."""
    cards = [_card(*card) for card in drm.iter_cards(root, ("amdgpu",))]
    if not cards:
        raise NotPresent("no AMD GPU with the amdgpu driver")
    # Reading the clients of a sleeping card could wake it.
    nodes = {n: c["pci"] for c in cards if c["pci"] and not c["asleep"] for n in c["nodes"]}
    processes, clients = _kfd_processes(root), drm_clients.read_clients(root, nodes)
    return {
        "cards": cards,
        "kfd_nodes": _kfd_nodes(root),
        "kfd_processes": processes,
        "drm": clients,
        "pids": [entry["pid"] for entry in (*(processes or ()), *clients["clients"])],
    }


def _card(identity: dict[str, Any], _: drm.SysfsFolder, device: drm.SysfsFolder) -> dict[str, Any]:
    files, hwmon, link, ras = device.read_texts(_IDENTITY), {}, {}, {}
    if not identity["asleep"]:
        files |= device.read_texts(_FIGURES)
        hwmon = drm.read_sensors(device)
        link = drm.read_pcie_link(device)
        ras = device.read_texts(
            f"ras/{name}" for name in device.list_names("ras") if name.endswith("_err_count")
        )
    return {
        **identity,
        "files": files,
        "hwmon": hwmon,
        "link": link,
        "ras": ras,
        "refused": device.read_errors,
    }


def _kfd_nodes(root: str) -> list[dict[str, Any]]:
    """Return the compute driver's list of GPUs; several nodes can be parts of one card."""
    nodes = drm.SysfsFolder(root, _KFD, "topology/nodes")
    numbers = sorted(
        int(n) for n in nodes.list_names() if n.isascii() and n.isdigit() and len(n) < 10
    )
    found = []
    for number in numbers:
        properties = drm.parse_key_values(nodes.read_text(f"{number}/properties"), " ")
        found.append(
            {
                "node": number,
                "gpu_id": nodes.read_text(f"{number}/gpu_id"),
                **{key: properties[key] for key in _NODE_PROPERTIES if key in properties},
            }
        )
    return found


def _kfd_processes(root: str) -> list[dict[str, Any]] | None:
    """Return the compute processes per GPU, `None` when the compute driver lists none."""
    folder = drm.SysfsFolder(root, _KFD, "proc")
    # No folder is "unknown", an empty one is "no compute process".
    if not os.path.isdir(folder.path):
        return None
    pids = [
        name for name in folder.list_names() if name.isascii() and name.isdigit() and len(name) < 8
    ]
    return [_kfd_process(int(pid), folder.subfolder(pid)) for pid in pids]


def _kfd_process(pid: int, folder: drm.SysfsFolder) -> dict[str, Any]:
    # `vram_<gpu id>`: one file per GPU, also for GPUs that the process does not use.
    vram = {
        match[1]: text
        for name in folder.list_names()
        if (match := _VRAM.fullmatch(name)) and (text := folder.read_text(name)) is not None
    }
    queues = {folder.read_text(f"queues/{name}/gpuid") for name in folder.list_names("queues")}
    return {"pid": pid, "vram": vram, "queues": sorted(q for q in queues if q)}
