"""The keys of the filter language: which texts and figures of a GPU each of them reads.

Figures are rounded as in the live stream, so that the page, which only has those, gives the same
result. The changing figures of a silent node are out of date and count as unknown.
"""

from collections.abc import Callable, Iterable, Mapping
from typing import Literal

from msgspec.structs import replace

from fleet_smi.model.candidates import device_model
from fleet_smi.model.card_size import device_gigabytes, memory_for_request
from fleet_smi.model.fleet import NodeView, Verdict
from fleet_smi.model.snapshot import Gpu, Instance
from fleet_smi.model.stream_payload_builder import (
    round_finite,
    to_mebibytes,
    unique_processes,
    visible_users,
)
from fleet_smi.model.units import MIB

TextKey = Literal[
    "word", "state", "node", "site", "model", "user", "label", "why", "driver", "gpu", "uuid"
]
FigureKey = Literal["mem", "used", "total", "load", "temp", "power", "idle"]
FigureGetter = Callable[[NodeView, Gpu, Verdict], float | None]
_NOMINAL_KEYS: tuple[FigureKey, ...] = ("mem", "total")
TextGetter = Callable[[NodeView, Gpu, Verdict], Iterable[str]]


def _known(*texts: str | None) -> list[str]:
    return [text for text in texts if text is not None]


def _users(gpu: Gpu, verdict: Verdict) -> tuple[str, ...]:
    return visible_users(verdict.state, unique_processes(gpu)) or ()


def _labels(node: NodeView) -> list[str]:
    return [*node.labels, *(f"{name}={value}" for name, value in node.labels.items())]


def _bytes(count: int | None) -> int | None:
    mebibytes = to_mebibytes(count)
    return None if mebibytes is None else mebibytes * MIB


def _free_bytes(gpu: Gpu) -> int | None:
    total, used = _bytes(gpu.memory_total_bytes), _bytes(gpu.memory_used_bytes)
    return None if total is None or used is None or used > total else total - used


def _live(figure: Callable[[Gpu], float | None]) -> FigureGetter:
    """Read a figure as unknown while the node is silent."""
    return lambda node, gpu, _: None if node.silent else figure(gpu)


def instance_as_gpu(gpu: Gpu, instance: Instance) -> Gpu:
    """Return a MIG instance as a GPU of its own, with its profile in the name of the model."""
    return replace(
        gpu,
        uuid=instance.uuid,
        name=device_model(gpu, instance),
        memory_used_bytes=instance.memory_used_bytes,
        memory_total_bytes=instance.memory_total_bytes,
        busy_percent=instance.busy_percent,
        processes=instance.processes,
        instances=(),
    )


def read_figure(
    key: FigureKey, node: NodeView, gpu: Gpu, verdict: Verdict, bound: float
) -> float | None:
    """Read a figure to compare it with `bound`; a nominal size of memory means that card."""
    figure = FIGURE_GETTERS[key](node, gpu, verdict)
    if figure is None or key not in _NOMINAL_KEYS:
        return figure
    total = _bytes(gpu.memory_total_bytes)
    return memory_for_request(int(figure), total, device_gigabytes(gpu), bound)


TEXT_GETTERS: Mapping[TextKey, TextGetter] = {
    "word": lambda node, gpu, verdict: (*_known(node.name, gpu.name), *_users(gpu, verdict)),
    "state": lambda _, __, verdict: (verdict.state,),
    "node": lambda node, *_: (node.name,),
    "site": lambda node, *_: _known(node.site),
    "model": lambda _, gpu, __: _known(gpu.name),
    "user": lambda _, gpu, verdict: _users(gpu, verdict),
    "label": lambda node, *_: _labels(node),
    "why": lambda _, __, verdict: _known(verdict.reason, verdict.was),
    "driver": lambda node, *_: _known(node.host.driver_version),
    "gpu": lambda _, gpu, __: (str(gpu.index),),
    "uuid": lambda _, gpu, __: (gpu.uuid,),
}
FIGURE_GETTERS: Mapping[FigureKey, FigureGetter] = {
    "mem": _live(_free_bytes),
    "used": _live(lambda gpu: _bytes(gpu.memory_used_bytes)),
    # Not `_live`: the size of the memory does not change while a node is silent.
    "total": lambda _, gpu, __: _bytes(gpu.memory_total_bytes),
    "load": _live(lambda gpu: round_finite(gpu.busy_percent)),
    "temp": _live(lambda gpu: round_finite(gpu.temperature_celsius)),
    "power": _live(lambda gpu: round_finite(gpu.power_watts)),
    "idle": lambda node, _, verdict: None if node.silent else round_finite(verdict.idle_seconds),
}
