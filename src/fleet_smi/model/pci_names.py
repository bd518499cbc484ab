"""Names of GPUs by PCI id, for drivers that report none: common ones, not a database."""

# Cards of one id differ in revision; the name then lists what it can be.
_NAMES = {
    "1002:6617": "AMD Radeon R7 240",
    "1002:6818": "AMD Radeon HD 7870",
    "1002:67df": "AMD Radeon RX 470/480/570/580/590",
    "1002:6861": "AMD Radeon Pro WX 9100",
    "1002:687f": "AMD Radeon RX Vega 56/64",
    "1002:66a1": "AMD Instinct MI50/MI60",
    "1002:66af": "AMD Radeon VII",
    "1002:7340": "AMD Radeon RX 5500/5500 XT",
    "1002:731f": "AMD Radeon RX 5600 XT/5700/5700 XT",
    "1002:73bf": "AMD Radeon RX 6800/6800 XT/6900 XT",
    "1002:73df": "AMD Radeon RX 6700/6700 XT/6750 XT",
    "1002:73ff": "AMD Radeon RX 6600/6600 XT/6600M",
    "1002:744c": "AMD Radeon RX 7900 XT/7900 XTX",
    "1002:747e": "AMD Radeon RX 7700 XT/7800 XT",
    "1002:7480": "AMD Radeon RX 7600/7600S/7700S",
    "1002:7550": "AMD Radeon RX 9070/9070 XT",
    "1002:738c": "AMD Instinct MI100",
    "1002:7408": "AMD Instinct MI250X",
    "1002:740c": "AMD Instinct MI250/MI250X",
    "1002:740f": "AMD Instinct MI210",
    "1002:74a0": "AMD Instinct MI300A",
    "1002:74a1": "AMD Instinct MI300X",
    "1002:74a2": "AMD Instinct MI308X",
    "1002:74a5": "AMD Instinct MI325X",
    "1002:15bf": "AMD Radeon 740M/760M/780M",
    "1002:150e": "AMD Radeon 880M/890M",
    "1002:1586": "AMD Radeon 8050S/8060S",
    "8086:0bd5": "Intel Data Center GPU Max 1550",
    "8086:56a0": "Intel Arc A770",
    "8086:56a1": "Intel Arc A750",
    "8086:56a5": "Intel Arc A380",
    "8086:56a6": "Intel Arc A310",
    "8086:56c0": "Intel Data Center GPU Flex 170",
    "8086:56c1": "Intel Data Center GPU Flex 140",
    "8086:e20b": "Intel Arc B580",
    "8086:e20c": "Intel Arc B570",
    "8086:9b41": "Intel UHD Graphics",
}
_INTEGRATED = frozenset({"1002:15bf", "1002:150e", "1002:1586"})


def pci_name(pci_id: str) -> str | None:
    """Return the name for an id such as "1002:73FF"; `None` if it is not listed here."""
    return _NAMES.get(pci_id.lower())


def is_integrated_gpu(pci_id: str) -> bool:
    """Return whether the id is known to be of a GPU that uses the host's memory."""
    return pci_id.lower() in _INTEGRATED
