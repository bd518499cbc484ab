"""The settings of the nvgpu and gpu-cluster-monitor sources."""

from pathlib import Path

import pytest

from fleet_smi import config
from fleet_smi.config.settings import Settings
from fleet_smi.errors import UsageError
from fleet_smi.hub.sources import build_sources


def settings(tmp_path: Path, **hub: str) -> Settings:
    flags = {f"hub.{name}": value for name, value in hub.items()}
    return config.load({"HOME": str(tmp_path)}, flags=flags)


def test_every_configured_machine_is_polled(tmp_path: Path) -> None:
    named = settings(tmp_path, nvgpu="gpu04,gpu05:80", node_info="gpu06", node_info_password="8888")
    found = {source.name: tuple(source.targets) for source in build_sources(named)}
    assert found == {"nvgpu": ("gpu04", "gpu05:80"), "node_info": ("gpu06",)}


def test_the_polling_interval_is_configurable(tmp_path: Path) -> None:
    often = {"nvgpu_interval": "30s", "node_info_interval": "45s", "node_info_password": "x"}
    nvgpu, node_info = build_sources(settings(tmp_path, nvgpu="a", node_info="b", **often))
    assert vars(nvgpu)["_interval_seconds"] == 30.0
    assert vars(node_info)["_interval_seconds"] == 45.0


def test_there_is_no_default_password(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="needs the password of these nodes"):
        build_sources(settings(tmp_path, node_info="gpu06"))
