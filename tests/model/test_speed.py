"""Speed ranking of models by name."""

import pytest

from fleet_smi.model.speed import MODELS_BY_SPEED, UNRANKED_MODEL, speed_rank


@pytest.mark.parametrize(
    "faster, slower",
    [
        ("NVIDIA B200", "NVIDIA H100 80GB HBM3"),
        ("NVIDIA H100 80GB HBM3", "NVIDIA A100-SXM4-40GB"),
        ("NVIDIA H100 80GB HBM3", "NVIDIA H100 PCIe"),
        ("NVIDIA A100-SXM4-40GB", "NVIDIA A10"),
        ("NVIDIA L40S", "NVIDIA L4"),
        ("NVIDIA GeForce RTX 4090", "NVIDIA GeForce RTX 4090 D"),
        ("NVIDIA RTX 6000 Ada Generation", "NVIDIA RTX A6000"),
        ("NVIDIA RTX A6000", "Quadro RTX 6000"),
        ("NVIDIA GeForce RTX 3090", "NVIDIA GeForce RTX 2080 Ti"),
        ("Tesla V100-SXM2-32GB", "Tesla K80"),
        ("AMD Instinct MI355X", "AMD Instinct MI300X OAM"),
    ],
)
def test_the_faster_model_ranks_before_the_slower(faster: str, slower: str) -> None:
    assert speed_rank(faster) < speed_rank(slower) < UNRANKED_MODEL


@pytest.mark.parametrize("name", [None, "", "NVIDIA Z9999", "A1000000"])
def test_an_unknown_model_comes_last(name: str | None) -> None:
    assert speed_rank(name) == UNRANKED_MODEL


def test_every_ranked_model_matches_its_own_entry() -> None:
    assert [speed_rank(name) for name in MODELS_BY_SPEED] == list(range(len(MODELS_BY_SPEED)))
