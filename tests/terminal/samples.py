"""Sample fleets for the screen tests, one per kind of machine."""

from datetime import UTC, datetime
from typing import Any

from fleet_smi.model.fleet import (
    STATES,
    FleetView,
    JudgedGpu,
    JudgedInstance,
    NodeView,
    Note,
    State,
    Summary,
    Verdict,
)
from fleet_smi.model.snapshot import CollectorRun, Fault, Host, Process
from fleet_smi.model.units import GIB

NOW = datetime(2026, 3, 4, 14, 6, 11, tzinfo=UTC).timestamp()  # a Wednesday
HOUR = 3600.0
H100 = "NVIDIA H100 80GB HBM3"


def utc(at: float) -> datetime:
    return datetime.fromtimestamp(at, UTC)


def gib(count: float) -> int:
    return int(count * GIB)


def verdict(state: State, reason: str = "", **fields: Any) -> Verdict:
    return Verdict(
        state=state, reason=reason or f"it is {state}", **{"since": NOW - 5 * HOUR, **fields}
    )


def process(user: str | None, memory: float | None = 1.0, **fields: Any) -> Process:
    shown: dict[str, Any] = {
        "pid": 19028,
        "kind": "compute",
        "user": user,
        "gpu_memory_bytes": None if memory is None else gib(memory),
        "started_at": NOW - 52 * HOUR,
        "command": "python train.py --config big.yaml --seed 17",
    }
    return Process(**(shown | fields))


def hidden_process(pid: int = 7001, memory: float = 30.0) -> Process:
    return Process(pid=pid, kind="compute", gpu_memory_bytes=gib(memory), hidden=True)


def gpu(index: int, judged: Verdict, used: float | None = 0.0, **fields: Any) -> JudgedGpu:
    measured: dict[str, Any] = {
        "uuid": f"GPU-{index:08d}-aaaa-bbbb-cccc-000000000000",
        "index": index,
        "vendor": "nvidia",
        "name": H100,
        "memory_used_bytes": None if used is None else gib(used),
        "memory_total_bytes": gib(79.6),
        "busy_percent": 0.0,
        "temperature_celsius": 33.0,
        "power_watts": 71.0,
        "power_limit_watts": 700.0,
        "sm_clock_mhz": 345,
        "memory_clock_mhz": 2619,
        "performance_state": "P0",
        "pcie_generation": 5,
        "pcie_width": 16,
        "nvlink_links": 18,
        "nvlink_links_active": 17,
        "nvlink_rx_bytes_per_second": 41_300_000_000,
        "nvlink_tx_bytes_per_second": 0,
        "ecc_uncorrected": 0,
        "processes": (),
    }
    return JudgedGpu(verdict=judged, **(measured | fields))


def busy_gpu(
    index: int,
    *processes: Process,
    used: float = 60.0,
    judged: Verdict | None = None,
    **fields: Any,
) -> JudgedGpu:
    working = {
        "busy_percent": 96.0,
        "temperature_celsius": 66.0,
        "power_watts": 628.0,
        "sm_clock_mhz": 1980,
        "processes": processes,
    }
    return gpu(index, judged or verdict("busy"), used, **(working | fields))


def node(name: str, *gpus: JudgedGpu, **fields: Any) -> NodeView:
    known: dict[str, Any] = {
        "node_id": f"id-{name}",
        "name": name,
        "taken_at": NOW - 2,
        "age_seconds": 2.0,
        "host": Host(driver_version="590.48.01", cuda_version="13.1"),
        "gpus": gpus,
    }
    return NodeView(**(known | fields))


def fleet(*nodes: NodeView) -> FleetView:
    states = [gpu.verdict.state for node in nodes for gpu in node.gpus]
    return FleetView(
        taken_at=NOW,
        summary=Summary(
            gpus=len(states),
            nodes=len(nodes),
            nodes_reporting=sum(not node.silent for node in nodes),
            **{state: states.count(state) for state in STATES},
        ),
        nodes=nodes,
    )


