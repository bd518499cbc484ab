"""The client of a hub's HTTP API: a method per endpoint, responses as structs of the model."""

import time
from datetime import datetime
from typing import Any, TypeVar
from urllib.parse import quote, urlencode

import msgspec

from fleet_smi.client.connection import HubConnection, Response
from fleet_smi.client.responses import decode_response, response_error
from fleet_smi.client.tables import JobTable, PeriodTable, SeriesTable, UsageTable
from fleet_smi.errors import (
    NotFound,
    UsageError,
)
from fleet_smi.model.accounts import PersonalTokenMade, SessionInfo
from fleet_smi.model.candidates import GpuRequest
from fleet_smi.model.closing import Closing, ClosingList
from fleet_smi.model.fleet import FleetPage, FleetView, NodeView
from fleet_smi.model.history import Job, Ribbon, Strips
from fleet_smi.model.history_responses import Occupancies, StorageStatus
from fleet_smi.model.hub_problems import NodesView, Problems
from fleet_smi.model.moment import to_remote_moment
from fleet_smi.model.node_summary import FleetOverview, view_overview
from fleet_smi.model.people import PeopleView
from fleet_smi.model.queue.entries import QueueRequest, request_body
from fleet_smi.model.queue.view import QueueRow, QueueView
from fleet_smi.model.select import BriefOffer, Offer
from fleet_smi.model.views import summarize_nodes
from fleet_smi.wire.event import Event

Moment = str | float | datetime
"""A moment as text ("-2h", "yesterday 03:12"), seconds since 1970, or a `datetime`."""
_QueryValue = str | int | None
_T = TypeVar("_T")
_PAGE_NODES, _JSON = 500, {"Content-Type": "application/json"}


