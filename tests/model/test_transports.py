"""How to keep a node from coming by a transport."""

import pytest

from fleet_smi.config import SETTINGS
from fleet_smi.hub.sources import SOURCES
from fleet_smi.model.transports import detach_remedy


@pytest.mark.parametrize("source", [name for name in SOURCES if name != "push"])
def test_the_setting_that_is_named_exists(source: str) -> None:
    words = detach_remedy(source, "gpu01").replace(",", " ").split()
    (setting,) = [word for word in words if word.startswith("hub.")]
    assert setting in {each.name for each in SETTINGS}


def test_a_file_is_not_in_the_setting_that_names_its_folder() -> None:
    assert detach_remedy("files", "gpu01").startswith("delete the file of gpu01 from the folder")
    assert detach_remedy("ssh", "gpu01") == "remove gpu01 from hub.ssh"
