"""This machine as a fleet of one node: sampled and judged in this process, without a hub."""

import os
import time
from typing import TYPE_CHECKING

from fleet_smi.config import Settings
from fleet_smi.config import load as load_settings
from fleet_smi.fleet.one_machine import OneMachine
from fleet_smi.model.fleet import FleetView
from fleet_smi.model.snapshot import Snapshot
from fleet_smi.node.collectors import ALL_SUBJECTS
from fleet_smi.node.reader import Reader
from fleet_smi.node.reader_process import spawn_worker
from fleet_smi.node.sampler import Sampler, driver_deadlines

if TYPE_CHECKING:
    from threading import Lock

    from fleet_smi.fleet.delivery import Source
    from fleet_smi.fleet.polled import ShowPartial

_PARTIAL_SECONDS = 0.5
"""How often a view without the driver that is awaited is renewed."""


def create_sources(settings: Settings) -> list["Source"]:
    """Create the source by which a hub reads its own machine (`hub.include_self`)."""
    # A command that reads this machine needs no event loop, and asyncio is slow to import.
    from fleet_smi.hub.sources.self import SelfSource

    # Not a fork: a hub has threads.
    node = settings.node
    reader = Reader(spawn_worker, driver_deadlines(node))
    sampler = Sampler(
        reader, root=node.root, name=node.name, labels=node.labels, lease_dir=node.lease_dir
    )
    return [SelfSource(sampler.sample, settings.agent.interval)]


class LocalFleet:
    """Replaces a hub: holds this process's samples for verdicts over a window of time.

    A `patient` one waits for a slow driver until its deadline; any other says that it is slow.
    """

    is_local = True

    def __init__(
        self,
        settings: Settings,
        reader: Reader,
        *,
        subjects: tuple[str, ...] = ALL_SUBJECTS,
        traffic: bool = False,
        patient: bool = True,
    ) -> None:
        self.thresholds = settings.thresholds
        self._machine = OneMachine(settings.thresholds)
        # The reader was started before the settings were loaded.
        reader.deadlines = driver_deadlines(settings.node)
        self._sampler = Sampler(
            reader,
            root=settings.node.root,
            subjects=subjects,
            traffic=traffic,
            patient=patient,
            name=settings.node.name,
            lease_dir=settings.node.lease_dir,
        )
        # The reader works while the command still imports what it shows the result with.
        self._sampler.prefetch()

    def snapshot(self, interval_seconds: float | None = None) -> Snapshot:
        """Take one snapshot now."""
        return self._sampler.sample(interval_seconds)

    def view(
        self,
        interval_seconds: float | None = None,
        show_partial: "ShowPartial | None" = None,
    ) -> FleetView:
        """Take one snapshot and return the fleet with its verdicts.

        Where a driver is slow and this fleet is not `patient`, `show_partial` gets what is known
        so far, with the drivers that are awaited, again and again until they have answered.
        """
        while True:
            snapshot = self.snapshot(interval_seconds)
            self._machine.apply(snapshot)
            view = self._machine.view(time.time())
            slow = [run for run in snapshot.runs if run.fault == "slow"]
            if show_partial is None or not slow:
                return view
            show_partial(view, [f"{run.name} ({run.seconds:.0f} s)" for run in slow])
            time.sleep(_PARTIAL_SECONDS)

    def detach(self) -> None:
        """Release the reader that this process has inherited by a fork."""
        self._sampler.detach()

    def close(self) -> None:
        """Stop the reader."""
        self._sampler.close()


class SharedFleet:
    """A local fleet for a whole program, opened on first use; it serves one thread at a time."""

    def __init__(self) -> None:
        self.lock = _new_lock()
        self._fleet: LocalFleet | None = None
        # A forked child must not use the pipes of its parent's reader.
        os.register_at_fork(after_in_child=self._reset)

    def fleet(self) -> LocalFleet:
        """Return the fleet; the caller holds the lock if it reads."""
        if self._fleet is None:
            # Not a fork: the user's program may have threads, or CUDA in it.
            self._fleet = LocalFleet(load_settings(), Reader(spawn_worker))
        return self._fleet

    def _reset(self) -> None:
        # A new lock too: another thread may have held the old one at the fork.
        if self._fleet is not None:
            self._fleet.detach()
        self.lock, self._fleet = _new_lock(), None


def _new_lock() -> "Lock":
    import threading  # here, because the quick commands do not need it

    return threading.Lock()
