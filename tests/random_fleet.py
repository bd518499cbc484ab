"""Fleets at random: every vendor, MIG, shared and hidden processes, faults, nodes of one name."""

from random import Random
from typing import Any

from fleet_smi.fleet.fleet import FleetState, Via
from fleet_smi.model.snapshot import CollectorRun, Fault, Gpu, Process, Snapshot
from fleet_smi.model.units import GIB, MIB
from tests.builders import NOON, gpu, instance, process, snapshot

USERS = ("alice", "bob", "carol", "山田", None)
MODELS = {
    "NVIDIA H100 80GB HBM3": ("nvidia", 80),
    "NVIDIA A100-SXM4-40GB": ("nvidia", 40),
    "AMD Instinct MI300X": ("amd", 192),
}


def random_fleet(seed: int, nodes: int) -> FleetState:
    """A fleet at `NOON` + 100 seconds, in which some nodes are silent."""
    chance, fleet = Random(seed), FleetState()
    for number in range(nodes):
        taken = random_snapshot(chance, number)
        fleet.apply(taken, taken.taken_at, Via("push", taken.node_id))
        if chance.random() < 0.5:  # a second sample, so that there is a window
            later = random_snapshot(chance, number, sequence=2, taken_at=taken.taken_at + 20)
            fleet.apply(later, later.taken_at, Via("push", later.node_id))
    if chance.random() < 0.5:
        fleet.record_failure(Via("pull", "gpu99:7071"), "connection refused", NOON)
    return fleet


def random_snapshot(
    chance: Random, number: int, sequence: int = 1, taken_at: float | None = None
) -> Snapshot:
    """One node; two of them may have one name."""
    name, (vendor, gibibytes) = chance.choice(list(MODELS.items()))
    cards = [
        _gpu(chance, number, index, name, vendor, gibibytes)
        for index in range(chance.choice((0, 1, 2, 8)))
    ]
    runs = (CollectorRun(name="nvidia", outcome="failed", seconds=0.1, detail="no driver"),)
    return snapshot(
        *cards,
        node_id=f"id-{number}",
        name=f"gpu{number % 7}",
        taken_at=NOON + chance.choice((0.0, 90.0)) if taken_at is None else taken_at,
        sequence=sequence,
        run_id="run",
        interval_seconds=10.0,
        labels={"rack": chance.choice("ab")},
        runs=runs if chance.random() < 0.2 else (),
    )


def _gpu(chance: Random, number: int, index: int, name: str, vendor: Any, gibibytes: int) -> Gpu:
    fields: dict[str, Any] = {}
    if chance.random() < 0.1:
        fields["fault"] = Fault(kind="lost", detail="fell off the bus")
    if chance.random() < 0.15 and vendor == "nvidia":
        fields["mig_mode"] = True
        fields["instances"] = tuple(
            instance(part, uuid=f"MIG-{number}-{index}-{part}", processes=_processes(chance))
            for part in range(2)
        )
    else:
        fields["processes"] = _processes(chance)
    used = chance.choice((None, 4 * MIB, 700 * MIB, gibibytes * GIB // 2))
    return gpu(
        index,
        uuid=f"GPU-{number}-{index}",
        vendor=vendor,
        name=chance.choice((name, name, name, None)),
        memory_total_bytes=chance.choice((gibibytes * GIB, None)),
        memory_used_bytes=used,
        busy_percent=chance.choice((None, 0.0, 3.0, 97.0)),
        temperature_celsius=chance.choice((None, 0.0, 31.0, 80.0)),
        asleep=chance.random() < 0.1,
        **fields,
    )


def _processes(chance: Random) -> tuple[Process, ...] | None:
    if chance.random() < 0.1:
        return None
    return tuple(
        process(
            100 + at,
            chance.choice(USERS),
            uid=chance.choice((None, 1000)),
            kind=chance.choice(("compute", "compute", "graphics")),
            name=chance.choice(("python", "Xorg")),
            gpu_memory_bytes=chance.choice((None, 512 * MIB)),
        )
        for at in range(chance.choice((0, 0, 1, 1, 2)))
    )
