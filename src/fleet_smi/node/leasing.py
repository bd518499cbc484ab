"""Taking leases: choose among the free GPUs of this machine, wait for a turn, lock them."""

import os
import time
from collections.abc import Callable, Iterable
from typing import NamedTuple, overload

from msgspec.structs import replace

from fleet_smi.errors import NotPresent, StateError, Unmet
from fleet_smi.model.candidates import Candidate, GpuRequest
from fleet_smi.model.fleet import FleetView, JudgedGpu, Verdict, devices_of
from fleet_smi.model.leases import list_leases
from fleet_smi.model.named_gpus import only_named, only_visible
from fleet_smi.model.select import Offer, find_offer
from fleet_smi.model.verdict.thresholds import Thresholds
from fleet_smi.node.bindings import lease_files, lease_locks
from fleet_smi.node.bindings.lease_locks import LeaseLock
from fleet_smi.node.bindings.lease_queue import Ticket, Waiter, waiters_ahead
from fleet_smi.node.bindings.proc_files import in_pid_namespace
from fleet_smi.node.waiting_patience import WaitingPatience

_POLL_SECONDS = 1.0
_POLL_SECONDS_PER_PLACE = 0.25
_MAX_POLL_SECONDS = 5.0
_MAX_OCCUPANTS = 8
_UNUSED = Verdict(state="free", reason="", since=0.0)

Details = dict[str, str]
ShowWaiting = Callable[[str], None]


class Leased(NamedTuple):
    """GPUs that this process holds leases of."""

    candidates: tuple[Candidate, ...]
    locks: tuple[LeaseLock, ...]

    def release(self) -> None:
        """Give all of them back."""
        for lock in self.locks:
            lock.release()


class LeaseOptions(NamedTuple):
    """Which GPUs to take: a request, and of which ones, and which of them first."""

    request: GpuRequest
    gpu_ids: tuple[str, ...] = ()
    prefer_last: bool = False


def open_lease_folder(path: str | None) -> int:
    """Open the folder of the locks of this machine; raise `StateError` where there is none."""
    try:
        return lease_files.open_folder(lease_files.find_folder(path))
    except NotPresent as error:
        raise StateError(str(error)) from None


def container_warning(path: str | None) -> str | None:
    """Say so where leases of this container are not seen outside it."""
    folder = lease_files.find_folder(path)
    # A container has a /dev/shm of its own, which is mounted too.
    is_shared = path is not None or (
        folder != lease_files.SHARED_MEMORY and lease_files.is_mounted(folder)
    )
    if is_shared or not in_pid_namespace("/"):
        return None
    return (
        f"in a container: this lease is not seen outside it; mount the host's {folder} into it "
        f"(docker run -v {folder}:{folder})"
    )


