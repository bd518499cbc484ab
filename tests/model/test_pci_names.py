"""GPU names by PCI id."""

from fleet_smi.model.pci_names import is_integrated_gpu, pci_name


def test_an_id_is_case_insensitive() -> None:
    assert pci_name("1002:73FF") == pci_name("1002:73ff") == "AMD Radeon RX 6600/6600 XT/6600M"


def test_an_unknown_id_has_no_name() -> None:
    assert pci_name("1002:ffff") is None


def test_an_integrated_gpu_is_recognised_by_its_id() -> None:
    assert (is_integrated_gpu("1002:150E"), is_integrated_gpu("1002:73FF")) == (True, False)