def eight() -> NodeView:
    """One machine with a GPU in nearly every state."""
    alice = process("alice", 54.1)
    return node(
        "gpu01",
        busy_gpu(0, alice, process("alice", 5.2, pid=19031, command="python eval.py")),
        busy_gpu(1, process("alice", 59.4, pid=19029), temperature_celsius=67.0),
        gpu(
            2,
            verdict("held", "bob, idle for 3 h, 16.2 GiB allocated", idle_seconds=3 * HOUR),
            16.2,
            power_watts=98.0,
            temperature_celsius=41.0,
            processes=(process("bob", 15.8, pid=4411, command="jupyter-kernel", container="nb-7"),),
        ),
        gpu(3, verdict("free", "nobody on it")),
        gpu(4, verdict("ghost", "71.1 GiB used, no process accounts for it"), 71.1),
        busy_gpu(
            5,
            process("carol", 25.0, pid=801),
            process("root", 4.8, pid=802, command=None, name="dcgmproftester"),
            used=30.1,
            busy_percent=None,
            power_watts=402.0,
            temperature_celsius=58.0,
            unread={"busy_percent": "not supported while profiling"},
        ),
        lost_gpu(6),
        gpu(7, verdict("free", "nobody on it"), temperature_celsius=32.0, power_watts=70.0),
    )


def lost_gpu(index: int) -> JudgedGpu:
    return JudgedGpu(
        uuid=f"GPU-lost-{index}",
        index=index,
        vendor="nvidia",
        name=H100,
        fault=Fault(kind="lost", detail="fell off the bus", remedy="reboot the machine"),
        verdict=verdict("broken", "fell off the bus. Reboot the machine"),
    )


def mixed() -> NodeView:
    """A workstation with three models, one of them asleep, one with only a display."""
    xorg = process(
        "root", 0.3, kind="graphics", pid=1200, command="/usr/lib/xorg/Xorg :0", name="Xorg"
    )
    return node(
        "desk",
        busy_gpu(
            0,
            process("alice", 20.0),
            used=20.4,
            name="NVIDIA GeForce RTX 4090",
            memory_total_bytes=gib(24.0),
            fan_percent=55.0,
            pcie_generation=4,
            nvlink_links=None,
        ),
        gpu(
            1,
            verdict("free", "display only"),
            0.3,
            name="NVIDIA T400 4GB",
            memory_total_bytes=gib(4.0),
            fan_percent=30.0,
            power_watts=None,
            power_limit_watts=None,
            pcie_generation=1,
            processes=(xorg,),
        ),
        gpu(
            2,
            verdict("free", "asleep; not woken"),
            None,
            name="NVIDIA RTX PRO 6000 Blackwell Workstation Edition",
            asleep=True,
            processes=None,
            memory_total_bytes=None,
            busy_percent=None,
            temperature_celsius=None,
            power_watts=None,
            power_limit_watts=None,
            sm_clock_mhz=None,
            memory_clock_mhz=None,
        ),
    )


def sliced() -> NodeView:
    """A100s, one of them divided into MIG instances."""

    def instance(
        at: int, profile: str, judged: Verdict, used: float, total: float, *who: Process
    ) -> JudgedInstance:
        return JudgedInstance(
            uuid=f"MIG-{at}",
            profile=profile,
            verdict=judged,
            memory_used_bytes=gib(used),
            memory_total_bytes=gib(total),
            processes=who,
        )

    a100: dict[str, Any] = {
        "name": "NVIDIA A100-SXM4-40GB",
        "memory_total_bytes": gib(40.0),
        "pcie_generation": 4,
    }
    held = verdict("held", "bob, idle for 3 h, judged by power", idle_seconds=3 * HOUR)
    return node(
        "mig01",
        busy_gpu(
            0,
            used=22.0,
            judged=verdict("busy", "1 of 3 instances free; alice and bob"),
            mig_mode=True,
            busy_percent=None,
            power_watts=180.0,
            instances=(
                instance(0, "3g.20gb", verdict("busy"), 17.9, 19.8, process("alice", 17.8, pid=31)),
                instance(1, "1g.5gb", held, 4.1, 4.8, process("bob", 4.0, pid=32)),
                instance(2, "1g.5gb+me", verdict("free", "nobody on it"), 0.0, 4.8),
            ),
            **a100,
        ),
        gpu(1, verdict("free", "nobody on it"), **a100),
    )


