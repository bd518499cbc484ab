"""The snapshot: everything read from one node at one time; immutable.

`None` is "not measured", never zero; the unit is in the name. `unread` says why a field of the
same struct is `None`, where there is a reason other than that it was not requested.
"""

from typing import Literal

from msgspec import Struct

Vendor = Literal["nvidia", "amd", "intel"]
ProcessKind = Literal["compute", "graphics", "compute+graphics", "mps"]
Condition = Literal["zombie", "uninterruptible"]
FaultKind = Literal[
    "lost", "needs_reset", "slow", "not_answering", "mismatch", "missing", "unreadable"
]
Outcome = Literal["ok", "absent", "failed"]
NOT_REPORTED_BY = "not reported by "
"""Begins the text in `unread` of a field that another tool's report does not have; its name
follows. Such a field is not unreadable: nobody tried to read it."""
PERSISTENCE_REMEDY = (
    "persistence mode is off; switch it on: systemctl enable --now nvidia-persistenced"
)
NOT_ANSWERING_REMEDY = "look for Xid in the kernel log (dmesg); a reboot is likely needed"


# `gc=False` throughout: the garbage collector need not traverse these structs, because they are
# immutable trees and cannot form reference cycles.
class Process(Struct, frozen=True, kw_only=True, gc=False):
    """One process on one GPU; `hidden` when only the driver's own figures are known of it.

    `pid_is_made` marks a synthetic pid, larger than any real one, where none was reported.
    """

    pid: int
    pid_is_made: bool = False
    parent_pid: int | None = None
    kind: ProcessKind
    gpu_memory_bytes: int | None = None
    user: str | None = None
    uid: int | None = None
    group: str | None = None
    name: str | None = None
    command: str | None = None
    started_at: float | None = None
    busy_percent: float | None = None
    cpu_percent: float | None = None
    host_memory_bytes: int | None = None
    container: str | None = None
    pod: str | None = None
    slurm_job: str | None = None
    condition: Condition | None = None
    hidden: bool = False


class Fault(Struct, frozen=True, kw_only=True, gc=False):
    """Why a GPU cannot be used or read, as the driver says it, and what to do."""

    kind: FaultKind
    detail: str
    remedy: str | None = None
    since: float | None = None


class Lease(Struct, frozen=True, kw_only=True, gc=False):
    """A claim on a GPU or instance, made before its work is visible.

    `holder` is the user that holds it by what the kernel says; `command`, `note` and `until` are
    what the holder wrote beside it. `scheduler` and `job` are given where a batch system (Slurm)
    has allocated the GPU.
    """

    holder: str
    taken_at: float
    scheduler: str | None = None
    job: str | None = None
    uid: int | None = None
    pid: int | None = None
    until: float | None = None
    command: str | None = None
    note: str | None = None


class Instance(Struct, frozen=True, kw_only=True, gc=False):
    """A MIG instance: a slice of a GPU with its own memory and processes."""

    uuid: str
    uuid_is_made: bool = False
    gpu_instance_id: int | None = None
    compute_instance_id: int | None = None
    profile: str | None = None
    memory_used_bytes: int | None = None
    memory_total_bytes: int | None = None
    busy_percent: float | None = None
    processes: tuple[Process, ...] | None = None
    more_processes: int = 0
    lease: Lease | None = None
    unread: dict[str, str] = {}


