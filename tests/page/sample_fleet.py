"""A small fleet with one of everything: each state, MIG, a silent node and one without a GPU."""

import time
from pathlib import Path
from typing import Any

from fleet_smi.fleet.delivery import Delivery
from fleet_smi.model.snapshot import CollectorRun, Fault, Gpu, Host, Instance, Process, Snapshot
from fleet_smi.model.units import GIB
from tests.builders import HOUR, MINUTE, gpu, instance, process, snapshot
from tests.machines import wait_until
from tests.scripted_source import ScriptedSource
from tests.server.threaded_hub import ThreadedHub

COMMAND = "python train.py --data /home/alice/secret-project"
COUNTS = {"free": 3, "busy": 2, "held": 1, "ghost": 1, "broken": 1, "unknown": 1, "leased": 1}
"""How many GPUs of the lab are in each state."""

_A100 = {"name": "NVIDIA A100-SXM4-40GB", "memory_total_bytes": 40 * GIB}
_MINUTES_IDLE = 12


def report_fleet(hub: ThreadedHub) -> None:
    """Report the whole fleet to a hub, and wait until every state is as expected."""
    hub.report(*_idle_for_minutes(_first()), token=hub.join("id-of-gpu01", "gpu01"))
    hub.join_and_report(_report(_a100(0), _a100(1), node="gpu02", labels={"rack": "a"}))
    hub.join_and_report(_report(_broken(), _ghost(), _closed(), node="gpu03", labels={"rack": "b"}))
    # Silent soon: with an interval of 0.1 s, no second report follows.
    hub.join_and_report(_report(gpu(0, uuid="GPU-silent"), node="gpu04", interval_seconds=0.1))
    hub.join_and_report(_report(node="cpu01"))
    wait_until(lambda: state_counts(hub) == COUNTS)


def hub_with_nodes(folder: Path, nodes: int) -> ThreadedHub:
    """Return a hub with this many nodes of one GPU, each used by a different user."""
    source = ScriptedSource()
    for at in range(nodes):
        used = gpu(0, uuid=f"GPU-{at}", processes=(process(user=f"user{at}"),))
        report = _report(used, node=f"gpu{at:03}")
        source.put(Delivery(source=source.name, target=report.name, result=report))
    return ThreadedHub(folder, [source])


def state_counts(hub: ThreadedHub) -> dict[str, int]:
    """Return the hub's own count of GPUs per state."""
    summary = hub.fleet().summary
    return {state: getattr(summary, state) for state in COUNTS}


def _first() -> tuple[Gpu, ...]:
    return (
        gpu(0, uuid="GPU-of-nobody"),
        _worked(1, _running(4711, "alice", 16, command=COMMAND), uuid="GPU-of-alice"),
        gpu(
            2,
            uuid="GPU-of-bob",
            memory_used_bytes=16 * GIB,
            processes=(_running(4712, "bob", 16, name="jupyter", busy_percent=0.0),),
        ),
        _worked(3, uuid="GPU-in-parts", mig_mode=True, busy_percent=None, instances=_parts()),
    )


def _parts() -> tuple[Instance, ...]:
    return (
        instance(1, memory_used_bytes=4 * GIB, processes=(_running(4713, "carol", 4),)),
        instance(2, profile="2g.20gb", memory_total_bytes=20 * GIB),
    )


def _worked(index: int, *processes: Process, **fields: Any) -> Gpu:
    used = sum(each.gpu_memory_bytes or 0 for each in processes)
    figures = {"busy_percent": 87.0, "memory_used_bytes": used, "power_watts": 512.0}
    return gpu(index, processes=processes, **(figures | fields))


def _running(pid: int, user: str, gibibytes: int, **fields: Any) -> Process:
    memory, started = gibibytes * GIB, time.time() - 2 * HOUR
    return process(pid, user, gpu_memory_bytes=memory, started_at=started, **fields)


def _a100(index: int) -> Gpu:
    return gpu(index, uuid=f"GPU-a100-{index}", **_A100)


def _broken() -> Gpu:
    fault = Fault(kind="lost", detail="fell off the bus", remedy="reboot the machine")
    return gpu(0, uuid="GPU-broken", fault=fault, memory_used_bytes=None, busy_percent=None)


def _ghost() -> Gpu:
    return gpu(1, uuid="GPU-ghost", memory_used_bytes=31 * GIB)


def _closed() -> Gpu:
    return gpu(2, uuid="GPU-closed", compute_mode="prohibited")


def _report(*gpus: Gpu, **fields: Any) -> Snapshot:
    usual: dict[str, Any] = {
        "taken_at": time.time(),
        "interval_seconds": 600.0,
        "host": Host(driver_version="570.172.08", cpu_percent=31.0, cpu_count=64),
        "runs": (CollectorRun(name="nvidia", outcome="ok", seconds=0.004),),
    }
    return snapshot(*gpus, **(usual | fields))


def _idle_for_minutes(gpus: tuple[Gpu, ...]) -> list[Snapshot]:
    """Return equal reports a minute apart: long enough for an idle process to count as held."""
    now = time.time()
    return [
        _report(
            *gpus, taken_at=now - ago * MINUTE, sequence=_MINUTES_IDLE - ago, labels={"rack": "a"}
        )
        for ago in range(_MINUTES_IDLE, -1, -1)
    ]
