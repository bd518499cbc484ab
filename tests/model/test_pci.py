"""Normalised PCI addresses."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fleet_smi.model.pci import normalize_pci_address


@pytest.mark.parametrize(
    "written",
    ["0000:0a:1f.0", "00000000:0A:1F.0", "0A:1f.0", "0000:0A:1F", " 0000:0a:1f.0\n"],
)
def test_every_spelling_of_an_address_is_normalised(written: str) -> None:
    assert normalize_pci_address(written) == "00000000:0A:1F.0"


@pytest.mark.parametrize("written", ["", "N/A", "0000:0g:00.0", "0000:00:00.8", "GPU-1", "1:2:3:4"])
def test_an_invalid_address_is_none(written: str) -> None:
    assert normalize_pci_address(written) is None


@given(st.text())
def test_a_normalised_address_is_unchanged(text: str) -> None:
    normal = normalize_pci_address(text)
    assert normal is None or normalize_pci_address(normal) == normal
