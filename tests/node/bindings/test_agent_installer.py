"""The installer of the hub's script: what it refuses before it installs anything."""

from pathlib import Path

import pytest

from fleet_smi.node.bindings.agent_installer import HubFiles, require_own_disk, require_space
from fleet_smi.node.bindings.wheel_tags import InstallError

MOUNTS = """\
/dev/sda1 / ext4 rw 0 0
server:/home /home nfs4 rw 0 0
/dev/sdb1 /home/local xfs rw 0 0
garbage
"""


@pytest.mark.parametrize(
    ("home", "is_shared"),
    [("/home/alice", True), ("/home/local/bob", False), ("/homes/eve", False), ("/root", False)],
)
def test_a_home_that_other_machines_have_is_refused(
    tmp_path: Path, home: str, is_shared: bool
) -> None:
    (tmp_path / "mounts").write_text(MOUNTS)
    if not is_shared:
        require_own_disk(home, str(tmp_path / "mounts"))
        return
    with pytest.raises(InstallError, match=r"is on a network disk \(nfs4\)"):
        require_own_disk(home, str(tmp_path / "mounts"))


@pytest.mark.parametrize("url", ["http://gpuhub:7070", "http://10.0.0.1:7070/gpus"])
def test_a_token_is_not_sent_unencrypted_unless_that_is_said(url: str) -> None:
    with pytest.raises(InstallError, match="accept that with --insecure-http"):
        HubFiles(url, None, "t").require_encryption()
    for safe in ("https://gpuhub:7070", "http://127.0.0.1:7070", "http://localhost:7070"):
        HubFiles(safe, None, "t").require_encryption()


def test_a_folder_that_cannot_be_made_is_named() -> None:
    with pytest.raises(InstallError, match="/proc/nothing cannot be made"):
        require_space("/proc/nothing")
