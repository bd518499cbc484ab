"""Device uses: the state, the holders and the weight of each GPU and MIG instance of a node."""

from collections.abc import Iterable, Iterator, Mapping, Sequence

from msgspec import Struct

from fleet_smi.hub.history.series.layout import BUSY_INDEX, POWER_INDEX, gpu_offset
from fleet_smi.model.fleet import State
from fleet_smi.model.history import Holder
from fleet_smi.model.mig import instance_weights
from fleet_smi.model.people import HIDDEN_USER, compute_or_all_processes, owner
from fleet_smi.model.snapshot import Gpu, Lease, Process
from fleet_smi.model.verdict.hysteresis import Standing
from fleet_smi.model.verdict.readings import is_display, is_service

_IN_USE_STATES: tuple[State, ...] = ("busy", "held", "ghost")
# In these states there is a process, even where none is visible to the agent.
_STATES_WITH_HOLDER: tuple[State, ...] = ("busy", "held")
_HIDDEN_HOLDER = Holder(pid=0, user=HIDDEN_USER)
_MAX_COMMAND_CHARACTERS = 400
# A list of processes that cannot be read for longer than this says nothing about who is there.
_MAX_UNLISTED_SECONDS = 600.0


class DeviceUse(Struct, frozen=True, array_like=True, gc=False):
    """A GPU or MIG instance with its state and the processes on it.

    `weight` is the fraction of a GPU that it counts as. `busy_index` and `power_index` are the
    columns of its load and of its GPU's power in the samples of the node; `None` where it has
    no such column. Its time is charged to its holders while it `is_in_use`. It counts as time in
    `charged_state` where that differs from its state. `skew` is the seconds by which the hub's
    clock is ahead of the node's, which the starts of its holders are by. Its holders are those of
    before where they `could_not_be_listed`. While it is held, `idle_seconds` is for how long; while
    it is leased, `lease` says by whom and what for.
    """

    uuid: str
    state: State
    reason: str
    weight: float = 1.0
    busy_index: int | None = None
    power_index: int | None = None
    holders: tuple[Holder, ...] = ()
    charged_state: State | None = None
    skew: float = 0.0
    could_not_be_listed: bool = False
    idle_seconds: float | None = None
    lease: tuple[str, str | None] | None = None

    @property
    def is_in_use(self) -> bool:
        """Whether its time is charged to its holders."""
        return self.state in _IN_USE_STATES


def device_uses(
    gpus: Iterable[Gpu], standings: Mapping[str, Standing], uuids: Sequence[str]
) -> list[DeviceUse]:
    """The uses of these GPUs and their instances; `uuids` is the column order of the samples."""
    offsets = {uuid: gpu_offset(index) for index, uuid in enumerate(uuids)}
    return [use for gpu in gpus for use in _gpu_uses(gpu, standings, offsets)]


def missing_devices(
    standings: Mapping[str, Standing], present: Iterable[DeviceUse]
) -> list[DeviceUse]:
    """Uses for devices that have a verdict but are not in the snapshot."""
    present_uuids = {use.uuid for use in present}
    return [
        _device_use(uuid, standing)
        for uuid, standing in standings.items()
        if uuid not in present_uuids
    ]


def _gpu_uses(
    gpu: Gpu, standings: Mapping[str, Standing], offsets: Mapping[str, int]
) -> Iterator[DeviceUse]:
    """The use of the GPU itself, then those of its instances; their weights add up to 1."""
    instance_pids = {
        process.pid for instance in gpu.instances for process in instance.processes or ()
    }
    unassigned = [process for process in gpu.processes or () if process.pid not in instance_pids]
    # Where the driver does not say which instance a process is on, charge the GPU as a whole.
    is_whole = not gpu.instances or (bool(unassigned) and not instance_pids)
    weights = [0.0 if is_whole else weight for weight in instance_weights(gpu)]
    # Instances have no power reading: their processes share the power of the GPU.
    power_index = offsets[gpu.uuid] + POWER_INDEX
    yield _device_use(
        gpu.uuid,
        standings[gpu.uuid],
        unassigned,
        weight=max(0.0, 1.0 - sum(weights)),
        busy_index=offsets[gpu.uuid] + BUSY_INDEX if is_whole else None,
        power_index=power_index,
        # Else it is busy because an instance is. What is left over is free, even so.
        may_be_hidden=not gpu.instances,
        charged_state="free" if gpu.instances and not unassigned else None,
        is_listed=gpu.processes is not None,
        lease=gpu.lease,
    )
    for instance, weight in zip(gpu.instances, weights, strict=True):
        yield _device_use(
            instance.uuid,
            standings[instance.uuid],
            instance.processes or (),
            weight=weight,
            busy_index=offsets[instance.uuid] + BUSY_INDEX,
            power_index=power_index,
            is_listed=instance.processes is not None,
            lease=instance.lease,
        )


def _device_use(
    uuid: str,
    standing: Standing,
    processes: Sequence[Process] = (),
    *,
    weight: float = 1.0,
    busy_index: int | None = None,
    power_index: int | None = None,
    may_be_hidden: bool = True,
    charged_state: State | None = None,
    is_listed: bool = True,
    lease: Lease | None = None,
) -> DeviceUse:
    verdict, state = standing.verdict, standing.verdict.state
    if standing.has_use_ended and standing.candidate is not None:
        # It is called busy while its use may come back, but nobody uses it.
        state = standing.candidate
    holders = [_holder(process) for process in _holding_processes(state, processes)]
    # In a fixed order, because consecutive reports are compared pairwise.
    holders.sort(key=lambda holder: holder.pid)
    if not holders and may_be_hidden and state in _STATES_WITH_HOLDER:
        holders = [_HIDDEN_HOLDER]
    return DeviceUse(
        uuid,
        verdict.state,
        verdict.reason,
        weight,
        busy_index,
        power_index,
        tuple(holders),
        charged_state if verdict.state in _IN_USE_STATES else None,
        standing.window.skew,
        not is_listed and _was_listed_lately(standing),
        verdict.idle_seconds if verdict.state == "held" else None,
        (lease.holder, lease.note) if verdict.state == "leased" and lease is not None else None,
    )


def _was_listed_lately(standing: Standing) -> bool:
    listed_at = standing.window.listed_at
    return listed_at is not None and standing.window.last_at - listed_at < _MAX_UNLISTED_SECONDS


def _holding_processes(state: State, processes: Sequence[Process]) -> Sequence[Process]:
    if state in _IN_USE_STATES:
        return compute_or_all_processes(processes)
    return [process for process in processes if not (is_display(process) or is_service(process))]


def _holder(process: Process) -> Holder:
    command = process.command
    return Holder(
        pid=process.pid,
        user=owner(process),
        group=process.group,
        name=process.name,
        command=None if command is None else command[:_MAX_COMMAND_CHARACTERS],
        container=process.container,
        slurm_job=process.slurm_job,
        started_at=process.started_at,
        memory_bytes=process.gpu_memory_bytes,
    )
