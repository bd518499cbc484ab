"""Candidates for a request: the GPUs and MIG instances of a node that may be offered."""

import re

from msgspec import Struct
from msgspec.structs import replace

from fleet_smi.errors import UsageError
from fleet_smi.model.fleet import JudgedDevice, JudgedGpu, JudgedInstance, NodeView, Verdict
from fleet_smi.model.snapshot import Gpu, Instance, Vendor
from fleet_smi.model.verdict.readings import free_memory, total_memory
from fleet_smi.model.views import NodeParts

_MAX_CELSIUS = 150.0


class GpuRequest(Struct, frozen=True, kw_only=True):
    """A request for GPUs; a `count` of 0 requests all there are.

    `model` are words that the model's name must contain, `node` is a regular expression for node
    names. Only GPUs of one vendor are offered, because programs and indices are specific to one:
    the requested vendor, else NVIDIA where there is any. `cuda_visible_devices` is that variable
    of the caller, for its own machine: NVIDIA GPUs outside it are not offered. `person` is who
    asks: free GPUs that are kept for the bookings of others are not offered.
    """

    count: int = 0
    min_free_bytes: int = 0
    model: str | None = None
    node: str | None = None
    same_node: bool = False
    policy: str = "free"
    max_used_percent: float = 20.0
    vendor: Vendor | None = None
    cuda_visible_devices: str | None = None
    person: str | None = None


class Device(Struct, frozen=True, gc=False):
    """A GPU or MIG instance that may be offered, as it is in the parts of its node.

    `part` numbers the instances of one GPU, `device` is the instance where there is one.
    `taken_beside` counts the GPUs of its node that are neither free nor leased.
    """

    node: NodeView
    gpu: Gpu
    part: int | None
    device: Gpu | Instance
    verdict: Verdict
    taken_beside: int

    @property
    def uuid(self) -> str:
        """The UUID of the GPU or the instance."""
        return self.device.uuid

    @property
    def model(self) -> str | None:
        """The name of its model, with the profile of an instance."""
        return device_model(self.gpu, self.device)

    @property
    def free_memory_bytes(self) -> int | None:
        """Its memory that is not in use; `None` where that is not measured."""
        # A sleeping card holds no memory, though its driver cannot say so without waking it.
        return total_memory(self.device) if self.gpu.asleep else free_memory(self.device)

    @property
    def temperature_celsius(self) -> float | None:
        """The temperature of its GPU; `None` where that is not measured."""
        # A sentinel such as 0 or -1 must not win as the coolest card.
        value = self.gpu.temperature_celsius
        return value if value is not None and 0 < value < _MAX_CELSIUS else None

    @property
    def label(self) -> str:
        """Its short name: "gpu03:1", or "gpu03:1:0" for an instance."""
        return device_label(self.node.name, self.gpu.index, self.part)


class OfferedDevice(Struct, frozen=True, kw_only=True, omit_defaults=True, gc=False):
    """What names an offered GPU or MIG instance; the rest is there only where it is explained.

    `node_label` is the node's name made unique in the fleet, where that is another one.
    """

    node_id: str
    node: str
    index: int
    uuid: str
    part: int | None = None
    uuid_is_made: bool = False
    node_label: str | None = None
    ssh_host: str | None = None
    model: str | None = None
    verdict: Verdict | None = None
    free_memory_bytes: int | None = None
    temperature_celsius: float | None = None

    @property
    def label(self) -> str:
        """Its short name: "gpu03:1", or "gpu03:1:0" for an instance."""
        return device_label(self.node, self.index, self.part)