class Gpu(Struct, frozen=True, kw_only=True, gc=False):
    """A device, known by its UUID; the index is only for display.

    `processes` is `None` when the list could not be read, and empty when there is none;
    `more_processes` are not in the list, which has a limit (`process_limit.py`).
    `memory_shared` marks a device without memory of its own: the figures are the host's.
    `uuid_is_made` marks a placeholder where no UUID is reported: CUDA does not accept it.
    `ecc_contained` says that the card confines uncorrectable errors to the process that met them,
    `reset_pending` what waits for a reset once nobody uses it. `processes_hidden` marks a list
    made inside a container or pid namespace, from where other processes cannot be seen, and
    `reported_by` names the older tool that reported it. `nvlink_links` is `None` for a card without
    NVLink; the rates over its links are means over the time between two readings of their counters.
    """

    uuid: str
    uuid_is_made: bool = False
    index: int
    vendor: Vendor
    name: str | None = None
    pci_bus_id: str | None = None
    memory_used_bytes: int | None = None
    memory_total_bytes: int | None = None
    memory_shared: bool = False
    busy_percent: float | None = None
    memory_busy_percent: float | None = None
    encoder_percent: float | None = None
    decoder_percent: float | None = None
    temperature_celsius: float | None = None
    fan_percent: float | None = None
    power_watts: float | None = None
    power_limit_watts: float | None = None
    sm_clock_mhz: int | None = None
    sm_clock_max_mhz: int | None = None
    memory_clock_mhz: int | None = None
    memory_clock_max_mhz: int | None = None
    performance_state: str | None = None
    throttle_reasons: tuple[str, ...] | None = None
    ecc_corrected: int | None = None
    ecc_uncorrected: int | None = None
    ecc_contained: bool | None = None
    reset_pending: str | None = None
    pcie_generation: int | None = None
    pcie_generation_max: int | None = None
    pcie_width: int | None = None
    pcie_width_max: int | None = None
    pcie_rx_bytes_per_second: int | None = None
    pcie_tx_bytes_per_second: int | None = None
    nvlink_links: int | None = None
    nvlink_links_active: int | None = None
    nvlink_rx_bytes_per_second: int | None = None
    nvlink_tx_bytes_per_second: int | None = None
    memory_temperature_celsius: float | None = None
    energy_joules: float | None = None
    persistence: bool | None = None
    compute_mode: str | None = None
    mig_mode: bool | None = None
    asleep: bool = False
    instances: tuple[Instance, ...] = ()
    processes: tuple[Process, ...] | None = None
    more_processes: int = 0
    processes_hidden: bool = False
    reported_by: str | None = None
    fault: Fault | None = None
    lease: Lease | None = None
    unread: dict[str, str] = {}


class Host(Struct, frozen=True, kw_only=True, gc=False):
    """The machine around the GPUs; `interfaces` has the network interface of each address.

    `pid_namespace` says that it was read from inside a container.
    """

    addresses: tuple[str, ...] = ()
    interfaces: dict[str, str] = {}
    kernel: str | None = None
    driver_version: str | None = None
    cuda_version: str | None = None
    booted_at: float | None = None
    cpu_count: int | None = None
    cpu_percent: float | None = None
    load_1_minute: float | None = None
    load_5_minutes: float | None = None
    load_15_minutes: float | None = None
    memory_used_bytes: int | None = None
    memory_total_bytes: int | None = None
    pid_namespace: bool | None = None


class CollectorRun(Struct, frozen=True, kw_only=True, gc=False):
    """The outcome of one collector: `absent` is expected, `failed` is not.

    `detail` is the error or, after `ok`, what it cannot read, as the end of the sentence "read
    through NAME, which ...". `fault` is what a failure means for the devices that it should have
    read.
    """

    name: str
    outcome: Outcome
    seconds: float
    detail: str = ""
    fault: FaultKind | None = None


class Snapshot(Struct, frozen=True, kw_only=True, gc=False):
    """Everything read from one node at one time.

    `sequence` counts the snapshots of one `run_id`, that is one run of the agent, from 1.
    """

    node_id: str
    name: str
    taken_at: float
    interval_seconds: float | None = None
    sequence: int = 0
    run_id: str | None = None
    boot_id: str | None = None
    agent_version: str | None = None
    labels: dict[str, str] = {}
    host: Host = Host()
    gpus: tuple[Gpu, ...] = ()
    runs: tuple[CollectorRun, ...] = ()
