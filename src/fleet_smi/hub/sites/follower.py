"""Followers: one thread per site reads the stream of its hub, and the event loop applies it.

Only the nodes that report to that hub are requested (`sites=false`), never those that it shows
of other sites: two hubs that show each other do not echo.
"""

import asyncio
import logging
import threading
import time
from collections.abc import Callable

from fleet_smi.client.connection import HubConnection
from fleet_smi.client.event_stream import read_events
from fleet_smi.errors import DeliveryError, FleetError
from fleet_smi.failure_log import FailureLog
from fleet_smi.hub.sites.sites import Site, Sites
from fleet_smi.wire.event import Event, EventKind

logger = logging.getLogger(__name__)
STREAM_PATH = "/api/v1/stream?sites=false"
# A keepalive comes every 15 s: a hub that sends nothing for longer is not there.
_TIMEOUT_SECONDS = 40.0
_FIRST_RETRY_SECONDS, _MAX_RETRY_SECONDS = 1.0, 30.0
# The thread shares the interpreter with the event loop. After an event it waits for as many times
# as long as the event took: a site, however much it sends, costs a fifth of a core.
_PAUSE_FACTOR, _MAX_PAUSE_SECONDS = 4.0, 30.0


class SiteFollower:
    """Follows one site until it is stopped."""

    def __init__(self, site: Site, sites: Sites, clock: Callable[[], float]) -> None:
        self._site = site
        self._sites = sites
        self._clock = clock
        self._stopped = threading.Event()
        self._log = FailureLog(logger, f"site:{site.name}")
        self._connection = HubConnection(
            site.url,
            token=site.token,
            fingerprint=site.fingerprint,
            timeout_seconds=_TIMEOUT_SECONDS,
        )

    async def run(self) -> None:
        """Follow the site until cancelled."""
        loop = asyncio.get_running_loop()
        ended = asyncio.Event()

        def follow() -> None:
            self._follow(loop)
            self._call(loop, ended.set)

        thread = threading.Thread(target=follow, name=f"site-{self._site.name}", daemon=True)
        thread.start()
        try:
            await ended.wait()
        finally:
            self._stopped.set()
            self._connection.close()  # wakes the thread

    def _follow(self, loop: asyncio.AbstractEventLoop) -> None:
        retry_seconds = _FIRST_RETRY_SECONDS
        while not self._stopped.is_set():
            reason, began = "its stream ended", time.thread_time()
            try:
                for received in read_events(self._connection, STREAM_PATH):
                    if self._stopped.is_set():
                        return
                    spent = 0.0 if received is None else self._apply(loop, *received)
                    # Only now: a site whose events cannot be applied is not asked every second.
                    retry_seconds = _FIRST_RETRY_SECONDS
                    spent += time.thread_time() - began
                    self._stopped.wait(min(_MAX_PAUSE_SECONDS, _PAUSE_FACTOR * spent))
                    began = time.thread_time()
            except DeliveryError as error:
                reason = error.message
            except FleetError as error:
                reason = str(error)
            except Exception as error:  # a bug must not end the follower
                logger.exception("site=%s has a bug", self._site.name)
                reason = f"bug: {type(error).__name__}"
            self._fail(loop, reason)
            self._stopped.wait(retry_seconds)
            retry_seconds = min(_MAX_RETRY_SECONDS, 2 * retry_seconds)

    def _apply(self, loop: asyncio.AbstractEventLoop, kind: EventKind, event: Event) -> float:
        """Apply an event on the event loop; return how long that took there."""
        done, failures, spent = threading.Event(), list[Exception](), 0.0

        def apply() -> None:
            nonlocal spent
            began = time.perf_counter()
            try:
                self._sites.apply(self._site.name, kind, event, self._clock())
                self._log.record_success()
            except Exception as error:  # noqa: BLE001  # raised in the thread, below
                failures.append(error)
            spent = time.perf_counter() - began
            done.set()

        # One at a time: a hub that is behind must not collect the events of a fast site.
        if self._call(loop, apply):
            while not done.wait(1.0) and not self._stopped.is_set():
                pass
        if failures:
            raise failures[0]
        return spent

    def _fail(self, loop: asyncio.AbstractEventLoop, reason: str) -> None:
        def fail() -> None:
            self._sites.fail(self._site.name, reason, self._clock())
            self._log.record_failure(DeliveryError(reason))

        if not self._stopped.is_set():
            self._call(loop, fail)

    def _call(self, loop: asyncio.AbstractEventLoop, function: Callable[[], None]) -> bool:
        try:
            loop.call_soon_threadsafe(function)
        except RuntimeError:  # the loop is closed: the hub has ended
            return False
        return True
