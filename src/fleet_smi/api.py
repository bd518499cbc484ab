"""The Python API: the GPUs of this machine, and the fleet of a hub.

The first call starts a small reader process, which stays: later calls take milliseconds, and
neither a hung driver nor a fork of your program affects it. Earlier samples are remembered, so
a program that calls repeatedly also learns which GPUs are only held.
"""

import logging
import os
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Literal, TypedDict

from fleet_smi import config
from fleet_smi.client.hub import HubClient, Moment
from fleet_smi.client.tables import JobTable, PeriodTable, SeriesTable, UsageTable
from fleet_smi.errors import Unmet, UsageError
from fleet_smi.local import SharedFleet
from fleet_smi.model.candidates import Candidate, GpuRequest
from fleet_smi.model.fleet import FleetView, JudgedGpu
from fleet_smi.model.people import Person
from fleet_smi.model.select import check_request, find_offer, require_offer
from fleet_smi.model.snapshot import Snapshot
from fleet_smi.model.units import MIB, parse_memory

if TYPE_CHECKING:
    from fleet_smi.node.leasing import LeaseTaker

logger = logging.getLogger(__name__)
__all__ = ["Fleet", "available_gpus", "free", "gpu_info", "gpus", "lease", "snapshot"]


_machine = SharedFleet()


def snapshot() -> Snapshot:
    """Return everything that can be read of this machine now, without verdicts."""
    with _machine.lock:
        return _machine.fleet().snapshot()


def gpus() -> tuple[JudgedGpu, ...]:
    """Return the GPUs of this machine, each with its verdict."""
    return tuple(gpu for node in _view().nodes for gpu in node.gpus)


def free(
    n: int = 1,
    *,
    min_free: str | int | None = None,
    model: str | None = None,
    policy: str = "free",
    max_used_percent: float = 20.0,
) -> tuple[Candidate, ...]:
    """Return the `n` best free GPUs of this machine; raise `fleet_smi.errors.Unmet` if fewer.

    All are of one vendor: NVIDIA if the machine has any. If CUDA_VISIBLE_DEVICES is set, they are
    among those that it names.
    `",".join(c.uuid for c in fleet_smi.free(2))` is ready for CUDA_VISIBLE_DEVICES.
    """
    request = GpuRequest(
        count=n,
        min_free_bytes=_bytes(min_free),
        model=model,
        policy=policy,
        max_used_percent=max_used_percent,
        cuda_visible_devices=os.environ.get("CUDA_VISIBLE_DEVICES"),
    )
    return require_offer(_view(), request, _machine.fleet().thresholds).offered


@contextmanager
def lease(
    n: int = 1,
    *,
    min_free: str | int | None = None,
    model: str | None = None,
    timeout: float | None = None,
    note: str | None = None,
    ignore_bookings: bool = False,
) -> Iterator[tuple[Candidate, ...]]:
    """Take `n` free GPUs of this machine for a block, as `fleet-smi run` does for a command.

    Wait for them as long as it takes, or `timeout` seconds and then raise `fleet_smi.errors.Unmet`
    (0: do not wait). Nobody else who takes leases gets them meanwhile. On a machine of a hub, in
    turn with all who wait there, and without what others have booked, unless `ignore_bookings`; a
    hub that is away is logged, and stops nothing. Set CUDA_VISIBLE_DEVICES before CUDA is used:
    `",".join(gpu.uuid for gpu in gpus)`.
    """
    from fleet_smi.queue_turn import Messages, TurnOptions, take_in_turn

    options = TurnOptions(timeout, note=note, ignore_bookings=ignore_bookings)
    messages = Messages(lambda _: None, logger.warning)
    with _lease_taker(n, min_free, model, note) as (taker, request):
        leased, finish = take_in_turn(config.load(), taker, request, options, messages)
        try:
            yield leased.candidates
        finally:
            leased.release()
            finish()


@contextmanager
def _lease_taker(
    n: int, min_free: str | int | None, model: str | None, note: str | None
) -> "Iterator[tuple[LeaseTaker, GpuRequest]]":
    from fleet_smi.node import leasing

    request = GpuRequest(
        count=n,
        min_free_bytes=_bytes(min_free),
        model=model,
        cuda_visible_devices=os.environ.get("CUDA_VISIBLE_DEVICES"),
    )
    check_request(request)
    if n < 1:
        raise UsageError(f"{n} GPUs cannot be leased: request one or more")
    folder = leasing.open_lease_folder(config.load().node.lease_dir)
    details = leasing.lease_details(sys.argv[0] or "python", note)
    options = leasing.LeaseOptions(request)
    thresholds = _machine.fleet().thresholds
    try:
        taker = leasing.LeaseTaker(folder, _view, thresholds, options, details, time.time())
        yield taker, request
    finally:
        os.close(folder)


