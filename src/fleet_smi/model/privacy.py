"""Privacy of command lines: secrets are redacted, the rest is masked by the viewer's role.

What needs no change is not copied: the very same object is returned.
"""

from collections.abc import Callable, Iterator
from typing import TypeVar

from msgspec.structs import replace

from fleet_smi.model.command_visibility import CommandVisibility
from fleet_smi.model.fleet import FleetView, NodeView
from fleet_smi.model.redaction.redact import may_have_secrets, redact
from fleet_smi.model.script_name import script_command
from fleet_smi.model.snapshot import Gpu, Instance, Lease, Process, Snapshot

ProcessTransform = Callable[[Process], Process]
View = TypeVar("View", FleetView, NodeView, Snapshot)
_Machine = TypeVar("_Machine", Snapshot, NodeView)
_Device = TypeVar("_Device", bound=Gpu | Instance)
_Item = TypeVar("_Item")


def redact_snapshot(snapshot: Snapshot) -> Snapshot:
    """Return the snapshot without secrets in the names and command lines of its processes.

    Whoever sent it: fleet-smi's agents redact before anything leaves their machine, but a hub
    cannot know that a report is from one of them, nor from which version.
    """
    # One test of all lines together: most nodes have nothing that looks like a secret.
    lines = "\n".join(_texts(snapshot))
    return _machine(snapshot, _without_secrets) if may_have_secrets(lines) else snapshot


def mask_commands(view: View, visibility: CommandVisibility) -> View:
    """Return the view with command lines in full, as scripts or program names, or without any."""
    if visibility == "full":
        return view
    change = _CHANGES[visibility]
    if isinstance(view, FleetView):
        nodes = _unless_same(view.nodes, [_machine(node, change) for node in view.nodes])
        return view if nodes is view.nodes else replace(view, nodes=nodes)
    return _machine(view, change)


def _texts(snapshot: Snapshot) -> Iterator[str]:
    for gpu in snapshot.gpus:
        devices: tuple[Gpu | Instance, ...] = (gpu, *gpu.instances) if gpu.instances else (gpu,)
        for device in devices:
            for process in device.processes or ():
                if process.command:
                    yield process.command
                if process.name:
                    yield process.name
            if (lease := device.lease) is not None:
                yield f"{lease.command}\n{lease.note}"


def _without_secrets(process: Process) -> Process:
    # The name too: a program may write anything into its own `argv[0]`.
    command, name = (
        process.command and redact(process.command),
        process.name and redact(process.name),
    )
    if command == process.command and name == process.name:
        return process
    return replace(process, command=command, name=name)


def _script_only(process: Process) -> Process:
    script = process.command and script_command(process.command)
    return process if script == process.command else replace(process, command=script)


def _name_only(process: Process) -> Process:
    return process if process.command is None else replace(process, command=None)


def _neither(process: Process) -> Process:
    if process.command is None and process.name is None:
        return process
    return replace(process, command=None, name=None)


_CHANGES = {"script": _script_only, "name": _name_only, "hidden": _neither}


def _machine(machine: _Machine, change: ProcessTransform) -> _Machine:
    gpus = _unless_same(machine.gpus, [_gpu(gpu, change) for gpu in machine.gpus])
    return machine if gpus is machine.gpus else replace(machine, gpus=gpus)


def _gpu(gpu: Gpu, change: ProcessTransform) -> Gpu:
    if gpu.instances:
        instances = _unless_same(
            gpu.instances, [_device(instance, change) for instance in gpu.instances]
        )
        gpu = gpu if instances is gpu.instances else replace(gpu, instances=instances)
    return _device(gpu, change)


def _device(device: _Device, change: ProcessTransform) -> _Device:
    if device.lease is not None:
        device = _with_lease(device, device.lease, change)
    if not device.processes:
        return device
    processes = _unless_same(device.processes, [change(process) for process in device.processes])
    return device if processes is device.processes else replace(device, processes=processes)


def _with_lease(device: _Device, lease: Lease, change: ProcessTransform) -> _Device:
    """Return the device with what may be shown of its lease: a program's name, and a note."""
    # A lease has no command line, only the name of the program: it is treated as a name.
    shown = change(Process(pid=0, kind="compute", name=lease.command))
    note = lease.note and redact(lease.note)
    if shown.name == lease.command and note == lease.note:
        return device
    return replace(device, lease=replace(lease, command=shown.name, note=note))


def _unless_same(old: tuple[_Item, ...], new: list[_Item]) -> tuple[_Item, ...]:
    """Return the old tuple where every item is the very same, else the new items."""
    # By identity, which is enough: each change returns its very argument where it changes nothing.
    same = all(one is other for one, other in zip(old, new, strict=True))
    return old if same else tuple(new)
