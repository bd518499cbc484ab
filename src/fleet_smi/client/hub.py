"""The hub's answers as the model's own nouns."""

import time
from datetime import datetime
from typing import Any, TypeVar
from urllib.parse import quote, urlencode

import msgspec

from fleet_smi.client.connection import HubConnection, Response
from fleet_smi.client.responses import decode_error, decode_response
from fleet_smi.client.tables import JobTable, PeriodTable, SeriesTable, UsageTable
from fleet_smi.errors import FleetError, Refused, Unreachable, UsageError
from fleet_smi.model.fleet import FleetView, NodeView
from fleet_smi.model.history import Job, Ribbon, Strips
from fleet_smi.model.history_responses import Occupancies, StorageStatus
from fleet_smi.model.moment import to_remote_moment
from fleet_smi.model.people import PeopleView
from fleet_smi.model.select import GpuRequest, Offer

Moment = str | float | datetime
"""A moment as people say it, in seconds since 1970, or as Python has it."""
_T = TypeVar("_T")


class HubClient:
    """Asks one hub; every method raises a `DeliveryError` that says what to do."""

    def __init__(
        self,
        url: str,
        *,
        token: str | None = None,
        fingerprint: str | None = None,
        timeout_seconds: float = 10.0,
    ) -> None:
        self._connection = HubConnection(
            url, token=token, fingerprint=fingerprint, timeout_seconds=timeout_seconds
        )

    def fleet(self, at: Moment | None = None) -> FleetView:
        """The whole fleet as the hub believes it now, or as it stood at a moment."""
        return self._get("/api/v1/fleet", FleetView, at=_told(at))

    def free(
        self, request: GpuRequest, *, at: Moment | None = None, explain: bool = False
    ) -> Offer:
        """The GPUs that the hub offers, judged by its own thresholds, now or at a moment.

        With `explain` it also says why each of the others is not offered.
        """
        return self._get(
            "/api/v1/free",
            Offer,
            n=request.count,
            min_free=request.min_free_bytes,
            model=request.model,
            vendor=request.vendor,
            policy=request.policy,
            max_used=str(request.max_used_percent),
            same_node="true" if request.same_node else None,
            why="true" if explain else "false",
            at=_told(at),
        )

    def people(self, user: str | None = None, at: Moment | None = None) -> PeopleView:
        """Who holds GPUs, now or at a moment; with `user`, that person and all their GPUs."""
        return self._get("/api/v1/people", PeopleView, user=user, at=_told(at))

    def node(self, node_id: str) -> NodeView:
        """One node."""
        return self._get(f"/api/v1/nodes/{quote(node_id, safe='')}", NodeView)

    def remove(self, node_id: str) -> None:
        """Forget a node, its data and its credential."""
        self._ask("DELETE", f"/api/v1/nodes/{quote(node_id, safe='')}")

    def label(self, node_id: str, **changes: Any) -> None:
        """Give a node another `name` or `labels`."""
        self._ask("PATCH", f"/api/v1/nodes/{quote(node_id, safe='')}", changes)

    def strips(
        self,
        since: Moment,
        until: Moment = "now",
        *,
        columns: int | None = None,
        filter: str | None = None,
    ) -> Strips:
        """A heat strip: a row a GPU, of those that pass the filter at its end."""
        more = {"columns": columns, "filter": filter}
        return self._over("strips", Strips, since, until, **more)

    def periods(self, since: Moment, until: Moment = "now", **of: str | None) -> PeriodTable:
        """How GPUs stood: of a `node`, a `gpu` or a `user`, or all."""
        return self._over("periods", PeriodTable, since, until, **of)

    def occupancies(self, since: Moment, until: Moment = "now", **of: str | None) -> Occupancies:
        """Who was on GPUs: of a `node`, a `gpu` or a `user`, or all."""
        return self._over("occupancies", Occupancies, since, until, **of)

    def series(
        self, node_id: str, since: Moment, until: Moment = "now", *, points: int | None = None
    ) -> SeriesTable:
        """The figures of one node and its GPUs."""
        what = f"series/{quote(node_id, safe='')}"
        return self._over(what, SeriesTable, since, until, points=points)

    def usages(
        self, since: Moment, until: Moment = "now", *, by: str = "user", daily: bool = False
    ) -> UsageTable:
        """What each user, group, node, model or gpu came to."""
        daily_too = "true" if daily else None
        return self._over("usage", UsageTable, since, until, by=by, daily=daily_too)

    def ribbon(self, since: Moment, until: Moment = "now", *, columns: int | None = None) -> Ribbon:
        """The whole fleet over time, and where nothing was kept."""
        return self._over("ribbon", Ribbon, since, until, columns=columns)

    def jobs(self, since: Moment, until: Moment = "now", **of: str | None) -> JobTable:
        """The jobs of a `user` or on a `node`, or all, the latest first."""
        return self._over("jobs", JobTable, since, until, **of)

    def job(self, job_id: str) -> Job:
        """One job with all its parts."""
        return self._get(f"/api/v1/history/jobs/{quote(job_id, safe='')}", Job)

    def kept(self) -> StorageStatus:
        """How much of the past there is."""
        return self._get("/api/v1/history/state", StorageStatus)

    def close(self) -> None:
        """Let go of the connection."""
        self._connection.close()

    def _over(
        self, what: str, shape: type[_T], since: Moment, until: Moment, **of: str | int | None
    ) -> _T:
        """An answer about a range."""
        moments = {"since": _told(since), "until": _told(until)}
        return self._get(f"/api/v1/history/{what}", shape, **moments, **of)

    def _get(self, path: str, shape: type[_T], **query: str | int | None) -> _T:
        given = {name: value for name, value in query.items() if value is not None}
        asked = f"{path}?{urlencode(given)}" if given else path
        return decode_response(self._ask("GET", asked).body, shape)

    def _ask(self, method: str, path: str, body: Any = None) -> Response:
        data = None if body is None else msgspec.json.encode(body)
        headers = {} if data is None else {"Content-Type": "application/json"}
        answer = self._connection.request(method, path, data, headers)
        if answer.status >= 300:  # the token goes to this hub alone, wherever it points
            raise _error(answer, self._connection.url)
        return answer


def _told(moment: Moment | None) -> str | None:
    """A moment so that a hub with another clock, in another zone, means the same."""
    if moment is None:
        return None
    if isinstance(moment, str):
        return to_remote_moment(moment, time.time())
    return f"{moment.timestamp() if isinstance(moment, datetime) else moment:.3f}"


def _error(answer: Response, url: str) -> FleetError:
    """What an answer that is no success means, in the hub's own words."""
    refusal = decode_error(answer.body)
    if refusal is None:
        words = f"answered with status {answer.status}; is it a fleet-smi hub?"
    else:
        words = refusal.message
    if answer.status in (401, 403, 421):
        return Refused(f"hub {url}: {words}")
    if answer.status in (400, 404, 409, 422):
        return UsageError(f"hub {url}: {words}")
    return Unreachable(f"hub {url}: {words}")
