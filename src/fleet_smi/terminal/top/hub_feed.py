"""The feed of a hub: its live stream for the rows, and requests for what is looked at."""

import threading
import time
from collections.abc import Callable

from fleet_smi.client.event_stream import read_events
from fleet_smi.client.hub import HubClient
from fleet_smi.errors import FleetError, NotFound
from fleet_smi.terminal.top.feed import Deliver
from fleet_smi.terminal.top.requests import (
    GoTo,
    Request,
    ShowHistory,
    ShowPeople,
    ShowQueue,
    Watch,
)
from fleet_smi.terminal.top.updates import (
    EventArrived,
    HistoryArrived,
    NodeArrived,
    PastArrived,
    PeopleArrived,
    QueueArrived,
    SeriesArrived,
    ShowMessage,
    Trouble,
)

STREAM_PATH = "/api/v1/stream"
# A keepalive comes every 15 s: a hub that sends nothing for longer is not there.
_STREAM_TIMEOUT_SECONDS = 40.0
_FIRST_RETRY_SECONDS, _MAX_RETRY_SECONDS = 0.5, 10.0
_WATCH_SECONDS = 2.0
_TREND_SECONDS = 600
_STOP_SECONDS = 2.0


class HubFeed:
    """Follows a hub with two threads: one reads the stream, one makes requests.

    Of each kind of request only the latest counts: who scrolls fast does not wait for every node
    that was passed.
    """

    has_history = True

    def __init__(self, client: HubClient) -> None:
        self.source = client.url.partition("://")[2] or client.url
        self._client = client
        self._stream = client.new_connection(_STREAM_TIMEOUT_SECONDS)
        self._deliver: Deliver = lambda _: None
        self._stopped = threading.Event()
        self._changed = threading.Condition()
        self._pending: dict[type, Request] = {}
        self._watched: Watch | None = None
        self._threads = [
            threading.Thread(target=target, name=f"top-{name}", daemon=True)
            for name, target in (("stream", self._follow), ("requests", self._answer))
        ]

    def start(self, deliver: Deliver) -> None:
        """Begin to follow the hub."""
        self._deliver = deliver
        for thread in self._threads:
            thread.start()

    def request(self, request: Request) -> None:
        """Fetch something soon, in place of an earlier request of the same kind."""
        with self._changed:
            if isinstance(request, Watch):
                self._watched = request
            self._pending[type(request)] = request
            self._changed.notify()

    def stop(self) -> None:
        """End both threads."""
        self._stopped.set()
        self._stream.close()  # wakes the thread
        with self._changed:
            self._changed.notify()
        for thread in self._threads:
            thread.join(_STOP_SECONDS)
        self._client.close()

    def _follow(self) -> None:
        retry_seconds = _FIRST_RETRY_SECONDS
        while not self._stopped.is_set():
            reason = "the hub ended its stream"
            try:
                for received in read_events(self._stream, STREAM_PATH):
                    if self._stopped.is_set():
                        return
                    retry_seconds = _FIRST_RETRY_SECONDS
                    kind, event = received or ("change", None)
                    self._deliver(EventArrived(kind, event))
                    if kind == "fleet":
                        self.request(ShowQueue())  # tells whether this hub has a queue
            except FleetError as error:
                reason = str(error)
            except Exception as error:  # noqa: BLE001  # a bug must not end the screen silently
                reason = f"internal error: {error!r}"
            if not self._stopped.is_set():
                self._deliver(Trouble(reason))
            self._stopped.wait(retry_seconds)
            retry_seconds = min(_MAX_RETRY_SECONDS, 2 * retry_seconds)

    def _answer(self) -> None:
        due = time.monotonic() + _WATCH_SECONDS
        while not self._stopped.is_set():
            with self._changed:
                if not self._pending:
                    self._changed.wait(max(0.0, due - time.monotonic()))
                requests, self._pending = [*self._pending.values()], {}
            if time.monotonic() >= due and not requests and self._watched is not None:
                self._fetch(lambda: self._node(self._watched), quiet=True)
            for request in requests:
                self._fetch(self._handler(request), quiet=isinstance(request, Watch | ShowQueue))
            if time.monotonic() >= due or any(isinstance(each, Watch) for each in requests):
                due = time.monotonic() + _WATCH_SECONDS

    def _fetch(self, fetch: Callable[[], None], *, quiet: bool) -> None:
        """Fetch something, and tell why it failed.

        `quiet` is for what is fetched by itself: of a node that is gone, of another site or
        without history nothing more can be known, and a hub that is away is told by the stream.
        """
        if self._stopped.is_set():
            return
        try:
            fetch()
        except FleetError as error:
            if not quiet:
                self._deliver(ShowMessage(str(error)))
        except Exception as error:  # noqa: BLE001  # a bug must not end the screen silently
            self._deliver(ShowMessage(f"internal error: {error!r}"))

    def _handler(self, request: Request) -> Callable[[], None]:
        if isinstance(request, Watch):
            return lambda: self._watch(request)
        if isinstance(request, ShowPeople):
            return lambda: self._deliver(PeopleArrived(self._client.people(at=request.at)))
        if isinstance(request, ShowHistory):
            return lambda: self._history(request)
        if isinstance(request, GoTo):
            return lambda: self._past(request.at)
        if isinstance(request, ShowQueue):
            return self._queue
        return lambda: None

    def _watch(self, watch: Watch) -> None:
        self._node(watch)
        if watch.node_id is not None and watch.at is None:
            series = self._client.series(
                watch.node_id, f"-{_TREND_SECONDS}s", points=_TREND_SECONDS
            )
            self._deliver(SeriesArrived(series))

    def _node(self, watch: Watch | None) -> None:
        if watch is not None and watch.node_id is not None:
            self._deliver(NodeArrived(self._client.node(watch.node_id, watch.at)))

    def _history(self, request: ShowHistory) -> None:
        since, until, columns = request.since, request.until, request.columns
        strips = self._client.strips(since, until, columns=columns, node=request.node)
        ribbon = self._client.ribbon(since, until, columns=columns)
        self._deliver(HistoryArrived(strips, ribbon))

    def _past(self, at: float | None) -> None:
        if at is not None:
            self._deliver(PastArrived(at, self._client.stream_snapshot(at)))

    def _queue(self) -> None:
        try:
            queue = self._client.queue()
        except NotFound:  # a hub of an older version
            queue = None
        self._deliver(QueueArrived(queue))
