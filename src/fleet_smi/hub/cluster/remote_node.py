"""A node that another hub hears, as that hub sends it."""

from math import inf
from typing import TypeVar

from msgspec.structs import replace

from fleet_smi.model.fleet import JudgedGpu, JudgedInstance, NodeView
from fleet_smi.model.safe_text import natural_sort_key
from fleet_smi.model.verdict.judge import apply_silence, silence_timeout
from fleet_smi.model.verdict.thresholds import Thresholds
from fleet_smi.wire.cluster import FigureRow, NodeUpdate

_Device = TypeVar("_Device", JudgedGpu, JudgedInstance)
_UNHEARD = "its hub cannot be heard now"


class RemoteNode:
    """The latest view of a node that another hub sent; `at` is by the clock of this hub."""

    __slots__ = (
        "_figures_changed",
        "_rows",
        "_timeout",
        "_view",
        "at",
        "hub",
        "is_unheard",
        "sort_key",
        "uuids",
        "wake_at",
    )

    def __init__(self, hub: str, view: NodeView, at: float, thresholds: Thresholds) -> None:
        self.hub = hub
        self.at = at
        self.is_unheard = False
        self._view = view
        self.uuids = [
            uuid
            for gpu in view.gpus
            for uuid in (gpu.uuid, *[instance.uuid for instance in gpu.instances])
        ]
        self._rows: list[FigureRow | None] = [None] * len(self.uuids)
        self._figures_changed = False
        self._timeout = silence_timeout(view.interval_seconds, thresholds)
        self.sort_key = natural_sort_key(view.name), view.node_id
        self.wake_at = self.silent_at

    @property
    def node_id(self) -> str:
        """The id of the node."""
        return self._view.node_id

    @property
    def name(self) -> str:
        """The name of the node."""
        return self._view.name

    @property
    def silent_at(self) -> float:
        """When it becomes silent without a further message."""
        return inf if self._timeout is None else self.at + self._timeout

    def is_silent(self, now: float) -> bool:
        """Return whether it is silent, by its hub or because nothing more was heard of it."""
        return self._view.silent or now > self.silent_at

    def shift(self, seconds: float) -> None:
        """Move its times, because the clock of this hub was set."""
        self.at += seconds
        self.wake_at = self.silent_at if self.wake_at < inf else inf

    def update(self, update: NodeUpdate, now: float) -> bool:
        """Take in new figures; return false if they are of other GPUs."""
        if len(update.rows) != len(self._rows):
            return False
        self._rows = [
            new if new is not None else old
            for old, new in zip(self._rows, update.rows, strict=True)
        ]
        self._figures_changed = True
        self.at = now - update.age_seconds
        self.wake_at = self.silent_at
        return True

    def view(self, now: float, delay_seconds: float) -> NodeView:
        """Return the node at one moment; it may be late by the delay of this hub."""
        if self._figures_changed:
            self._view = replace(self._view, gpus=self._with_figures())
            self._figures_changed = False
        view, age = self._view, max(0.0, now - self.at)
        if self.at > -inf:
            view = replace(view, age_seconds=age)
        if not view.silent and now - delay_seconds > self.silent_at:
            gpus = tuple([self._silenced(gpu, age) for gpu in view.gpus])
            view = replace(view, silent=True, gpus=gpus)
        if view.silent and self.is_unheard:
            view = replace(view, trouble="; ".join(filter(None, (_UNHEARD, view.trouble))))
        return view

    def _silenced(self, gpu: JudgedGpu, age: float) -> JudgedGpu:
        since = self.silent_at
        instances = tuple(
            [
                replace(part, verdict=apply_silence(part.verdict, part, age, since))
                for part in gpu.instances
            ]
        )
        verdict = apply_silence(gpu.verdict, gpu, age, since)
        return replace(gpu, verdict=verdict, instances=instances)

    def _with_figures(self) -> tuple[JudgedGpu, ...]:
        rows, gpus = iter(self._rows), list[JudgedGpu]()
        for gpu in self._view.gpus:
            changed = _with_row(gpu, next(rows))
            if gpu.instances:
                parts = tuple([_with_row(part, next(rows)) for part in gpu.instances])
                changed = replace(changed, instances=parts)
            gpus.append(changed)
        return tuple(gpus)


def _with_row(device: _Device, row: FigureRow | None) -> _Device:
    if row is None:
        return device
    fields = {name: getattr(row, name) for name in row.__struct_fields__ if hasattr(device, name)}
    return replace(device, **fields)