class LeaseTaker:
    """Takes leases of GPUs that are free by the verdict and not leased by anybody.

    `view` samples this machine. Nothing is held while it waits: all requested GPUs are taken in
    one go, or none. Who came first goes first; one who came later may go ahead where enough is
    left for those who wait for the same GPUs.
    """

    def __init__(
        self,
        folder: int,
        view: Callable[[], FleetView],
        thresholds: Thresholds,
        options: LeaseOptions,
        details: Details,
        started_at: float,
    ) -> None:
        self._folder = folder
        self._view = view
        self._thresholds = thresholds
        self._options = options
        self._details = details
        self._viewed_from = started_at
        self._ticket: Ticket | None = None
        self._ahead: list[Waiter] = []
        self._patience = WaitingPatience()
        self.reason = ""
        """Why the last attempt took nothing."""

    @overload
    def wait(self, timeout_seconds: float | None, show: ShowWaiting) -> Leased: ...
    @overload
    def wait(
        self, timeout_seconds: float | None, show: ShowWaiting, is_over: Callable[[], bool]
    ) -> Leased | None: ...
    def wait(
        self,
        timeout_seconds: float | None,
        show: ShowWaiting,
        is_over: Callable[[], bool] = lambda: False,
    ) -> Leased | None:
        """Take the GPUs as soon as possible; raise `Unmet` at the timeout (0: do not wait).

        Return `None` when `is_over` says that there is something better to do.
        """
        deadline = None if timeout_seconds is None else time.monotonic() + timeout_seconds
        try:
            while True:
                leased = self.attempt()
                if leased is not None:
                    return leased
                left = None if deadline is None else deadline - time.monotonic()
                if left is not None and left <= 0:
                    raise Unmet(self.reason)
                show(self.reason)
                if is_over():
                    return None
                pause = self._pause_seconds
                time.sleep(pause if left is None else min(pause, left))
                self._viewed_from = time.time()
        finally:
            self._leave_queue()

    def attempt(self, among: frozenset[str] | None = None) -> Leased | None:
        """Take the GPUs now; `None` where that is not possible, with the `reason`.

        With `among`, only GPUs of these UUIDs, which the hub offers: its queue counts then, and
        not the one of this machine.
        """
        view = self._visible_view()
        offer = self._offer(view)
        if among is not None:
            named = [each for each in offer.offered if each.uuid in among]
            if len(named) < self._options.request.count:
                self.reason = "what the hub offered is not free here"
                return None
            return self._lock(self._in_order(tuple(named)))
        if self._ticket is None and (offer.unmet or waiters_ahead(self._folder, None)):
            self._join_queue(view)
        free = frozenset(each.uuid for each in offer.offered)
        ahead = waiters_ahead(self._folder, self._ticket) if self._ticket else []
        self._ahead = self._patience.still_ahead(ahead, free)
        if offer.unmet is not None:
            self.reason = offer.unmet + _occupants(view) + self._queue_text()
            return None
        needed = _needed_by(self._ahead, offer.offered)
        if needed and len(offer.offered) < needed + self._options.request.count:
            self.reason = f"others came first{self._queue_text()}"
            return None
        leased = self._lock(self._in_order(offer.offered))
        if leased is None and self._ticket is None:
            self._join_queue(self._view())
        return leased

    def possible_uuids(self) -> frozenset[str]:
        """Return the GPUs that could meet the request once they are free; raise `Unmet`."""
        self._viewed_from = time.time()
        return self._possible(self._visible_view())

    def leave(self) -> None:
        """Leave the local queue, where this process has a place in it."""
        self._leave_queue()

    def _visible_view(self) -> FleetView:
        return only_visible(only_named(self._view(), self._options.gpu_ids), os.environ)

    def _offer(self, view: FleetView) -> Offer:
        """Return all that meets the request, best first; it is `unmet` where that is not enough."""
        request = self._options.request
        offer = find_offer(view, replace(request, count=0), self._thresholds)
        if len(offer.offered) < request.count or offer.unmet is not None:
            # Whole GPUs are not enough: instances may be.
            return find_offer(view, request, self._thresholds)
        return offer

    def _lock(self, candidates: list[Candidate]) -> Leased | None:
        taken: list[tuple[Candidate, LeaseLock]] = []
        is_doubtful = False
        details = begin_now(self._details)
        for candidate in candidates:
            if len(taken) == self._options.request.count:
                break
            # Taken and released since the sample: its job may still be there.
            was_taken = lease_locks.was_taken_since(self._folder, candidate.uuid, self._viewed_from)
            lock = lease_locks.try_take(self._folder, candidate.uuid, details)
            if lock is not None:
                is_doubtful = is_doubtful or was_taken
                taken.append((candidate, lock))
        chosen = sorted(taken, key=lambda pair: (pair[0].index, pair[0].part or 0))
        leased = Leased(tuple([one for one, _ in chosen]), tuple([lock for _, lock in chosen]))
        if len(taken) == self._options.request.count and not (
            is_doubtful and self._are_used(leased)
        ):
            return leased
        leased.release()
        self.reason = f"somebody else was faster{self._queue_text()}"
        return None

    def _are_used(self, leased: Leased) -> bool:
        """Whether a process is on one of them that the sample before did not show."""
        held = {candidate.uuid for candidate in leased.candidates}
        return any(
            part.uuid in held and part.verdict.state not in ("free", "leased")
            for node in self._view().nodes
            for gpu in node.gpus
            for part in devices_of(gpu)
        )

    def _in_order(self, offered: tuple[Candidate, ...]) -> list[Candidate]:
        if not self._options.prefer_last:
            return list(offered)
        last = lease_locks.own_last_used(self._folder)
        place = {uuid: position for position, uuid in enumerate(last)}
        return sorted(offered, key=lambda candidate: place.get(candidate.uuid, len(last)))

    def _join_queue(self, view: FleetView) -> None:
        uuids = self._possible(view)
        self._ticket = Ticket(self._folder, self._options.request.count, uuids)

    def _possible(self, view: FleetView) -> frozenset[str]:
        nodes = tuple(
            [replace(node, gpus=tuple(map(_as_unused, node.gpus))) for node in view.nodes]
        )
        request = replace(self._options.request, count=0)
        possible = find_offer(replace(view, nodes=nodes), request, self._thresholds).offered
        if len(possible) < self._options.request.count:
            count = self._options.request.count
            asked = "1 GPU is" if count == 1 else f"{count} GPUs are"
            total = f"{len(possible)} of them" if possible else "none"
            raise Unmet(
                f"{asked} requested, and this machine has {total} that could ever meet the "
                "request; `fleet-smi free -v` says why"
            )
        return frozenset(candidate.uuid for candidate in possible)

    def _leave_queue(self) -> None:
        if self._ticket is not None:
            self._ticket.leave()
            self._ticket = None

    def _queue_text(self) -> str:
        if not self._ahead:
            return ""
        names = [waiter.user for waiter in self._ahead[:3]]
        more = f" and {len(self._ahead) - 3} more" if len(self._ahead) > 3 else ""
        return f"; place {len(self._ahead) + 1} in the queue, behind {', '.join(names)}{more}"

    @property
    def _pause_seconds(self) -> float:
        return min(_MAX_POLL_SECONDS, _POLL_SECONDS + _POLL_SECONDS_PER_PLACE * len(self._ahead))


