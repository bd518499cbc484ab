"""This machine, and a hub's fleet, from Python.

The first call starts a small reader process, which is kept: later calls take milliseconds,
and neither a hung driver nor a fork of your program can hurt it. What was seen before is
remembered, so a program that looks again and again learns which GPUs are only held.
"""

import os
import threading
from typing import Literal, TypedDict

from fleet_smi import config
from fleet_smi.client.hub import HubClient, Moment
from fleet_smi.client.tables import JobTable, PeriodTable, SeriesTable, UsageTable
from fleet_smi.errors import Unmet, UsageError
from fleet_smi.local import LocalFleet
from fleet_smi.model.fleet import FleetView, JudgedGpu
from fleet_smi.model.people import Person
from fleet_smi.model.select import Candidate, GpuRequest, find_offer, require_offer
from fleet_smi.model.snapshot import Snapshot
from fleet_smi.model.units import MIB, parse_size
from fleet_smi.node.reader_process import Reader, spawn_worker

__all__ = ["Fleet", "available_gpus", "free", "gpu_info", "gpus", "snapshot"]


class _Own:
    """This machine, once somebody has asked for it; one at a time may talk to its reader."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self._fleet: LocalFleet | None = None
        # A forked copy must not talk through its parent's pipes.
        os.register_at_fork(after_in_child=self._forget)

    def fleet(self) -> LocalFleet:
        if self._fleet is None:
            self._fleet = LocalFleet(config.load(), Reader(spawn_worker))
        return self._fleet

    def _forget(self) -> None:
        if self._fleet is not None:
            self._fleet.detach()
        self.lock, self._fleet = threading.Lock(), None


_own = _Own()


def snapshot() -> Snapshot:
    """All that can be read of this machine now, without any judgement."""
    with _own.lock:
        return _own.fleet().snapshot()


def gpus() -> tuple[JudgedGpu, ...]:
    """The GPUs of this machine, each with the verdict on it."""
    return tuple(gpu for node in _look().nodes for gpu in node.gpus)


def free(
    n: int = 1,
    *,
    min_free: str | int | None = None,
    model: str | None = None,
    policy: str = "free",
    max_used_percent: float = 20.0,
) -> tuple[Candidate, ...]:
    """The `n` best free GPUs of this machine; raise `fleet_smi.errors.Unmet` if there are fewer.

    All are of one vendor, NVIDIA's where there are any.
    `",".join(c.uuid for c in fleet_smi.free(2))` is ready for CUDA_VISIBLE_DEVICES.
    """
    request = GpuRequest(
        count=n,
        min_free_bytes=_bytes(min_free),
        model=model,
        policy=policy,
        max_used_percent=max_used_percent,
    )
    return require_offer(_look(), request, _own.fleet().thresholds).offered


class Fleet:
    """A hub's fleet: `Fleet("http://hub:7070")`, or the hub of the settings.

    Every method asks the hub anew; one that does not answer or refuses is an error of
    `fleet_smi.errors`, `Unreachable` or `Refused`, that says what to do.
    """

    def __init__(
        self, url: str | None = None, *, token: str | None = None, fingerprint: str | None = None
    ) -> None:
        client = config.load(flags={"client.hub": url}).client
        if client.hub is None:
            raise UsageError("no hub is named: give its URL, or set client.hub in fleet-smi.toml")
        self._hub = HubClient(
            client.hub,
            token=token or client.read_token(),
            fingerprint=fingerprint or client.fingerprint,
        )

    def view(self, at: Moment | None = None) -> FleetView:
        """All that the hub believes now: its nodes, their GPUs, the verdict on each.

        With `at` ("yesterday 03:12", "-2h", a `datetime`) it is what it believed then.
        """
        return self._hub.fleet(at)

    def gpus(self, at: Moment | None = None) -> tuple[JudgedGpu, ...]:
        """The GPUs of all nodes, now or at a moment."""
        return tuple(gpu for node in self.view(at).nodes for gpu in node.gpus)

    def people(self, at: Moment | None = None) -> tuple[Person, ...]:
        """Who holds GPUs, those with the most first, now or at a moment."""
        return self._hub.people(at=at).people

    def history(
        self,
        since: Moment = "24h",
        until: Moment = "now",
        *,
        node: str | None = None,
        gpu: str | None = None,
        user: str | None = None,
    ) -> PeriodTable:
        """How each GPU stood over a range, and who was on it; `.frame()` is a data frame."""
        return self._hub.periods(since, until, node=node, gpu=gpu, user=user)

    def usage(
        self,
        since: Moment = "7d",
        until: Moment = "now",
        *,
        by: Literal["user", "group", "node", "model", "gpu"] = "user",
        daily: bool = False,
    ) -> UsageTable:
        """What each came to over a range, the most first; `.frame()` is a data frame."""
        return self._hub.usages(since, until, by=by, daily=daily)

    def jobs(
        self,
        since: Moment = "24h",
        until: Moment = "now",
        *,
        user: str | None = None,
        node: str | None = None,
    ) -> JobTable:
        """The jobs of a range, the latest first; `.frame()` is a data frame."""
        return self._hub.jobs(since, until, user=user, node=node)

    def series(
        self, node: str, since: Moment = "1h", until: Moment = "now", *, points: int = 1000
    ) -> SeriesTable:
        """The figures of a node, by its name or id, and of its GPUs; `.frame()` is a data frame."""
        return self._hub.series(node, since, until, points=points)

    def free(
        self,
        n: int = 1,
        *,
        min_free: str | int | None = None,
        model: str | None = None,
        policy: str = "free",
        max_used_percent: float = 20.0,
        same_node: bool = False,
    ) -> tuple[Candidate, ...]:
        """The `n` best free GPUs; raise `fleet_smi.errors.Unmet` if there are fewer."""
        request = GpuRequest(
            count=n,
            min_free_bytes=_bytes(min_free),
            model=model,
            policy=policy,
            max_used_percent=max_used_percent,
            same_node=same_node,
        )
        offer = self._hub.free(request)
        if offer.unmet is not None:
            raise Unmet(offer.unmet)
        return offer.offered

    def close(self) -> None:
        """Let go of the connection."""
        self._hub.close()


class GpuInfo(TypedDict):
    """One row of `gpu_info`; memory is `None` where the card does not tell."""

    index: str
    type: str | None
    uuid: str
    mem_used: int | None
    mem_total: int | None
    mem_used_percent: float | None


def gpu_info() -> list[GpuInfo]:
    """What `nvgpu.gpu_info` returns: index as text, memory in MiB and percent."""
    return [_info(gpu) for gpu in gpus()]


def available_gpus(max_used_percent: float = 20.0) -> list[str]:
    """What `nvgpu.available_gpus` returns: indexes, as text, of GPUs with memory to spare.

    A GPU that is broken or cannot be read is never among them. One that is divided (MIG) is
    not, either: where all are, these are the UUIDs of their instances.
    """
    request = GpuRequest(count=0, policy="memory", max_used_percent=max_used_percent)
    offered = find_offer(_look(), request, _own.fleet().thresholds).offered
    in_order = sorted(offered, key=lambda one: (one.index, one.part or 0))
    return [one.uuid if one.instance else str(one.index) for one in in_order]


def _info(gpu: JudgedGpu) -> GpuInfo:
    used, total = gpu.memory_used_bytes, gpu.memory_total_bytes
    return {
        "index": str(gpu.index),
        "type": gpu.name,
        "uuid": gpu.uuid,
        "mem_used": None if used is None else used // MIB,
        "mem_total": None if total is None else total // MIB,
        "mem_used_percent": None if used is None or not total else 100.0 * used / total,
    }


def _bytes(size: str | int | None) -> int:
    return parse_size(size) if isinstance(size, str) else size or 0


def _look() -> FleetView:
    with _own.lock:
        return _own.fleet().view()