class Candidate(Struct, frozen=True, kw_only=True):
    """A GPU or MIG instance that may be offered.

    `part` numbers the instances of one GPU; `instance` is set where an instance is offered.
    `taken_beside` counts the GPUs of its node that are neither free nor leased. `node_label` is
    the node's name made unique in the fleet; it is set only on what is offered. `ssh_host` is
    where `ssh` reaches the node, as far as is known.
    """

    node_id: str
    node: str
    index: int
    uuid: str
    vendor: Vendor
    model: str | None
    gpu: JudgedGpu
    instance: JudgedInstance | None = None
    free_memory_bytes: int | None
    temperature_celsius: float | None = None
    taken_beside: int = 0
    part: int | None = None
    node_label: str | None = None
    ssh_host: str | None = None

    @property
    def judged(self) -> JudgedDevice:
        """The device that is offered: the GPU, or an instance of it."""
        return self.instance or self.gpu

    @property
    def verdict(self) -> Verdict:
        """The verdict on the device that is offered."""
        return self.judged.verdict

    @property
    def uuid_is_made(self) -> bool:
        """Whether its UUID is a placeholder, which CUDA does not accept."""
        return self.judged.uuid_is_made

    @property
    def label(self) -> str:
        """Its short name: "gpu03:1", or "gpu03:1:0" for an instance."""
        return device_label(self.node, self.index, self.part)


def device_label(node: str, index: int, part: int | None) -> str:
    """Return the short name of a device."""
    label = f"{node}:{index}"
    return label if part is None else f"{label}:{part}"


def device_model(gpu: Gpu, device: Gpu | Instance) -> str | None:
    """Return the name of the model of a device, with the profile of an instance."""
    if isinstance(device, Gpu):
        return gpu.name or None
    return " ".join(filter(None, (gpu.name, device.profile))) or None


def matches_node(node: NodeView, request: GpuRequest) -> bool:
    """Whether the name of a node matches; raise `UsageError` for a bad regular expression."""
    if request.node is None:
        return True
    try:
        return re.search(request.node, node.name) is not None
    except re.error as exc:
        raise UsageError(f"{request.node!r} is not a regular expression: {exc}") from None


def node_devices(parts: NodeParts) -> list[tuple[Gpu, int | None, Gpu | Instance, Verdict]]:
    """Return each device of a node: a GPU, or its instances instead; none while it is silent."""
    if parts.node.silent:
        return []
    found: list[tuple[Gpu, int | None, Gpu | Instance, Verdict]] = []
    for gpu, verdict in parts.gpus:
        if not gpu.instances:
            found.append((gpu, None, gpu, verdict))
            continue
        for part, instance in enumerate(gpu.instances):
            found.append((gpu, part, instance, parts.verdicts[instance.uuid]))
    return found


def count_taken(parts: NodeParts) -> int:
    """Count the GPUs of a node that are neither free nor leased."""
    return sum([verdict.state not in ("free", "leased") for _, verdict in parts.gpus])


def make_candidate(device: Device, gpu: JudgedGpu, node_label: str) -> Candidate:
    """Return the candidate for a device, given its GPU with the verdict on it."""
    instance = None if device.part is None else gpu.instances[device.part]
    return Candidate(
        node_id=device.node.node_id,
        node=device.node.name,
        index=gpu.index,
        uuid=device.uuid,
        vendor=gpu.vendor,
        model=device.model,
        gpu=gpu,
        instance=instance,
        free_memory_bytes=device.free_memory_bytes,
        temperature_celsius=device.temperature_celsius,
        taken_beside=device.taken_beside,
        part=device.part,
        node_label=node_label,
        ssh_host=device.node.ssh_host,
    )


def name_device(device: Device, node_label: str, *, explain: bool) -> OfferedDevice:
    """Return what names a device that is offered; with `explain`, also what it was chosen for."""
    node = device.node
    found = OfferedDevice(
        node_id=node.node_id,
        node=node.name,
        index=device.gpu.index,
        uuid=device.uuid,
        part=device.part,
        uuid_is_made=device.device.uuid_is_made,
        node_label=None if node_label == node.name else node_label,
        ssh_host=node.ssh_host,
    )
    if not explain:
        return found
    return replace(
        found,
        model=device.model,
        verdict=device.verdict,
        free_memory_bytes=device.free_memory_bytes,
        temperature_celsius=device.temperature_celsius,
    )