def unified() -> NodeView:
    """A machine whose GPU shares the memory of the host."""
    return node(
        "spark",
        busy_gpu(
            0,
            process("alice", 30.0),
            used=41.3,
            name="NVIDIA GB10",
            memory_shared=True,
            memory_total_bytes=gib(119.7),
            power_watts=42.0,
            power_limit_watts=None,
            pcie_generation=None,
            ecc_uncorrected=None,
        ),
    )


def silent() -> NodeView:
    was = ("busy (alice)", "busy (alice)", "held (bob)", "free")
    return node(
        "gpu07",
        *(
            gpu(at, verdict("unknown", f"silent for 4 min; was {each}", was=each), 30.0, name=H100)
            for at, each in enumerate(was)
        ),
        silent=True,
        age_seconds=240.0,
    )


def crowd() -> NodeView:
    """Many users, hidden processes, notes, a lease, and an unreadable process list."""
    names = ("dmitri.ivanov", "eve", "山田太郎", "françois", "grace")
    note = verdict(
        "busy", "works", notes=(Note("stalled", "100 % busy at idle power: probably stalled"),)
    )
    extra = verdict(
        "busy",
        "works",
        notes=(Note("unaccounted", "16.1 GiB more than its processes account for"),),
    )
    unread = verdict("busy", "in use; processes not readable")
    rtx: dict[str, Any] = {
        "name": "NVIDIA GeForce RTX 4090",
        "memory_total_bytes": gib(24.0),
        "fan_percent": 62.0,
    }
    people = [process(name, 4.0 - at / 2, pid=100 + at) for at, name in enumerate(names)]
    return node(
        "gpu02",
        busy_gpu(0, *people, used=17.0, **rtx),
        busy_gpu(
            1,
            process("alice", 9.0),
            hidden_process(7001, 3),
            hidden_process(7002, 2),
            used=14.2,
            **rtx,
        ),
        busy_gpu(2, hidden_process(7003, 20.0), used=20.1, busy_percent=55.0, **rtx),
        busy_gpu(3, process("eve", 4.0), used=4.2, judged=note, **rtx),
        busy_gpu(4, process("eve", 4.0), used=20.2, judged=extra, **rtx),
        busy_gpu(5, used=11.0, judged=unread, **(rtx | {"processes": None})),
        gpu(6, verdict("leased", "taken by grace 40 s ago"), **rtx),
        gpu(7, verdict("unknown", "memory not readable: cannot tell"), None, **rtx),
    )


def not_answering() -> NodeView:
    run = CollectorRun(
        name="nvidia", outcome="failed", seconds=5.0, detail="driver not answering since 14:02"
    )
    fault = Fault(kind="not_answering", detail="driver not answering since 14:02")
    broken = verdict("broken", "driver not answering since 14:02")
    stuck = (
        JudgedGpu(
            uuid=f"GPU-{at}", index=at, vendor="nvidia", name=H100, fault=fault, verdict=broken
        )
        for at in range(2)
    )
    return node("gpu05", *stuck, runs=(run,))


def no_gpu() -> NodeView:
    return node(
        "laptop",
        host=Host(),
        runs=(CollectorRun(name="nvidia", outcome="absent", seconds=0.0, detail="no driver"),),
    )


def lab() -> FleetView:
    """A fleet with all of these in it."""
    return fleet(eight(), crowd(), mixed(), not_answering(), silent(), no_gpu())
