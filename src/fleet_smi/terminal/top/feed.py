"""Feeds: where the live screen gets its data from. This one asks a fleet again and again."""

import threading
import time
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Protocol

from fleet_smi.errors import FleetError
from fleet_smi.model.fleet import FleetView
from fleet_smi.model.people import view_people
from fleet_smi.terminal.top.requests import Request, ShowPeople
from fleet_smi.terminal.top.updates import PeopleArrived, Trouble, Update, ViewArrived

Deliver = Callable[[Update], None]
_STOP_SECONDS = 2.0


class Feed(Protocol):
    """Delivers updates from threads of its own until it is stopped."""

    source: str
    """What it is, for the first line of the screen."""
    has_history: bool

    def start(self, deliver: Deliver) -> None:
        """Begin to deliver."""

    def request(self, request: Request) -> None:
        """Fetch something; what this feed does not have is ignored, or told in a message."""

    def stop(self) -> None:
        """End all threads."""


class ReadableFleet(Protocol):
    """A fleet whose current view can be read again and again."""

    def view(
        self,
        interval_seconds: float | None = None,
        show_partial: Callable[[FleetView, Sequence[str]], None] | None = None,
    ) -> FleetView:
        """Return the current view."""


class PolledFeed:
    """Reads a fleet every interval: this machine, machines over ssh, or a folder of reports."""

    has_history = False

    def __init__(
        self,
        fleet: ReadableFleet,
        source: str,
        interval_seconds: float,
        background: AbstractContextManager[None] | None = None,
    ) -> None:
        self.source = source
        self._fleet = fleet
        self._interval_seconds = interval_seconds
        self._background = background or nullcontext()
        self._stopped = threading.Event()
        self._deliver: Deliver = _ignore
        self._last: FleetView | None = None
        self._thread = threading.Thread(target=self._run, name="top-feed", daemon=True)

    def start(self, deliver: Deliver) -> None:
        """Begin to read."""
        self._deliver = deliver
        self._thread.start()

    def request(self, request: Request) -> None:
        """Answer from what was read last."""
        if isinstance(request, ShowPeople) and self._last is not None:
            self._deliver(PeopleArrived(view_people(self._last)))

    def stop(self) -> None:
        """End the thread; one that waits for a slow driver is left behind."""
        self._stopped.set()
        self._thread.join(_STOP_SECONDS)

    def _run(self) -> None:
        with self._background:
            due = time.monotonic()
            while not self._stopped.is_set():
                self._read()
                # Due times are multiples of the interval, so slow reads cause no drift.
                late = time.monotonic() - due
                due += self._interval_seconds * max(1, -(-late // self._interval_seconds))
                self._stopped.wait(max(0.0, due - time.monotonic()))

    def _read(self) -> None:
        try:
            view = self._fleet.view(self._interval_seconds, self._show_partial)
        except FleetError as error:
            self._deliver(Trouble(str(error)))
        except Exception as error:  # noqa: BLE001  # a bug must not end the screen silently
            self._deliver(Trouble(f"internal error: {error!r}"))
        else:
            self._last = view
            self._deliver(ViewArrived(view))

    def _show_partial(self, view: FleetView, pending: Sequence[str]) -> None:
        if self._stopped.is_set():
            raise FleetError("stopped")
        self._deliver(ViewArrived(view, tuple(pending)))


def _ignore(_: Update) -> None:
    pass
