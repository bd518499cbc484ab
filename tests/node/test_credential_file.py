"""The credential file: one token per hub, readable by its owner only."""

from pathlib import Path

import pytest

from fleet_smi.errors import UsageError
from fleet_smi.node.credential_file import CredentialFile


def test_a_credential_goes_to_no_other_hub(tmp_path: Path) -> None:
    credentials = CredentialFile(str(tmp_path))
    credentials.store("https://one:7070", "secret")
    assert credentials.get("https://one:7070") == "secret"
    assert credentials.get("https://other:7070") is None


def test_a_credential_that_others_can_read_is_not_used(tmp_path: Path) -> None:
    credentials = CredentialFile(str(tmp_path))
    credentials.store("https://one:7070", "secret")
    (tmp_path / "credential.json").chmod(0o644)
    with pytest.raises(UsageError, match="chmod 600"):
        credentials.get("https://one:7070")


def test_a_second_hub_does_not_cost_the_first_its_credential(tmp_path: Path) -> None:
    credentials = CredentialFile(str(tmp_path / "state"))
    credentials.store("https://one:7070", "first")
    credentials.store("https://other:7070", "second")
    assert credentials.get("https://one:7070") == "first"
    assert [path.name for path in (tmp_path / "state").iterdir()] == ["credential.json"]


@pytest.mark.parametrize("written", [b"", b"{", b"[]", b"\xff", b'{"hub": 1}', b'{"":' * 100_000])
def test_a_damaged_file_is_an_error(tmp_path: Path, written: bytes) -> None:
    path = tmp_path / "credential.json"
    path.write_bytes(written)
    path.chmod(0o600)
    with pytest.raises(UsageError, match="remove it and join again"):
        CredentialFile(str(tmp_path)).get("https://one:7070")