def _needed_by(ahead: list[Waiter], offered: tuple[Candidate, ...]) -> int:
    """Count the GPUs for which those who came first wait, among these."""
    uuids = {candidate.uuid for candidate in offered}
    return sum(
        [
            waiter.wanted if waiter.uuids is None else min(waiter.wanted, len(uuids & waiter.uuids))
            for waiter in ahead
        ]
    )


def _occupants(view: FleetView) -> str:
    """Say who has the GPUs: with a lease, or without."""
    rows = list_leases(view)
    texts = [
        f"{row.label} {row.holder}{'' if row.lease else ' without lease'}"
        for row in rows[:_MAX_OCCUPANTS]
    ]
    more = f" and {len(rows) - _MAX_OCCUPANTS} more" if len(rows) > _MAX_OCCUPANTS else ""
    return f" ({', '.join(texts)}{more})" if texts else ""


def _as_unused(gpu: JudgedGpu) -> JudgedGpu:
    """Return the GPU as it would be if nobody used it."""
    instances = [
        replace(each, verdict=_UNUSED, memory_used_bytes=0, processes=()) for each in gpu.instances
    ]
    return replace(
        gpu, verdict=_UNUSED, memory_used_bytes=0, processes=(), instances=tuple(instances)
    )


def take_named(folder: int, uuids: Iterable[str], details: Details) -> dict[str, LeaseLock]:
    """Take the leases of these GPUs, whatever runs on them; those that others hold are left out."""
    found = {uuid: lease_locks.try_take(folder, uuid, details) for uuid in uuids}
    return {uuid: lock for uuid, lock in found.items() if lock is not None}


def lease_details(
    command: str, note: str | None = None, until: float | None = None, kind: str = "run"
) -> Details:
    """Return what is written beside a lease, for others to read."""
    return {
        "kind": kind,
        "since": f"{time.time():.3f}",
        "until": "" if until is None else f"{until:.3f}",
        "command": os.path.basename(command),  # noqa: PTH119
        "note": (note or "")[:120],
    }


def begin_now(details: Details) -> Details:
    """Return details with the times of a lease that begins now, however long was waited for it."""
    now = time.time()
    waited = now - float(details.get("since") or now)
    until = details.get("until")
    later = {"until": f"{float(until) + waited:.3f}"} if until else {}
    return {**details, "since": f"{now:.3f}", **later}
