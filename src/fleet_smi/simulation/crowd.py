"""A story of any size: many alike nodes, to see what a hub can bear."""

from collections.abc import Iterator

from fleet_smi.model.units import GIB
from fleet_smi.simulation.cards import A100, H100, L40S, RTX_4090, at_rest
from fleet_smi.simulation.chance import dice
from fleet_smi.simulation.seats import Custom, Seat, Visited
from fleet_smi.simulation.story import Chassis, Node, Story, node
from fleet_smi.simulation.work import hyphenated

_CHASSIS = (
    Chassis(card=H100, cpu_count=192, memory_total_bytes=2016 * GIB),
    Chassis(card=A100, cpu_count=128, memory_total_bytes=1008 * GIB),
    Chassis(card=L40S, cpu_count=96, memory_total_bytes=755 * GIB),
    Chassis(card=RTX_4090, cpu_count=64, memory_total_bytes=503 * GIB),
)
_GROUPS = (1, 1, 2, 4, 8)
_RACK = 32


def crowd(
    nodes: int, gpus: int, *, seed: int, began: float, interval_seconds: float = 1.0
) -> Story:
    """So many nodes with so many GPUs each, on which people come and go."""
    everyone = [_node(index, gpus, f"crowd-{seed}-{index}", began) for index in range(nodes)]
    story = Story(everyone, interval_seconds)
    for index in range(nodes):
        story.snapshot(index, began, 0)  # who is where now is thrown before the first second
    return story


def _node(index: int, gpus: int, key: str, began: float) -> Node:
    chassis = _CHASSIS[index % len(_CHASSIS)]
    return node(
        f"node{index + 1:05d}",
        chassis,
        tuple(_seats(key, chassis, gpus)),
        key=key,
        began=began,
        labels={"rack": f"r{index // _RACK + 1:03d}", "room": f"hall-{index // 512 + 1}"},
    )


def _seats(key: str, chassis: Chassis, gpus: int) -> Iterator[Seat]:
    thrown, index = dice(key, "seats"), 0
    while index < gpus:
        group = min(thrown.choice(_GROUPS), gpus - index)
        custom = Custom(
            key=f"{key}-{index}",
            period_seconds=thrown.uniform(240.0, 2400.0),
            cards=group,
            keenness=0.85,
            manager=thrown.choice(("slurm", "pod", "bare")),
        )
        for rank in range(group):
            resting = at_rest(chassis.card, f"GPU-{hyphenated(thrown)}", index + rank)
            yield Visited(chassis.card, resting, custom, rank)
        index += group