class Fleet:
    """A hub's fleet: `Fleet("http://hub:7070")`, or the hub from the settings.

    Every method is a new request. A hub that does not answer raises
    `fleet_smi.errors.Unreachable`, one that denies access `Refused`.
    """

    def __init__(
        self, url: str | None = None, *, token: str | None = None, fingerprint: str | None = None
    ) -> None:
        client = config.load(flags={"client.hub": url}).client
        if client.hub is None:
            raise UsageError("no hub given: pass its URL, or set client.hub in fleet-smi.toml")
        self._url, self._token = client.hub, token
        self._fingerprint = fingerprint or client.fingerprint
        self._hub = HubClient(
            client.hub, token=token or client.read_token(), fingerprint=self._fingerprint
        )

    @contextmanager
    def lease(
        self,
        n: int = 1,
        *,
        min_free: str | int | None = None,
        model: str | None = None,
        timeout: float | None = None,
        note: str | None = None,
        ignore_bookings: bool = False,
    ) -> Iterator[tuple[Candidate, ...]]:
        """Take `n` GPUs of this machine for a block, in turn with all who wait at the hub.

        Like `fleet_smi.lease`, but the GPUs are offered by the hub, which this machine reports to.
        It has to know who asks: by a personal token, or by the login of `fleet-smi login`; for
        any other it raises `fleet_smi.errors.Refused`.
        """
        from fleet_smi.queue_place import Deadline, QueuePlace, run_request, take_offered

        with _lease_taker(n, min_free, model, note) as (taker, request):
            wanted = run_request(request, taker, note=note, ignore_bookings=ignore_bookings)
            place = QueuePlace(self._acting_client(), wanted)
            try:
                leased = take_offered(place, taker, Deadline(timeout), lambda _: None)
            finally:
                place.leave()
                taker.leave()
            try:
                yield leased.candidates
            finally:
                leased.release()
                place.finish()

    def _acting_client(self) -> HubClient:
        """Return a client of its own, with the token of a person if there is one."""
        from fleet_smi.client.login_file import LoginFile
        from fleet_smi.paths import login_file

        login = None
        if self._token is None:
            login = LoginFile(login_file(os.environ)).get(self._url)
        if login is not None:
            return HubClient(self._url, token=login.token, fingerprint=login.fingerprint)
        token = self._token or config.load().client.read_token()
        return HubClient(self._url, token=token, fingerprint=self._fingerprint)

    def view(self, at: Moment | None = None) -> FleetView:
        """Return the current view: nodes, their GPUs, and the verdict on each.

        With `at` ("yesterday 03:12", "-2h", a `datetime`) return the view of that time.
        """
        return self._hub.fleet(at)

    def gpus(self, at: Moment | None = None) -> tuple[JudgedGpu, ...]:
        """Return the GPUs of all nodes, now or at a past time."""
        return tuple(gpu for node in self.view(at).nodes for gpu in node.gpus)

    def people(self, at: Moment | None = None) -> tuple[Person, ...]:
        """Return who holds GPUs, most GPUs first, now or at a past time."""
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
        """Return the states and users of each GPU over a range; `.frame()` is a data frame."""
        return self._hub.periods(since, until, node=node, gpu=gpu, user=user)

    def usage(
        self,
        since: Moment = "7d",
        until: Moment = "now",
        *,
        by: Literal["user", "group", "node", "model", "gpu"] = "user",
        daily: bool = False,
    ) -> UsageTable:
        """Return usage totals over a range, largest first; `.frame()` is a data frame."""
        return self._hub.usages(since, until, by=by, daily=daily)

    def jobs(
        self,
        since: Moment = "24h",
        until: Moment = "now",
        *,
        user: str | None = None,
        node: str | None = None,
    ) -> JobTable:
        """Return the jobs of a range, latest first; `.frame()` is a data frame."""
        return self._hub.jobs(since, until, user=user, node=node)

    def series(
        self, node: str, since: Moment = "1h", until: Moment = "now", *, points: int = 1000
    ) -> SeriesTable:
        """Return time series of a node (name or id) and its GPUs; `.frame()` is a data frame."""
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
        """Return the `n` best free GPUs; raise `fleet_smi.errors.Unmet` if there are fewer."""
        request = GpuRequest(
            count=n,
            min_free_bytes=_bytes(min_free),
            model=model,
            policy=policy,
            max_used_percent=max_used_percent,
            same_node=same_node,
        )
        check_request(request)
        offer = self._hub.free(request)
        if offer.unmet is not None:
            raise Unmet(offer.unmet)
        return offer.offered

    def close(self) -> None:
        """Close the connection."""
        self._hub.close()


class GpuInfo(TypedDict):
    """One row of `gpu_info`; memory is `None` if the card does not report it."""

    index: str
    type: str | None
    uuid: str
    mem_used: int | None
    mem_total: int | None
    mem_used_percent: float | None


def gpu_info() -> list[GpuInfo]:
    """Return what `nvgpu.gpu_info` does: index as text, memory in MiB and percent."""
    return [_gpu_info(gpu) for gpu in gpus()]


def available_gpus(max_used_percent: float = 20.0) -> list[str]:
    """Return what `nvgpu.available_gpus` does: indices, as text, of GPUs with free memory.

    GPUs that are broken or cannot be read are left out, and so are GPUs divided into MIG
    instances; if all are divided, the UUIDs of their instances are returned.
    """
    request = GpuRequest(count=0, policy="memory", max_used_percent=max_used_percent)
    offered = find_offer(_view(), request, _machine.fleet().thresholds).offered
    # By index as nvgpu lists them, not best first.
    in_order = sorted(offered, key=lambda candidate: (candidate.index, candidate.part or 0))
    return [
        candidate.uuid if candidate.instance else str(candidate.index) for candidate in in_order
    ]


def _gpu_info(gpu: JudgedGpu) -> GpuInfo:
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
    """Return a size in bytes; raise `UsageError` for a number that was meant as GiB."""
    if isinstance(size, str):
        return parse_memory(size)
    if size is not None and 0 < size < MIB:
        raise UsageError(f"min_free={size} is in bytes: write '{size}GiB'")
    return size or 0


def _view() -> FleetView:
    with _machine.lock:
        return _machine.fleet().view()
