"""Candidates for a request: the GPUs and MIG instances of a node that may be offered."""

import re
from collections.abc import Iterator

from msgspec import Struct

from fleet_smi.errors import UsageError
from fleet_smi.model.fleet import (
    JudgedDevice,
    JudgedGpu,
    JudgedInstance,
    NodeView,
)
from fleet_smi.model.snapshot import Vendor
from fleet_smi.model.verdict.readings import free_memory, total_memory

_MAX_CELSIUS = 150.0


class GpuRequest(Struct, frozen=True, kw_only=True):
    """A request for GPUs; a `count` of 0 requests all there are.

    `model` are words that the model's name must contain, `node` is a regular expression for node
    names. Only GPUs of one vendor are offered, because programs and indices are specific to one:
    the requested vendor, else NVIDIA where there is any. `cuda_visible_devices` is that variable
    of the caller, for its own machine: NVIDIA GPUs outside it are not offered.
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
    def label(self) -> str:
        """Its short name: "gpu03:1", or "gpu03:1:0" for an instance."""
        label = f"{self.node}:{self.index}"
        return label if self.part is None else f"{label}:{self.part}"


def matches_node(node: NodeView, request: GpuRequest) -> bool:
    """Whether the name of a node matches; raise `UsageError` for a bad regular expression."""
    if request.node is None:
        return True
    try:
        return re.search(request.node, node.name) is not None
    except re.error as exc:
        raise UsageError(f"{request.node!r} is not a regular expression: {exc}") from None


def node_candidates(node: NodeView, request: GpuRequest) -> Iterator[Candidate]:
    """Yield the devices of a node that match the requested node name and model, in any state.

    A silent node has none. The caller checks all other conditions of the request.
    """
    if node.silent or not matches_node(node, request):
        return
    taken = sum(gpu.verdict.state not in ("free", "leased") for gpu in node.gpus)
    words = (request.model or "").casefold().split()
    for gpu in node.gpus:
        for part, judged in _parts(gpu):
            model = _model(gpu, judged)
            if all(word in (model or "").casefold() for word in words):
                yield Candidate(
                    node_id=node.node_id,
                    node=node.name,
                    index=gpu.index,
                    uuid=judged.uuid,
                    vendor=gpu.vendor,
                    model=model,
                    gpu=gpu,
                    instance=judged if isinstance(judged, JudgedInstance) else None,
                    free_memory_bytes=_free_memory(gpu, judged),
                    temperature_celsius=_celsius(gpu),
                    taken_beside=taken,
                    part=part,
                    ssh_host=node.ssh_host,
                )


def _parts(gpu: JudgedGpu) -> list[tuple[int | None, JudgedDevice]]:
    """Return what can be offered of a GPU: itself, or its instances instead."""
    if not gpu.instances:
        return [(None, gpu)]
    return [(number, instance) for number, instance in enumerate(gpu.instances)]


def _model(gpu: JudgedGpu, judged: JudgedDevice) -> str | None:
    profile = judged.profile if isinstance(judged, JudgedInstance) else None
    return " ".join(filter(None, (gpu.name, profile))) or None


def _free_memory(gpu: JudgedGpu, judged: JudgedDevice) -> int | None:
    # A sleeping card holds no memory, though its driver cannot say so without waking it.
    return total_memory(judged) if gpu.asleep else free_memory(judged)


def _celsius(gpu: JudgedGpu) -> float | None:
    # A sentinel such as 0 or -1 must not win as the coolest card.
    value = gpu.temperature_celsius
    return value if value is not None and 0 < value < _MAX_CELSIUS else None
