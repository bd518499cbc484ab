"""Telling systemd that a service has started."""

import os
import socket
from pathlib import Path

import pytest

from fleet_smi.cli.service_ready import notify_ready


@pytest.mark.parametrize("is_abstract", [False, True])
def test_systemd_is_told_once_and_the_address_is_not_inherited(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *, is_abstract: bool
) -> None:
    path = f"{tmp_path}/notify"
    monkeypatch.setenv("NOTIFY_SOCKET", f"@{path}" if is_abstract else path)
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as systemd:
        systemd.bind(f"\0{path}" if is_abstract else path)
        systemd.settimeout(60)
        notify_ready()
        assert systemd.recv(100) == b"READY=1"
    assert "NOTIFY_SOCKET" not in os.environ
    notify_ready()


def test_a_systemd_that_cannot_be_reached_ends_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("NOTIFY_SOCKET", f"{tmp_path}/gone")
    notify_ready()
