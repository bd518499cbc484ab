"""GPU names by PCI id."""

import pytest

from fleet_smi.model.pci_names import is_integrated_gpu, pci_name


def test_an_id_is_case_insensitive() -> None:
    assert pci_name("1002:73FF") == pci_name("1002:73ff") == "AMD Radeon RX 6600/6600 XT/6600M"


@pytest.mark.parametrize(
    ("pci_id", "name"),
    [
        ("1002:744C", "AMD Radeon RX 7900 XT/7900 XTX"),
        ("1002:7448", "AMD Radeon Pro W7900"),
        ("1002:7590", "AMD Radeon RX 9060/9060 XT"),
        ("1002:67FF", "AMD Radeon RX 550/560"),
        ("1002:75A3", "AMD Instinct MI355X"),
        ("1002:1638", "AMD Radeon Vega 6/7/8"),
        ("8086:56A2", "Intel Arc A580"),
        ("8086:E211", "Intel Arc Pro B60"),
        ("8086:0BDA", "Intel Data Center GPU Max 1100"),
        ("8086:A780", "Intel UHD Graphics 770"),
        ("8086:5917", "Intel UHD Graphics 620"),
    ],
)
def test_common_cards_have_their_names(pci_id: str, name: str) -> None:
    assert pci_name(pci_id) == name


def test_an_unknown_id_has_no_name() -> None:
    assert pci_name("1002:ffff") is None


def test_an_integrated_gpu_is_recognised_by_its_id() -> None:
    assert (is_integrated_gpu("1002:150E"), is_integrated_gpu("1002:73FF")) == (True, False)
