"""What of people's command lines goes where: secrets nowhere, the rest by who looks.

What has nothing to hide is not copied: the very same object comes back.
"""

from collections.abc import Callable
from typing import Literal, TypeVar

from msgspec.structs import replace

from fleet_smi.model.fleet import FleetView, NodeView
from fleet_smi.model.redact import redact
from fleet_smi.model.snapshot import Gpu, Instance, Process, Snapshot

CommandVisibility = Literal["full", "name", "hidden"]
ProcessTransform = Callable[[Process], Process]
View = TypeVar("View", FleetView, NodeView, Snapshot)
_Machine = TypeVar("_Machine", Snapshot, NodeView)
_Part = TypeVar("_Part", bound=Gpu | Instance)
_Thing = TypeVar("_Thing")


def redact_snapshot(snapshot: Snapshot) -> Snapshot:
    """The snapshot without secrets in its command lines; our own agents send none."""
    return _machine(snapshot, _without_secrets)


def mask_commands(view: View, visibility: CommandVisibility) -> View:
    """The view with command lines in full, as program names only, or without either."""
    if visibility == "full":
        return view
    change = _name_only if visibility == "name" else _nothing
    if isinstance(view, FleetView):
        nodes = _kept(view.nodes, [_machine(node, change) for node in view.nodes])
        return view if nodes is view.nodes else replace(view, nodes=nodes)
    return _machine(view, change)


def _without_secrets(process: Process) -> Process:
    command = process.command and redact(process.command)
    return process if command == process.command else replace(process, command=command)


def _name_only(process: Process) -> Process:
    return process if process.command is None else replace(process, command=None)


def _nothing(process: Process) -> Process:
    if process.command is None and process.name is None:
        return process
    return replace(process, command=None, name=None)


def _machine(machine: _Machine, change: ProcessTransform) -> _Machine:
    gpus = _kept(machine.gpus, [_gpu(gpu, change) for gpu in machine.gpus])
    return machine if gpus is machine.gpus else replace(machine, gpus=gpus)


def _gpu(gpu: Gpu, change: ProcessTransform) -> Gpu:
    if gpu.instances:
        parts = _kept(gpu.instances, [_part(part, change) for part in gpu.instances])
        gpu = gpu if parts is gpu.instances else replace(gpu, instances=parts)
    return _part(gpu, change)


def _part(part: _Part, change: ProcessTransform) -> _Part:
    if not part.processes:
        return part
    processes = _kept(part.processes, [change(process) for process in part.processes])
    return part if processes is part.processes else replace(part, processes=processes)


def _kept(old: tuple[_Thing, ...], new: list[_Thing]) -> tuple[_Thing, ...]:
    """The old tuple where the new things are the very same."""
    same = all(one is other for one, other in zip(old, new, strict=True))
    return old if same else tuple(new)
