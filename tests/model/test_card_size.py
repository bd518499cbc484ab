"""Nominal sizes of memory: what cards are sold with, from what their drivers report."""

import pytest

from fleet_smi.model.card_size import memory_for_request, nominal_gigabytes
from fleet_smi.model.units import GIB, MIB


@pytest.mark.parametrize(
    "name, mebibytes, gigabytes",
    [
        ("NVIDIA H100 80GB HBM3", 81559, 80),
        ("NVIDIA A100-SXM4-40GB", 40536, 40),
        ("NVIDIA A100-SXM4-80GB", 81920, 80),
        ("NVIDIA GeForce RTX 4090", 24564, 24),
        ("NVIDIA L40S", 46068, 48),
        ("NVIDIA L4", 23034, 24),
        ("Tesla T4", 15109, 16),
        ("NVIDIA GeForce GTX 1080 Ti", 11178, 11),
        ("NVIDIA H200", 143771, 141),
        ("NVIDIA H100 NVL", 95830, 94),
        ("NVIDIA GH200 480GB", 97871, 96),
        ("NVIDIA B200", 183359, 180),
        ("AMD Instinct MI300X", 196592, 192),
        ("1g.10gb", 9856, 10),
        ("1g.5gb", 4864, 5),
        ("3g.20gb", 20096, 20),
        (None, 72 * 1024, 72),
        ("odd", 1, 1),
    ],
)
def test_a_card_has_the_size_that_it_is_sold_with(
    name: str | None, mebibytes: int, gigabytes: int
) -> None:
    assert nominal_gigabytes(name, mebibytes * MIB) == gigabytes


@pytest.mark.parametrize("total", [None, 0, -1])
def test_without_a_known_memory_there_is_no_nominal_size(total: int | None) -> None:
    assert nominal_gigabytes("NVIDIA H100 80GB HBM3", total) is None
    assert memory_for_request(5, total, None, 80 * GIB) == 5


def test_a_card_counts_as_its_nominal_size_only_while_it_is_unused() -> None:
    total = 81559 * MIB
    assert memory_for_request(total - GIB, total, 80, 80 * GIB) == 80 * GIB
    assert memory_for_request(total - 3 * GIB, total, 80, 80 * GIB) == total - 3 * GIB
    assert memory_for_request(total, total, 80, 20 * GIB) == total