class HubClient:
    """Client of one hub; every method raises a `FleetError` that says what to do."""

    def __init__(
        self,
        url: str,
        *,
        token: str | None = None,
        fingerprint: str | None = None,
        timeout_seconds: float = 10.0,
        connection: HubConnection | None = None,
    ) -> None:
        """Create it; a `connection` is one through the agent of this machine."""
        self._connection = connection or HubConnection(
            url, token=token, fingerprint=fingerprint, timeout_seconds=timeout_seconds
        )
        self.fingerprint = fingerprint

    def new_connection(self, timeout_seconds: float) -> HubConnection:
        """Return another connection to the hub, as for its stream, which occupies one."""
        connection = self._connection
        return HubConnection(
            connection.url,
            token=connection.token,
            fingerprint=self.fingerprint,
            timeout_seconds=timeout_seconds,
        )

    @property
    def url(self) -> str:
        """The URL of the hub, or what stands for it."""
        return self._connection.url

    def limit_wait(self, seconds: float) -> None:
        """Set the timeout of requests."""
        self._connection.limit_wait(seconds)

    def session(self) -> SessionInfo:
        """Who the hub takes the sender for."""
        return self._get("/api/v1/session", SessionInfo)

    def create_personal_token(self, name: str, password: str, note: str) -> PersonalTokenMade:
        """Exchange a name and a password for a personal token."""
        body = {"name": name, "password": password, "note": note}
        response = self.send("POST", "/api/v1/personal-tokens", body)
        return decode_response(response.body, PersonalTokenMade)

    def revoke_current_token(self) -> None:
        """Revoke the personal token that this client uses."""
        self.send("DELETE", "/api/v1/personal-tokens/current")

    def fleet(self, at: Moment | None = None, **filters: str | None) -> FleetView:
        """The whole fleet, or what the hub selects by `user`, `node`, `state` and `filter`.

        `node` is a pattern like `gpu0*`, `sort` the order of the GPUs of a node. With `at` it is
        the fleet at a moment of the past. The summary is always of the whole fleet.
        """
        if at is not None:
            return self._get("/api/v1/fleet", FleetView, at=_encode_moment(at), **filters)
        return self._fleet_by_pages(filters)

    def overview(self, at: Moment | None = None, **filters: str | None) -> FleetOverview:
        """One row per node, of the fleet or of what the filters of `fleet` select."""
        try:
            return self._get("/api/v1/overview", FleetOverview, at=_encode_moment(at), **filters)
        except NotFound:  # a hub of an older version
            return view_overview(self.fleet(at, **filters))

    def free(
        self, request: GpuRequest, *, at: Moment | None = None, explain: bool = False
    ) -> Offer:
        """The GPUs that the hub offers, judged by its own thresholds, now or at a moment.

        With `explain` it also says why each of the others is not offered.
        """
        return self._get("/api/v1/free", Offer, **_offer_query(request, at, explain))

    def offers(
        self,
        request: GpuRequest,
        *,
        at: Moment | None = None,
        explain: bool = False,
        on: str | None = None,
        not_on: str | None = None,
    ) -> BriefOffer | Offer:
        """The same with no more of each GPU than its name, for many GPUs of a large fleet.

        `on` is "any", a node, or nodes by a label ("label:rack=3"), all GPUs on one of them;
        `not_on` are the ids of nodes to leave out, separated by commas.
        """
        query = {**_offer_query(request, at, explain), "on": on, "not_on": not_on}
        try:
            return self._get("/api/v1/offers", BriefOffer, **query)
        except NotFound:  # a hub of an older version
            return self.free(request, at=at, explain=explain)

    def people(self, user: str | None = None, at: Moment | None = None) -> PeopleView:
        """Who holds GPUs, now or at a moment; with `user`, that person and all their GPUs."""
        return self._get("/api/v1/people", PeopleView, user=user, at=_encode_moment(at))

    def nodes(self) -> NodesView:
        """Every node, the problems of the hub, and the senders that it refuses."""
        view, hub = self.fleet(), self.problems()
        return NodesView(
            taken_at=view.taken_at,
            summary=view.summary,
            nodes=view.nodes,
            problems=hub.problems,
            refused=hub.refused,
        )

    def problems(self) -> Problems:
        """The problems of the hub, and the senders that it refuses."""
        try:
            return self._get("/api/v1/problems", Problems)
        except NotFound:  # a hub of an older version
            return Problems()

    def node(self, node_id: str, at: Moment | None = None) -> NodeView:
        """One node, now or at a moment."""
        path = f"/api/v1/nodes/{quote(node_id, safe='')}"
        return self._get(path, NodeView, at=_encode_moment(at))

    def stream_snapshot(self, at: Moment | None = None) -> Event:
        """The fleet as the live stream has it, now or at a moment."""
        return self._get("/api/v1/stream/snapshot", Event, at=_encode_moment(at))

    def remove(self, node_id: str) -> None:
        """Remove a node, its data and its credential."""
        self.send("DELETE", f"/api/v1/nodes/{quote(node_id, safe='')}")

    def label(self, node_id: str, **changes: Any) -> None:
        """Change the `name` or `labels` of a node."""
        self.send("PATCH", f"/api/v1/nodes/{quote(node_id, safe='')}", changes)

    def closings(self) -> tuple[Closing, ...]:
        """What is closed to new work."""
        try:
            return self._get("/api/v1/closings", ClosingList).closings
        except NotFound:  # a hub of an older version
            return ()

    def close_to_new_work(self, **fields: Any) -> Closing:
        """Close a node (`node_id`), one of its GPUs (`uuid`) or a `label` to new work."""
        response = self.send("POST", "/api/v1/closings", fields)
        return decode_response(response.body, Closing)

    def open_again(self, closing_id: str) -> None:
        """Remove a closing."""
        self.send("DELETE", f"/api/v1/closings/{quote(closing_id, safe='')}")

    def strips(
        self,
        since: Moment,
        until: Moment = "now",
        *,
        columns: int | None = None,
        filter: str | None = None,
        node: str | None = None,
    ) -> Strips:
        """A heat map: one row per GPU that matches the filter at the end of the range.

        `node` is a pattern of names, or the id of one.
        """
        options = {"columns": columns, "filter": filter, "node": node}
        return self._get_range("strips", Strips, since, until, **options)

    def periods(self, since: Moment, until: Moment = "now", **filters: str | None) -> PeriodTable:
        """The states of GPUs as intervals; filtered by `node`, `gpu` or `user`."""
        return self._get_range("periods", PeriodTable, since, until, **filters)

    def occupancies(
        self, since: Moment, until: Moment = "now", **filters: str | None
    ) -> Occupancies:
        """The processes on GPUs as intervals; filtered by `node`, `gpu` or `user`."""
        return self._get_range("occupancies", Occupancies, since, until, **filters)

    def series(
        self, node_id: str, since: Moment, until: Moment = "now", *, points: int | None = None
    ) -> SeriesTable:
        """The metrics of one node and its GPUs over time."""
        path = f"series/{quote(node_id, safe='')}"
        return self._get_range(path, SeriesTable, since, until, points=points)

    def usages(
        self, since: Moment, until: Moment = "now", *, by: str = "user", daily: bool = False
    ) -> UsageTable:
        """Usage totals per user, group, node, model or gpu."""
        with_days = "true" if daily else None
        return self._get_range("usage", UsageTable, since, until, by=by, daily=with_days)

    def ribbon(self, since: Moment, until: Moment = "now", *, columns: int | None = None) -> Ribbon:
        """GPUs by state over time for the whole fleet, and the gaps of the history."""
        return self._get_range("ribbon", Ribbon, since, until, columns=columns)

    def jobs(
        self,
        since: Moment,
        until: Moment = "now",
        *,
        idlest: int | None = None,
        **filters: str | None,
    ) -> JobTable:
        """The jobs, the latest first, or this many of the idlest; filtered by `user` or `node`."""
        return self._get_range("jobs", JobTable, since, until, idlest=idlest, **filters)

    def job(self, job_id: str) -> Job:
        """One job with all its parts."""
        return self._get(f"/api/v1/history/jobs/{quote(job_id, safe='')}", Job)

    def storage_status(self) -> StorageStatus:
        """Retention, size and gaps of the history."""
        return self._get("/api/v1/history/state", StorageStatus)

    def queue(self) -> QueueView:
        """Who waits for GPUs, in which order, and why."""
        return self._get("/api/v1/queue", QueueView)

    def join_queue(self, request: QueueRequest) -> QueueRow:
        """Wait for GPUs; the response may have an offer already. It has to be kept."""
        body = request_body(request)
        return decode_response(self.send("POST", "/api/v1/queue", body).body, QueueRow)

    def keep_request(self, request_id: str, **changes: Any) -> QueueRow:
        """Keep a request, with `taken` or `declined` answer its offer, or change it."""
        path = f"/api/v1/queue/{quote(request_id, safe='')}"
        return decode_response(self.send("PATCH", path, changes).body, QueueRow)

    def cancel_request(self, request_id: str) -> None:
        """Remove a request from the queue."""
        self.send("DELETE", f"/api/v1/queue/{quote(request_id, safe='')}")

    def close(self) -> None:
        """Close the connection."""
        self._connection.close()

    def _fleet_by_pages(self, filters: dict[str, str | None]) -> FleetView:
        """The fleet, page by page: a large one in a single response would take too long."""
        try:
            page = self._get("/api/v1/fleet", FleetPage, limit=_PAGE_NODES, **filters)
        except UsageError as error:
            if "limit" not in str(error):
                raise
            # A hub of an older version knows no such parameter, and says so.
            return self._get("/api/v1/fleet", FleetView, **filters)
        summary, nodes, taken_at = page.summary, [*page.nodes], page.taken_at
        while page.next is not None:
            page = self._get(
                "/api/v1/fleet", FleetPage, limit=_PAGE_NODES, after=page.next, **filters
            )
            nodes += page.nodes
            # By the latest: no age is then negative.
            taken_at = max(taken_at, page.taken_at)
        if summary is None:
            summary = summarize_nodes(nodes)
        return FleetView(taken_at=taken_at, summary=summary, nodes=tuple(nodes))

    def _get_range(
        self, path: str, response_type: type[_T], since: Moment, until: Moment, **query: _QueryValue
    ) -> _T:
        """A response of the history about a time range."""
        moments = {"since": _encode_moment(since), "until": _encode_moment(until)}
        return self._get(f"/api/v1/history/{path}", response_type, **moments, **query)

    def _get(self, path: str, response_type: type[_T], **query: _QueryValue) -> _T:
        given = {name: value for name, value in query.items() if value is not None}
        target = f"{path}?{urlencode(given)}" if given else path
        return decode_response(self.send("GET", target).body, response_type)

    def send(self, method: str, path: str, body: Any = None, accepted: int = 0) -> Response:
        """Send a request; raise for a status other than success or the `accepted` one."""
        data = None if body is None else msgspec.json.encode(body)
        response = self._connection.request(method, path, data, _JSON if data else {})
        if response.status >= 300 and response.status != accepted:  # also redirects, elsewhere
            raise response_error(response, self._connection.url)
        return response


def _offer_query(request: GpuRequest, at: Moment | None, explain: bool) -> dict[str, _QueryValue]:
    return {
        "n": request.count,
        "min_free": f"{request.min_free_bytes}B",
        "model": request.model,
        "vendor": request.vendor,
        "policy": request.policy,
        "max_used": str(request.max_used_percent),
        "same_node": "true" if request.same_node else None,
        "why": "true" if explain else "false",
        "at": _encode_moment(at),
    }


def _encode_moment(moment: Moment | None) -> str | None:
    """A moment as text that means the same to a hub with another clock or time zone."""
    if moment is None:
        return None
    if isinstance(moment, str):
        return to_remote_moment(moment, time.time())
    return f"{moment.timestamp() if isinstance(moment, datetime) else moment:.3f}"
