"""The hub's answers as the model's own nouns."""

from typing import Any, TypeVar
from urllib.parse import quote

import msgspec

from fleet_smi.client.answers import read, refusal_in
from fleet_smi.client.connection import Connection, Response
from fleet_smi.errors import FleetError, Refused, Unreachable, UsageError
from fleet_smi.model.fleet import FleetView, NodeView

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
        self._connection = Connection(
            url, token=token, fingerprint=fingerprint, timeout_seconds=timeout_seconds
        )

    def fleet(self) -> FleetView:
        """The whole fleet as the hub believes it now."""
        return self._get("/api/v1/fleet", FleetView)

    def node(self, node_id: str) -> NodeView:
        """One node."""
        return self._get(f"/api/v1/nodes/{quote(node_id, safe='')}", NodeView)

    def remove(self, node_id: str) -> None:
        """Forget a node, its data and its credential."""
        self._ask("DELETE", f"/api/v1/nodes/{quote(node_id, safe='')}")

    def label(self, node_id: str, **changes: Any) -> None:
        """Give a node another `name` or `labels`."""
        self._ask("PATCH", f"/api/v1/nodes/{quote(node_id, safe='')}", changes)

    def close(self) -> None:
        """Let go of the connection."""
        self._connection.close()

    def _get(self, path: str, shape: type[_T]) -> _T:
        return read(self._ask("GET", path).body, shape)

    def _ask(self, method: str, path: str, body: Any = None) -> Response:
        data = None if body is None else msgspec.json.encode(body)
        headers = {} if data is None else {"Content-Type": "application/json"}
        answer = self._connection.request(method, path, data, headers)
        if answer.status >= 300:  # the token goes to this hub alone, wherever it points
            raise _error(answer, self._connection.url)
        return answer


def _error(answer: Response, url: str) -> FleetError:
    """What an answer that is no success means, in the hub's own words."""
    refusal = refusal_in(answer.body)
    if refusal is None:
        words = f"answered with status {answer.status}; is it a fleet-smi hub?"
    else:
        words = refusal.message
    if answer.status in (401, 403, 421):
        return Refused(f"hub {url}: {words}")
    if answer.status in (400, 404, 409, 422):
        return UsageError(f"hub {url}: {words}")
    return Unreachable(f"hub {url}: {words}")
