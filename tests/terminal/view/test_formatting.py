"""Formatting shared by the views."""

import time
from collections.abc import Iterator

import pytest

from fleet_smi.terminal.view.formatting import format_moment, short_model, to_local_time
from tests.terminal.samples import NOW


@pytest.fixture
def tokyo(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setenv("TZ", "Asia/Tokyo")
    time.tzset()
    yield
    monkeypatch.undo()
    time.tzset()


@pytest.mark.usefixtures("tokyo")
def test_times_are_in_local_time() -> None:
    assert format_moment(NOW - 3600, NOW, to_local_time) == "22:06"
    assert format_moment(NOW - 15 * 3600, NOW, to_local_time) == "08:06"
    assert format_moment(NOW - 24 * 3600, NOW, to_local_time) == "yesterday 23:06"


@pytest.mark.parametrize(
    "name, short",
    [
        ("NVIDIA H100 80GB HBM3", "H100 80GB"),
        ("NVIDIA A100-SXM4-40GB", "A100 40GB"),
        ("NVIDIA A100-PCIE-40GB", "A100 40GB"),
        ("NVIDIA GeForce RTX 4090", "RTX 4090"),
        ("Tesla V100-SXM2-32GB", "V100 32GB"),
        ("AMD Instinct MI300X OAM", "MI300X"),
        ("Intel(R) Arc(TM) A770 Graphics", "Arc A770"),
        ("NVIDIA", "NVIDIA"),
    ],
)
def test_model_names_are_shortened(name: str, short: str) -> None:
    assert short_model(name) == short
