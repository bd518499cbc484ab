"""Who is on each GPU and instance of a node, how it stands, and how much of a GPU it counts."""

from collections.abc import Iterable, Iterator, Mapping, Sequence

from msgspec import Struct

from fleet_smi.hub.history.series.codec import BUSY_INDEX, POWER_INDEX, gpu_offset
from fleet_smi.model.fleet import State, Verdict
from fleet_smi.model.history import Holder
from fleet_smi.model.people import HIDDEN_USER, compute_or_all_processes, owner
from fleet_smi.model.snapshot import Gpu, Instance, Process
from fleet_smi.model.verdict.hysteresis import Standing
from fleet_smi.model.verdict.readings import is_display, is_mps_server

_TAKEN: tuple[State, ...] = ("busy", "held", "ghost")
# Somebody is there, even where no process can be seen.
_SOMEBODYS: tuple[State, ...] = ("busy", "held")
_UNSEEN = Holder(pid=0, user=HIDDEN_USER)
_LONGEST_COMMAND = 400
_SLICES = 7
# A start is told in whole seconds by some, and moves when the node's clock is set.
_SAME_START_SECONDS = 5.0


class DeviceUse(Struct, frozen=True, array_like=True, gc=False):
    """A GPU or instance that has a state of its own.

    `weight` is the part of a GPU that it counts as. `busy` and `power` are the places of its
    load and of its GPU's power among the figures of the node; `None` where there are none.
    Those on it hold it when it is `taken`.
    """

    uuid: str
    state: State
    reason: str
    weight: float = 1.0
    busy_index: int | None = None
    power_index: int | None = None
    holders: tuple[Holder, ...] = ()

    @property
    def is_in_use(self) -> bool:
        """Whether its time is that of somebody."""
        return self.state in _TAKEN


def is_same_process(first: Holder, second: Holder) -> bool:
    """Whether two samples show one process."""
    if first.pid != second.pid or first.user != second.user:
        return False
    if first.started_at is None or second.started_at is None:
        return True
    return abs(first.started_at - second.started_at) < _SAME_START_SECONDS


def device_uses(
    gpus: Iterable[Gpu], standings: Mapping[str, Standing], uuids: Sequence[str]
) -> list[DeviceUse]:
    """All of these GPUs; the figures of the node are of those `uuids`."""
    places = {uuid: gpu_offset(place) for place, uuid in enumerate(uuids)}
    return [part for gpu in gpus for part in _parts(gpu, standings, places)]


def missing_devices(
    standings: Mapping[str, Standing], present: Iterable[DeviceUse]
) -> list[DeviceUse]:
    """What was judged and is not among these: it is not there."""
    there = {part.uuid for part in present}
    return [_part(uuid, one.verdict) for uuid, one in standings.items() if uuid not in there]


def _parts(
    gpu: Gpu, standings: Mapping[str, Standing], places: Mapping[str, int]
) -> Iterator[DeviceUse]:
    placed = {one.pid for part in gpu.instances for one in part.processes or ()}
    rest = [one for one in gpu.processes or () if one.pid not in placed]
    # Where nobody tells which instance they are on, they have the GPU as a whole.
    whole = not gpu.instances or (bool(rest) and not placed)
    weights = [0.0 if whole else weight for weight in _weights(gpu)]
    power = places[gpu.uuid] + POWER_INDEX
    yield _part(
        gpu.uuid,
        standings[gpu.uuid].verdict,
        rest,
        weight=max(0.0, 1.0 - sum(weights)),
        busy=places[gpu.uuid] + BUSY_INDEX if whole else None,
        power=power,
        somebody=not gpu.instances,
    )
    for part, weight in zip(gpu.instances, weights, strict=True):
        yield _part(
            part.uuid,
            standings[part.uuid].verdict,
            part.processes or (),
            weight=weight,
            busy=places[part.uuid] + BUSY_INDEX,
            power=power,
        )


def _part(
    uuid: str,
    verdict: Verdict,
    processes: Sequence[Process] = (),
    *,
    weight: float = 1.0,
    busy: int | None = None,
    power: int | None = None,
    somebody: bool = True,
) -> DeviceUse:
    holders = [_holder(one) for one in _holding(verdict.state, processes)]
    holders.sort(key=lambda one: one.pid)
    if not holders and somebody and verdict.state in _SOMEBODYS:
        holders = [_UNSEEN]
    return DeviceUse(uuid, verdict.state, verdict.reason, weight, busy, power, tuple(holders))


def _holding(state: State, processes: Sequence[Process]) -> Sequence[Process]:
    if state in _TAKEN:
        return compute_or_all_processes(processes)
    return [one for one in processes if not (is_display(one) or is_mps_server(one))]


def _holder(process: Process) -> Holder:
    command = process.command
    return Holder(
        pid=process.pid,
        user=owner(process),
        group=process.group,
        name=process.name,
        command=None if command is None else command[:_LONGEST_COMMAND],
        container=process.container,
        slurm_job=process.slurm_job,
        started_at=process.started_at,
        memory_bytes=process.gpu_memory_bytes,
    )


def _weights(gpu: Gpu) -> list[float]:
    """The parts of a GPU that its instances are: never more than all of it."""
    weights = [_weight(part, gpu) for part in gpu.instances]
    most = max(1.0, sum(weights))
    return [weight / most for weight in weights]


def _weight(part: Instance, gpu: Gpu) -> float:
    """The part of a GPU that an instance is: "1g.10gb" is one of seven, else by its memory."""
    slices = (part.profile or "").partition("g.")[0]
    if slices.isdigit() and 0 < int(slices) <= _SLICES:
        return int(slices) / _SLICES
    if part.memory_total_bytes and gpu.memory_total_bytes:
        return min(1.0, part.memory_total_bytes / gpu.memory_total_bytes)
    return 1.0 / len(gpu.instances)
